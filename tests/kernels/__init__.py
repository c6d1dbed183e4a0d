"""`make test-kernels`: tests of drivers and shaping in a virtual machine, with another kernel than the host's.

What it shows is function, never a figure: without KVM a virtual machine is ten to thirty times slower than its host.
"""
