"""The numbers that the papers state, each row with the table, figure or section it stands in."""

import re

import pandas as pd

from pairlab import paths
from pairlab.errors import UnknownName

FOLDER = paths.DATA / "published"

#: What the one-letter keys stand for.
PAPERS = {
    "C": "Boeira, Neves, Ferreto, Haque: Characterizing network performance of single-node large-scale"
    " container deployments",
    "E": "Boeira, Ferreto: Exploring Network Contention in Containers",
    "M": "Mentz, Loch, Koslovski: Comparative experimental analysis of Docker container networking drivers",
    "S": "Suo, Zhao, Chen, Rao: An analysis and empirical study of container networks",
}


def load(name: str) -> pd.DataFrame:
    """One published table; every row has `paper` (a key of PAPERS) and `source` (where in it).

    throughput: driver, pairs, client_bps, total_bps: means of paper E, table I; it states no spread.
    saturation: driver, total_bps, note: the levels that paper C states for its figure 2.
    fairness: driver (or all), pairs, low_bps, high_bps, most_over_least, note: how far the clients lie apart.
    fct: driver, pairs, quantile, fct_s. fct_changes: driver, quantile, from_pairs, to_pairs, change_percent.
    fct_ranges: experiment, role, pairs, low_s, high_s, note: between which bounds all flows end.
    core_ratio: driver, what, factor_per_step, note. pinning: driver, policy, pairs, cores, change_percent, note.
    placement_levels: experiment, allocation (questions/allocations), driver, total_bps, note: means of paper M.
    placement_changes: experiment, allocation, driver (or all), what (throughput, latency, cpu), against (drivers, the
    experiment placement, or another allocation), low_percent, high_percent, note. run_times: load, driver, against,
    change_percent: how much longer the traffic of paper M took.
    service_demands: driver, client_cpu_percent, server_cpu_percent, client_demand_s, server_demand_s: CPU time of a
    transaction by UDP in paper S. launch_times: hosts, driver, launch_s: from the command that creates a container to
    its first answered ping, there. network_changes: experiment, driver (or several), what, message_bytes, against,
    low_percent, high_percent, note: what paper S states of networks in percent.
    testbeds: fact, value: what the papers say of their machines and of what they ran.
    Rates are in bit/s and times in s (the files keep Gbit/s, ms and µs); what a paper does not state is missing.
    Raises UnknownName, with the choices.
    """
    known = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if name not in known:
        raise UnknownName(f"no published table {name!r}; there are: {', '.join(known)}")
    table = pd.read_csv(FOLDER / f"{name}.csv")
    for column in list(table):
        if column.endswith("_gbit_per_s"):
            table[column] = (table[column] * 1e9).round()
        elif column.endswith("_ms"):
            table[column] = table[column] / 1e3
        elif column.endswith("_us"):
            table[column] = table[column] / 1e6
    return table.rename(columns=lambda column: re.sub("_gbit_per_s$", "_bps", re.sub("_(ms|us)$", "_s", column)))
