"""Many runs at once, as pandas DataFrames."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pairlab import paths, store
from pairlab.errors import DamagedRun, MixedHosts, NoRuns, SchemaMismatch
from pairlab.records import TABLES, Run
from pairlab.spec import Spec


@dataclass(frozen=True)
class Runs:
    """Many runs, as DataFrames. Only runs with status ok are in flows, intervals and cpu.

    index has a row per run, whatever its status: the spec's values, key, status, reasons (one text), skew_s and
    host. The other frames carry the spec's values and the key as columns before their own (asked_duration_s is the
    spec's, where duration_s is the flow's). damaged names the runs left out as they are not whole, or were written by
    a newer pairlab, with the reason. A table is read when asked for; of many flows, take what is needed by `select`.
    """

    runs: tuple[Run, ...]
    damaged: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @cached_property
    def index(self) -> pd.DataFrame:
        rows = [
            {
                "key": run.key,
                **run.spec.model_dump(),
                "status": run.status,
                "reasons": "; ".join(run.reasons),
                "skew_s": run.skew_s,
                "host": run.facts.get("host", {}).get("fingerprint", ""),
                "measured_at": run.measured_at,
            }
            for run in self.runs
        ]
        return pd.DataFrame(rows, columns=None if rows else ["key", *Spec.model_fields, "status", "reasons"])

    @cached_property
    def flows(self) -> pd.DataFrame:
        return self._joined("flows")

    @cached_property
    def intervals(self) -> pd.DataFrame:
        return self._joined("intervals")

    @cached_property
    def cpu(self) -> pd.DataFrame:
        return self._joined("cpu")

    @property
    def left_out(self) -> pd.DataFrame:
        """The runs that are not ok: never a silent loss."""
        return self.index[self.index["status"] != "ok"]

    def select(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of the table flows, intervals or cpu. No others are read, so it serves for millions of rows.

        columns: the key, values of the spec and columns of the table, named as in the whole table. Texts are
        categoricals. Raises KeyError for a column that there is not, NoRuns where no run is ok.
        """
        return self._joined(name, list(columns))

    def _joined(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        ok = [run for run in self.runs if run.status == "ok"]
        if not ok:
            raise NoRuns(f"none of the {len(self.runs)} runs is ok: {'; '.join(sorted(set(self.index['reasons'])))}")
        asked = {key: f"asked_{key}" if key in TABLES[name] else key for key in ("key", *Spec.model_fields)}
        told = self.index.loc[self.index["status"] == "ok", list(asked)].rename(columns=asked)
        whole = [*told, *TABLES[name]]
        wanted = whole if columns is None else columns
        if unknown := [column for column in wanted if column not in whole]:
            raise KeyError(f"{name} has no column {', '.join(unknown)}; there are: {', '.join(whole)}")
        # A table is never read without any column, or it would have no rows.
        measured = [column for column in wanted if column in TABLES[name]] or list(TABLES[name])[:1]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = list(pool.map(lambda run: store.columns(run, name, measured, texts_once=columns is not None), ok))
        rows = [table.num_rows for table in read]
        table = pa.concat_tables(read).unify_dictionaries()
        del read
        parts = dict(table.to_pandas(split_blocks=True, self_destruct=True).items())
        del table  # it has given its memory away
        for column in told.columns.intersection(wanted):
            parts[column] = _repeated(told[column], rows, as_category=columns is not None)
        return pd.DataFrame({column: parts[column] for column in wanted}, copy=False)


def _repeated(
    values: pd.Series, rows: Sequence[int], *, as_category: bool
) -> np.ndarray | pd.api.extensions.ExtensionArray:
    """The value of each run in each of its rows."""
    if pd.api.types.is_numeric_dtype(values):
        return np.repeat(values.to_numpy(), rows)
    once = pd.Categorical(values)
    every = pd.Categorical.from_codes(np.repeat(once.codes, rows), dtype=once.dtype)
    return every if as_category else every.astype(values.dtype)


def load_runs(
    root: str | Path | None = None,
    *,
    experiment: str | None = None,
    sweep: str = "",
    pool_hosts: bool = False,
) -> Runs:
    """The runs below `root` (default: runs/; relative paths count from the checkout's root).

    sweep: only the cells of the sweep of that name, or of `name/backend`. Raises NoRuns when there are none,
    MixedHosts when they come from hosts that differ and `pool_hosts` does not say that this is meant, StoreError when
    one cannot be read. Runs that are damaged, or newer than this pairlab, are named and not raised.
    """
    root = paths.within_root(root) if root else paths.runs()
    wanted = store.keys_of_sweep(sweep, root) if sweep else None
    runs, damaged = [], []
    for place in store.directories(root, experiment):
        if wanted is not None and place.name not in wanted:
            continue
        try:
            runs.append(store.read(place))
        except (DamagedRun, SchemaMismatch) as error:
            damaged.append(str(error))
    what = f"runs of {experiment!r}" if experiment else "runs"
    if not runs:
        spoilt = f" but {len(damaged)} left out, the first: {damaged[0]}" if damaged else ""
        raise NoRuns(
            f"no {what} in {paths.shown(root)}: measure some, for instance with `make run`,"
            f" or `pairlab run {experiment or 'throughput'}`{spoilt}"
        )
    found = Runs(tuple(runs), tuple(damaged))
    hosts = set(found.index.loc[found.index["status"] == "ok", "host"])
    if len(hosts) > 1 and not pool_hosts:
        raise MixedHosts(
            f"the {what} in {paths.shown(root)} come from {len(hosts)} different hosts ({'; '.join(sorted(hosts))}),"
            " whose numbers do not belong in one figure: keep them in a folder each, or say pool_hosts=True"
        )
    return found
