"""Many runs at once, as pandas DataFrames."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from pairlab import cards, paths, store
from pairlab.errors import DamagedRun, MixedHosts, NoRuns, SchemaMismatch
from pairlab.records import STATUSES, TABLES, Run
from pairlab.spec import Spec


@dataclass(frozen=True)
class Runs:
    """Many runs, as DataFrames. Only runs with status ok are in flows, intervals and cpu.

    index has a row per run, whatever its status: the spec's values, key, status, reasons (one text), failed_flows
    (missing where it was not noted), skew_s and host. The other frames carry the spec's values and the key as columns
    before their own (asked_duration_s is the spec's, where duration_s is the flow's). damaged names the runs left out
    as they are not whole, newer those that only a newer pairlab can read, each with the reason. A table is read when
    asked for; of many flows, take what is needed by `select`.

    root (the folder), experiments (empty: all) and digest tell what was loaded, and stay when `where` takes a part of
    it: a result made of the part is out of date when the whole is another.
    """

    runs: tuple[Run, ...]
    damaged: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    digest: str = ""
    root: Path | None = None

    def __post_init__(self):
        if not self.digest:
            object.__setattr__(self, "digest", digest_of(self.runs))

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __str__(self) -> str:
        told = [self._counted, *(f"{name}: {cells}" for name, cells in self._contents)]
        return "\n".join([*told, *(f"left out, {why}" for why in self._why_left_out)])

    def __repr__(self) -> str:
        return f"<Runs: {self._counted}>"

    def _repr_html_(self) -> str:
        left_out = [("left out", why) for why in self._why_left_out]
        return cards.card(
            "Runs", [*self._contents, *left_out], badge=self._counted, tone="warn" if left_out else "good"
        )

    @property
    def _counted(self) -> str:
        """How many of each status, and where they lie: "3 ok, 1 invalid, in runs/mine"."""
        counts = Counter(run.status for run in self.runs)
        told = ", ".join(f"{counts[status]:,} {status}" for status in STATUSES if counts[status]) or "none"
        return f"{told}, in {paths.shown(self.root)}" if self.root else told

    @property
    def _contents(self) -> list[tuple[str, str]]:
        """By experiment: how many runs of which backends, workloads and drivers, with how many pairs."""
        if not self.runs:
            return []
        found = []
        for experiment, part in self.index.groupby("experiment"):
            names = "; ".join(", ".join(sorted(part[name].unique())) for name in ("backend", "workload", "driver"))
            pairs = ", ".join(map(str, sorted(part["pairs"].unique())))
            runs = f"{len(part):,} run{'s' * (len(part) != 1)}"
            found.append((experiment, f"{runs}: {names}; {pairs} pair{'s' * (pairs != '1')}"))
        return found

    @property
    def _why_left_out(self) -> list[str]:
        """What is not in the frames, and why: a line for each status and reason, and for each run that is damaged."""
        told = Counter((run.status, "; ".join(run.reasons)) for run in self.runs if run.status != "ok")
        return [
            *(f"{status}: {count} run{'s' * (count != 1)}, {why}" for (status, why), count in told.items()),
            *(f"not readable: {why}" for why in self.unread),
        ]

    @cached_property
    def index(self) -> pd.DataFrame:
        rows = [
            {
                "key": run.key,
                **run.spec.model_dump(),
                "status": run.status,
                "reasons": "; ".join(run.reasons),
                "failed_flows": run.checks.get("failed_flows"),
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

    def where(self, accept: Callable[[Run], bool]) -> "Runs":
        """The runs that `accept` says yes to, still known to be of the same loaded set."""
        return replace(self, runs=tuple(run for run in self.runs if accept(run)))

    @property
    def unread(self) -> tuple[str, ...]:
        """The runs that could not be read, whatever the reason."""
        return self.damaged + self.newer

    @property
    def left_out(self) -> pd.DataFrame:
        """The runs that are not ok: never a silent loss."""
        return self.index[self.index["status"] != "ok"]

    def select(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of the table flows, intervals or cpu. No others are read, so it serves for millions of rows.

        columns: the key, values of the spec and columns of the table, named as in the whole table. Texts, and all
        that is the run's and not the row's, are categoricals. Raises KeyError for a column that there is not, NoRuns
        where no run is ok, DamagedRun where a table proves to be damaged.
        """
        ok, told = self._told(name)
        whole = [*told, *TABLES[name]]
        if unknown := [column for column in columns if column not in whole]:
            raise KeyError(f"{name} has no column {', '.join(unknown)}; there are: {', '.join(whole)}")
        rows = [store.length(run, name) for run in ok]
        parts = _read(ok, rows, name, [column for column in columns if column in TABLES[name]])
        for column in told.columns.intersection(columns):
            once = pd.Categorical(told[column])
            parts[column] = pd.Categorical.from_codes(np.repeat(once.codes, rows), dtype=once.dtype)
        return pd.DataFrame({column: parts[column] for column in columns}, copy=False)

    def _joined(self, name: str) -> pd.DataFrame:
        frame = self.select(name, [*self._told(name)[1], *TABLES[name]])
        categories = {key: column.cat.categories for key, column in frame.select_dtypes("category").items()}
        return frame.astype({key: values.dtype for key, values in categories.items()})

    def _told(self, name: str) -> tuple[list[Run], pd.DataFrame]:
        """The runs that are ok, and a row for each with what is its own: key and spec, as named in that table."""
        ok = [run for run in self.runs if run.status == "ok"]
        if not ok:
            raise NoRuns(f"none of the {len(self.runs)} runs is ok: {'; '.join(sorted(set(self.index['reasons'])))}")
        asked = {key: f"asked_{key}" if key in TABLES[name] else key for key in ("key", *Spec.model_fields)}
        return ok, self.index.loc[self.index["status"] == "ok", list(asked)].rename(columns=asked)


