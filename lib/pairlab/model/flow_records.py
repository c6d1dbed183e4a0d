"""The file that `flowgen traffic --records` writes: a record for each flow, in the order of their ends.

Its other description is lib/flowgen/src/flowrecords.h.
"""

from pathlib import Path

import numpy as np

#: A record. Moments are of CLOCK_MONOTONIC in ns, and 0 where the flow did not come to that; intended_ns is when it was
#: due, start_ns when it was asked for; error is the errno of a flow that failed, whose completed_ns is 0.
RECORD = np.dtype(
    [
        ("flow_bytes", np.uint64),
        ("received_bytes", np.uint64),
        ("intended_ns", np.uint64),
        ("start_ns", np.uint64),
        ("first_byte_ns", np.uint64),
        ("completed_ns", np.uint64),
        ("request", np.uint32),
        ("server", np.uint16),
        ("error", np.uint16),
        ("reserved", np.uint64),
    ]
)
_HEADING = b"flowgen traffic 1\n".ljust(RECORD.itemsize, b"\0")


def read(path: Path) -> np.ndarray:
    """All flows of the file, an array of RECORD in the order of their ends.

    Raises ValueError where it is no such file, or ends within a record, as that of a client that was killed may.
    """
    with open(path, "rb") as file:
        if file.read(len(_HEADING)) != _HEADING:
            raise ValueError(f"{path} does not begin as a file of flowgen traffic does")
        flows = np.fromfile(file, RECORD)
        if file.tell() != path.stat().st_size:
            raise ValueError(f"{path} ends within a record: its client was killed, or the disk was full")
    return flows
