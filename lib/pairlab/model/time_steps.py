"""What flows carried in steps of time that are not the intervals that tools report."""

import numpy as np
from numpy.typing import ArrayLike


def carried_bytes(edges_s: ArrayLike, start_s: ArrayLike, end_s: ArrayLike, interval_bytes: ArrayLike) -> np.ndarray:
    """The bytes that one flow carried between each two of the edges, which rise.

    start_s, end_s, interval_bytes: of each interval that was reported, in any order, from the same moment as the edges.
    What came in an interval is taken to be spread evenly over it; outside of all of them there is nothing.
    """
    rows = np.column_stack([start_s, end_s, interval_bytes]).astype(float)
    rows = rows[np.argsort(rows[:, 0])]
    after = np.cumsum(rows[:, 2])
    before = np.concatenate([[0.0], after[:-1]])
    edges = np.asarray(edges_s, dtype=float)
    return np.diff(np.interp(edges, rows[:, :2].ravel(), np.column_stack([before, after]).ravel()))