def _read(runs: Sequence[Run], rows: Sequence[int], name: str, columns: Sequence[str]) -> dict:
    """These columns of all the runs' tables, one after the other; several are read at once, and none is held twice."""
    ends = np.cumsum(rows)
    spans = [slice(end - count, end) for end, count in zip(ends, rows, strict=True)]
    texts = [column for column in columns if TABLES[name][column].dtype == "str"]
    read = {column: np.empty(ends[-1], TABLES[name][column].dtype) for column in columns if column not in texts}

    def fill(run: Run, span: slice) -> dict[str, tuple[np.ndarray, list[str]]]:
        table = store.columns(run, name, columns)
        for column, values in read.items():
            values[span] = table[column].to_numpy()
        return {column: _indices(table[column]) for column in texts}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(fill, runs, spans)) if columns else []
    for column in texts:
        categories = list(dict.fromkeys(text for part in found for text in part[column][1]))
        codes = np.empty(ends[-1], np.min_scalar_type(-max(1, len(categories))))
        for part, span in zip(found, spans, strict=True):
            indices, own = part[column]
            same = own == categories[: len(own)]
            codes[span] = indices if same else np.array([*map(categories.index, own), -1])[indices]
        read[column] = pd.Categorical.from_codes(codes, categories=pd.Index(categories, dtype="str"))
    return read


def _indices(texts: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Texts as small integers into a list of them; -1 for what is missing."""
    once = texts.unify_dictionaries().combine_chunks()
    known = once.dictionary.to_pylist()
    return once.indices.fill_null(-1).to_numpy().astype(np.min_scalar_type(-max(1, len(known)))), known


def digest_of(runs: Iterable[Run], experiments: Sequence[str] = ()) -> str:
    """16 hex digits over the keys and times of the runs that count (of these experiments; none named: of all).

    Other runs, or the same cells measured again, have another digest.
    """
    counted = [run for run in runs if run.status == "ok" and (not experiments or run.spec.experiment in experiments)]
    times = {run.key: run.measured_at.astimezone(UTC).isoformat() if run.measured_at else "" for run in counted}
    told = "\n".join(f"{key} {time}" for key, time in sorted(times.items()))
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def load_runs(
    root: str | Path | None = None,
    *,
    experiment: str | Sequence[str] | None = None,
    sweep: str = "",
    pool_hosts: bool = False,
) -> Runs:
    """The runs below `root` (default: runs/; relative paths count from the checkout's root).

    experiment: only the runs of that one, or of these. sweep: only the cells of the sweep of that name, or of
    `name/backend`. Raises NoRuns when there are none,
    MixedHosts when they come from hosts that differ and `pool_hosts` does not say that this is meant, StoreError when
    one cannot be read. Runs that are damaged, or newer than this pairlab, are named and not raised.
    """
    root = paths.within_root(root) if root else paths.runs()
    wanted = store.keys_of_sweep(sweep, root) if sweep else None
    names = (experiment,) if isinstance(experiment, str) else tuple(experiment or ())
    runs, damaged, newer = [], [], []
    for place in store.directories(root):
        if (names and place.parent.name not in names) or (wanted is not None and place.name not in wanted):
            continue
        try:
            runs.append(store.read(place))
        except DamagedRun as error:
            damaged.append(str(error))
        except SchemaMismatch as error:
            newer.append(str(error))
    what = f"runs of {', '.join(map(repr, names))}" if names else "runs"
    if not runs:
        unread = damaged + newer
        spoilt = f" but {len(unread)} left out, the first: {unread[0]}" if unread else ""
        raise NoRuns(
            f"no {what} in {paths.shown(root)}: measure some, for instance with `make run`,"
            f" or `pairlab run {names[0] if names else 'throughput'}`{spoilt}"
        )
    found = Runs(tuple(runs), tuple(damaged), tuple(newer), names, root=root)
    hosts = set(found.index.loc[found.index["status"] == "ok", "host"])
    if len(hosts) > 1 and not pool_hosts:
        raise MixedHosts(
            f"the {what} in {paths.shown(root)} come from {len(hosts)} different hosts ({'; '.join(sorted(hosts))}),"
            " whose numbers do not belong in one figure: keep them in a folder each, or say pool_hosts=True"
        )
    return found
