"""The throughput of flows and of clients, from the table `flows`: the one place where these become numbers."""

import numpy as np
import pandas as pd

from pairlab.model import fct


def carried_bps(flows: pd.DataFrame) -> pd.Series:
    """The throughput of each flow, in bit/s; one that failed carried nothing."""
    rates_bps = flows["throughput_bps"].to_numpy(dtype=float)
    carried = (flows["status"] == "ok").to_numpy() & ~np.isnan(rates_bps)
    return pd.Series(np.where(carried, rates_bps, 0.0), index=flows.index, name="throughput_bps")


def client_bps(flows: pd.DataFrame) -> pd.Series:
    """The same of each client of one run: the sum of its flows, by pair.

    Of flows that follow each other (traffic), by pair, what they carried in the time of all.
    """
    if flows["request"].notna().any():
        return fct.carried_bps(flows)
    return carried_bps(flows).groupby(flows["pair"]).sum()
