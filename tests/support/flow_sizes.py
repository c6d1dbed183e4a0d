"""Whether flow sizes are those of a distribution."""

import numpy as np
from scipy import stats

from pairlab.model.flow_sizes import FlowSizes


def ks_p(flow_bytes: np.ndarray, sizes: FlowSizes) -> float:
    """The p-value of a Kolmogorov-Smirnov test; sizes are whole bytes, which makes it larger, never smaller."""
    values, counts = np.unique(flow_bytes, return_counts=True)
    above = np.cumsum(counts) / len(flow_bytes)
    below = np.concatenate([[0], above[:-1]])
    apart = max(np.abs(above - sizes.cdf(values)).max(), np.abs(below - sizes.cdf(values.astype(float) - 1)).max())
    return float(stats.kstwobign.sf(apart * np.sqrt(len(flow_bytes))))
