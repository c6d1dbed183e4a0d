"""Hosts with kernels of their own: user-mode Linux."""

#: The device of a host that becomes its uplink.
VECTOR = "vec0"
