"""The numbers that the papers state, each row with the table, figure or section it stands in."""

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
    testbeds: fact, value: what the papers say of their machines and of what they ran.
    Rates are in bit/s and times in s (the files keep Gbit/s and ms); what a paper does not state is missing.
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
    return table.rename(columns=lambda column: column.replace("_gbit_per_s", "_bps").replace("_ms", "_s"))
