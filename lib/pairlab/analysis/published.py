"""The numbers that papers C and E state, each row with the table, figure or section it stands in."""

import pandas as pd

from pairlab import paths
from pairlab.errors import UnknownName

FOLDER = paths.DATA / "published"

#: What the one-letter keys stand for.
PAPERS = {
    "C": "Boeira, Neves, Ferreto, Haque: Characterizing network performance of single-node large-scale"
    " container deployments",
    "E": "Boeira, Ferreto: Exploring Network Contention in Containers",
}


def load(name: str) -> pd.DataFrame:
    """One published table; every row has `paper` (a key of PAPERS) and `source` (where in it).

    throughput: driver, pairs, client_bps, total_bps: means of paper E, table I; it states no spread.
    saturation: driver, total_bps, note: the levels that paper C states for its figure 2.
    testbeds: fact, value: what both papers say of their machines.
    Rates are in bit/s (the files keep Gbit/s, as printed). Raises UnknownName, with the choices.
    """
    known = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if name not in known:
        raise UnknownName(f"no published table {name!r}; there are: {', '.join(known)}")
    table = pd.read_csv(FOLDER / f"{name}.csv")
    for column in [column for column in table if column.endswith("_gbit_per_s")]:
        table[column] = (table[column] * 1e9).round()
    return table.rename(columns=lambda column: column.replace("_gbit_per_s", "_bps"))
