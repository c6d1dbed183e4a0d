"""The papers' numbers, each row with its table, figure or section."""

import re

import pandas as pd

from pairlab import paths
from pairlab.errors import UnknownName

FOLDER = paths.DATA / "published"

#: The source of a claim by the study itself, not a paper.
OWN = "own"
#: The papers by key. Titles: CITATION.cff.
PAPERS = {
    "C": "Boeira et al. 2021",
    "E": "Boeira and Ferreto",
    "M": "Mentz et al. 2020",
    "S": "Suo et al. 2018",
    OWN: "this study",
}


def load(name: str) -> pd.DataFrame:
    """One published table; every row has `paper` (a key of PAPERS, as below) and `source` (the place in it).

    throughput: driver, pairs, client_bps, total_bps: means of E, table I; it states no spread.
    saturation: driver, total_bps, note: the levels that C states for its figure 2.
    fairness: driver (or all), pairs, low_bps, high_bps, most_over_least, note: the spread between clients.
    fct: driver, pairs, quantile, fct_s. fct_changes: driver, quantile, from_pairs, to_pairs, change_percent.
    fct_ranges: experiment, role, pairs, low_s, high_s, note: the bounds within which all flows end.
    core_ratio: driver, what, factor_per_step, note. pinning: driver, policy, pairs, cores, change_percent, note.
    placement_levels: experiment, allocation (questions/allocations), driver, total_bps, note: means of M.
    placement_changes: experiment, allocation, driver (or all), what (throughput, latency, cpu), against (drivers, the
    experiment placement, or another allocation), low_percent, high_percent, note. run_times: load, driver, against,
    change_percent: by how much longer the traffic of M took.
    service_demands: driver, client_cpu_percent, server_cpu_percent, client_demand_s, server_demand_s: CPU time of a
    transaction by UDP in S. launch_times: hosts, driver, launch_s: from the command that creates a container to
    its first answered ping, there. network_changes: experiment, driver (or several), what, message_bytes, against,
    low_percent, high_percent, note: S on networks, in percent.
    testbeds: fact, value: the papers' machines and software.
    Rates are in bit/s and times in s (the files keep Gbit/s, ms and µs); a value that no paper states is missing.
    Raises UnknownName, with the choices.
    """
    names = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if name not in names:
        raise UnknownName(f"no published table {name!r}; there are: {', '.join(names)}")
    table = pd.read_csv(FOLDER / f"{name}.csv")
    for column in list(table):
        if column.endswith("_gbit_per_s"):
            table[column] = (table[column] * 1e9).round()
        elif column.endswith("_ms"):
            table[column] = table[column] / 1e3
        elif column.endswith("_us"):
            table[column] = table[column] / 1e6
    return table.rename(columns=lambda column: re.sub("_gbit_per_s$", "_bps", re.sub("_(ms|us)$", "_s", column)))
