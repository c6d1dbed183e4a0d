"""Many runs at once, as pandas DataFrames."""

import hashlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
import pyarrow as pa

from pairlab import paths, store
from pairlab.base import html_repr, units
from pairlab.errors import BadInput, DamagedRun, NoRuns, SchemaMismatch, UnknownName, hint
from pairlab.model import blocks, others
from pairlab.model import environment as environments
from pairlab.model.records import STATUSES, Run, no_attribute
from pairlab.model.spec import Spec, value_of
from pairlab.model.tables import TABLES
from pairlab.store.catalogue import looked_for, no_runs
from pairlab.store.paths import key_of

#: Columns of every frame that come from the run, not from its table, besides the fields of the spec.
ENVIRONMENT = ("host", "kernel")

#: Below as many rows, a frame is made in one piece; above, no column is copied.
_FEW_ROWS = 1_000_000
#: Columns that every frame of transactions has, even where the runs do not differ in them.
_ALWAYS = ("experiment", "backend", "workload", "driver", "pairs", "repetition", *ENVIRONMENT)
_NUMBER = re.compile(r"\d[\d.,]*")


def _of_all_runs(table: str) -> "cached_property[pd.DataFrame]":
    return cached_property(lambda runs: runs._joined(table))


@dataclass(frozen=True)
class Runs:
    """A sequence of runs, and DataFrames of all of them: runs[0], runs[-3:], runs["<key>"], runs.where(pairs=2).

    Only runs with status ok are in flows, intervals, transactions and cpu. index has a row per run, whatever its
    status: the spec's values, key, status, reasons (one text), failed_flows (missing where it was not noted), skew_s,
    host and kernel. The other frames carry the key, the spec's values, host and kernel as columns before their own
    (asked_duration_s is the spec's, where duration_s is the flow's); transactions, of which there can be millions, only
    those in which the runs differ. A table is read when asked for; of many flows, take what is needed by `select`.

    damaged names the runs left out as they are not whole, newer those that only a newer pairlab can read, elsewhere
    those that were measured in another environment: each a line with the reason. places says where each backend was
    measured if not all in one place, else it is empty. root (the folder), experiments (empty: all)
    and digest say what was loaded, and stay when `where` takes a part of it: a result made of the part is out of date
    when the whole is another.
    """

    runs: tuple[Run, ...]
    damaged: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    digest: str = ""
    root: Path | None = None
    elsewhere: tuple[str, ...] = ()
    places: str = ""

    def __post_init__(self):
        if not self.digest:
            object.__setattr__(self, "digest", digest_of(self.runs))

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @overload
    def __getitem__(self, which: int | str) -> Run: ...

    @overload
    def __getitem__(self, which: slice) -> "Runs": ...

    def __getitem__(self, which: int | str | slice) -> "Run | Runs":
        """The run at that place or with that key, or the runs of a slice."""
        if isinstance(which, slice):
            return replace(self, runs=self.runs[which])
        if isinstance(which, str):
            if which not in self._by_key:
                raise KeyError(f"no run has the key {which!r}; the column key of `index` has the {len(self)} there are")
            return self._by_key[which]
        if not isinstance(which, int | np.integer):
            raise TypeError(
                f"runs are taken by number, slice or key, not by {type(which).__name__}; `where` takes a part of them"
            )
        if not -len(self) <= which < len(self):
            raise IndexError(f"no run {which}: there are {len(self)}")
        return self.runs[which]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(no_attribute("a set of runs", name, type(self)), name=name, obj=self)

    def __str__(self) -> str:
        lines = [self._counted, *(f"{name}: {cells}" for name, cells in self._contents)]
        left_out = (f"left out, {why}" for why in self._why_left_out)
        return "\n".join([*lines, *left_out, *filter(None, [self.places])])

    def __repr__(self) -> str:
        return f"<Runs: {self._counted}>"

    def _repr_html_(self) -> str:
        left_out = [("left out", why) for why in self._why_left_out]
        noted = [("note", self.places)] if self.places else []
        return html_repr.summary(
            "Runs", [*self._contents, *left_out, *noted], badge=self._counted, tone="warn" if left_out else "good"
        )

    @property
    def _counted(self) -> str:
        """The number of runs by status, and their folder: "3 ok, 1 invalid, in runs/mine"."""
        counts = Counter(run.status for run in self.runs)
        text = ", ".join(f"{counts[status]:,} {status}" for status in STATUSES if counts[status]) or "none"
        return f"{text}, in {paths.shown(self.root)}" if self.root else text

    @property
    def _contents(self) -> list[tuple[str, str]]:
        """By experiment: how many runs of which backends, workloads and drivers, with how many pairs."""
        if not self.runs:
            return []
        experiments = []
        for experiment, part in self.index.groupby("experiment"):
            names = "; ".join(", ".join(sorted(part[name].unique())) for name in ("backend", "workload", "driver"))
            pairs = ", ".join(map(str, sorted(part["pairs"].unique())))
            runs = f"{len(part):,} run{'s' * (len(part) != 1)}"
            experiments.append((experiment, f"{runs}: {names}; {pairs} pair{'s' * (pairs != '1')}"))
        return experiments

    @property
    def _why_left_out(self) -> list[str]:
        """What is not in the frames: a line for each status and reason, whatever its numbers, and each damaged run."""
        alike: dict[tuple[str, str], list[str]] = {}
        for run in self.runs:
            if run.status != "ok":
                why = "; ".join(run.reasons)
                alike.setdefault((run.status, _NUMBER.sub("0", why)), []).append(why)
        return [
            *(f"{status}: {_first_of(reasons)}" for (status, _), reasons in alike.items()),
            *(f"not readable: {why}" for why in self.unread),
            *self.elsewhere,
        ]

    @cached_property
    def _by_key(self) -> dict[str, Run]:
        return {run.key: run for run in self.runs}

    @cached_property
    def index(self) -> pd.DataFrame:
        hosts = environments.host_names(run.environment for run in self.runs)
        rows = [
            {
                "key": run.key,
                **run.spec.model_dump(),
                "status": run.status,
                "reasons": "; ".join(run.reasons),
                "failed_flows": run.checks.get("failed_flows"),
                "skew_s": run.skew_s,
                "host": hosts[run.environment],
                "kernel": run.environment.kernel,
                "label": run.environment.label,
                "measured_at": run.measured_at,
                "block": blocks.label_of(run),
            }
            for run in self.runs
        ]
        return pd.DataFrame(
            rows,
            columns=None if rows else ["key", *Spec.model_fields, "status", "reasons", *ENVIRONMENT, "label", "block"],
        )

    flows = _of_all_runs("flows")
    intervals = _of_all_runs("intervals")
    transactions = _of_all_runs("transactions")
    cpu = _of_all_runs("cpu")

    def where(self, accept: Callable[[Run], bool] | None = None, /, **values: Any) -> "Runs":
        """The runs that `accept` says yes to and that have these values, still known to be of the same loaded set.

        values: by the names of index's columns, such as pairs=2 or status="ok"; several are given as a list, tuple or
        set. Numbers are taken as people write them. Raises UnknownName for a column that there is not.
        """
        for name in values:
            if name not in self.index:
                raise UnknownName(f"runs have no {name!r}{hint(name, self.index)} (there are: {', '.join(self.index)})")
        if accept is not None and not callable(accept):
            raise TypeError(f"where takes a function of a run, or values by name such as pairs=2, not {accept!r}")
        fits = np.ones(len(self), dtype=bool)
        for name, value in values.items():
            several = list(value) if isinstance(value, list | tuple | set | range) else [value]
            several = [value_of(name, each) for each in several]
            if name not in Spec.model_fields and pd.api.types.is_numeric_dtype(self.index[name]):
                try:
                    several = [units.as_kind(each, float, units.unit_of(name)) for each in several]
                except ValueError as error:
                    raise BadInput(f"{name}: {error}") from None
            fits &= self.index[name].isin(several)
        chosen = (run for run, fit in zip(self.runs, fits, strict=True) if fit)
        return replace(self, runs=tuple(run for run in chosen if accept is None or accept(run)))

    @property
    def unread(self) -> tuple[str, ...]:
        """The runs that could not be read, whatever the reason."""
        return self.damaged + self.newer

    @property
    def left_out(self) -> pd.DataFrame:
        """The runs that are not ok: never a silent loss."""
        return self.index[self.index["status"] != "ok"]

    def select(self, name: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of the table flows, intervals, transactions or cpu.

        No others are read, so it serves for millions of rows.
        columns: the key, values of the spec and columns of the table, named as in the whole table. Texts are
        categoricals. The frame's attrs have what others took of each run's time, by key (others.SHARES). Raises
        KeyError for a column that there is not, NoRuns where no run is ok, DamagedRun where a table proves to be
        damaged.
        """
        ok, of_runs = self._ok, self.counted(name)
        whole = [*of_runs, *self._columns(name, ok)]
        if unknown := [column for column in columns if column not in whole]:
            raise KeyError(f"{name} has no column {', '.join(unknown)}; there are: {', '.join(whole)}")
        rows = [store.length(run, name) for run in ok]
        parts = _read(ok, rows, name, [column for column in columns if column not in of_runs])
        for column in of_runs.columns.intersection(columns):
            if pd.api.types.is_numeric_dtype(of_runs[column]):  # a categorical of numbers has no order
                parts[column] = np.repeat(of_runs[column].to_numpy(), rows)
                continue
            once = pd.Categorical(of_runs[column])
            parts[column] = pd.Categorical.from_codes(np.repeat(once.codes, rows), dtype=once.dtype)
        together = sum(rows) < _FEW_ROWS  # copied into one block a type, as pandas warns of more than a hundred
        frame = pd.DataFrame({column: parts[column] for column in columns}, copy=together)
        frame.attrs[others.SHARES] = others.Shares((run.key, others.lost(run)) for run in ok)
        return frame

    def counted(self, name: str) -> pd.DataFrame:
        """A row for each run that is ok: key, spec and environment, by the names that they have beside that table."""
        names = {
            key: f"asked_{key}" if key in TABLES[name] else key
            for key in ("key", *Spec.model_fields, *ENVIRONMENT, "block")
        }
        return self.index.loc[self.index["status"] == "ok", list(names)].rename(columns=names)

    @property
    def _ok(self) -> list[Run]:
        ok = [run for run in self.runs if run.status == "ok"]
        if not ok:
            raise NoRuns(f"none of the {len(self.runs)} runs is ok: {'; '.join(sorted(set(self.index['reasons'])))}")
        return ok

    def _joined(self, name: str) -> pd.DataFrame:
        ok, of_runs = self._ok, self.counted(name)
        if name == "transactions":  # there can be millions
            distinct = [each for each in of_runs if each in (*_ALWAYS, "key", "block") or of_runs[each].nunique() > 1]
            return self.select(name, [*distinct, *self._columns(name, ok)])
        frame = self.select(name, [*of_runs, *self._columns(name, ok)])
        categories = {key: column.cat.categories for key, column in frame.select_dtypes("category").items()}
        return frame.astype({key: values.dtype for key, values in categories.items()})

    @staticmethod
    def _columns(name: str, runs: Iterable[Run]) -> list[str]:
        """The columns of that table: the common ones, then those of the workloads' own metrics."""
        own = dict.fromkeys(each.name for run in runs for each in run.metrics if each.table == name)
        return [*TABLES[name], *own]


def _read(runs: Sequence[Run], rows: Sequence[int], name: str, columns: Sequence[str]) -> dict:
    """These columns of all runs' tables, concatenated; several tables are read at once, and no column is held twice."""
    ends = np.cumsum(rows)
    spans = [slice(end - count, end) for end, count in zip(ends, rows, strict=True)]
    types = {column: TABLES[name][column].dtype if column in TABLES[name] else "float64" for column in columns}
    texts = [column for column in columns if types[column] == "str"]
    read = {column: np.empty(ends[-1], types[column]) for column in columns if column not in texts}

    def fill(run: Run, span: slice) -> dict[str, tuple[np.ndarray, list[str]]]:
        table = store.columns(run, name, columns)
        for column, values in read.items():
            values[span] = table[column].to_numpy()
        return {column: _indices(table[column]) for column in texts}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(fill, runs, spans)) if columns else []
    for column in texts:
        categories = list(dict.fromkeys(text for part in parts for text in part[column][1]))
        codes = np.empty(ends[-1], np.min_scalar_type(-max(1, len(categories))))
        for part, span in zip(parts, spans, strict=True):
            indices, own = part[column]
            same = own == categories[: len(own)]
            codes[span] = indices if same else np.array([*map(categories.index, own), -1])[indices]
        read[column] = pd.Categorical.from_codes(codes, categories=pd.Index(categories, dtype="str"))
    return read


def _indices(texts: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Texts as small integer indices into a list of distinct texts; -1: missing."""
    once = texts.unify_dictionaries().combine_chunks()
    distinct = once.dictionary.to_pylist()
    indices = once.indices.fill_null(-1) if once.indices.null_count else once.indices
    return indices.to_numpy().astype(np.min_scalar_type(-max(1, len(distinct)))), distinct


def digest_of(runs: Iterable[Run], experiments: Sequence[str] = ()) -> str:
    """16 hex digits over the keys and times of the runs that count (of these experiments; none named: of all).

    Other runs, or the same cells measured again, have another digest.
    """
    counted = [run for run in runs if run.status == "ok" and (not experiments or run.spec.experiment in experiments)]
    times = {run.key: run.measured_at.astimezone(UTC).isoformat() if run.measured_at else "" for run in counted}
    lines = "\n".join(f"{key} {time}" for key, time in sorted(times.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def load_runs(
    root: str | Path | None = None,
    *,
    experiment: str | Sequence[str] | None = None,
    sweep: str = "",
    environment: Literal["newest", "all"] = "newest",
) -> Runs:
    """The runs below `root` (default: PAIRLAB_RUNS, else runs/ in the checkout).

    A relative root counts from the current directory; if it is not there, from the checkout's root.

    experiment: only the runs of that one, or of these. sweep: only the cells of the sweep of that name, or of
    `name/backend`; with `@label` at the end, or that alone, only runs with this label. environment: of runs that were
    measured on several hosts, kernels or versions of their tools, only those of the newest of each backend and group
    of experiments (environment.STUDIES), and the others are named in `elsewhere`; "all" takes them all, for who
    compares them (the columns host and kernel tell them apart). A spec that was measured several times in one
    environment counts as so many repetitions: the last keeps its number, older ones come after the highest.

    Raises NoRuns when there are none, StoreError when one cannot be read. Runs that are damaged, or newer than this
    pairlab, are named and not raised.
    """
    if environment not in ("newest", "all"):
        raise UnknownName(f"no environment {environment!r}; there are: newest, all")
    root, searched = looked_for(root)
    sweep, labelled, label = sweep.partition("@")
    wanted = store.keys_of_sweep(sweep, root) if sweep else None
    names = (experiment,) if isinstance(experiment, str) else tuple(experiment or ())
    runs, damaged, newer = [], [], []
    for place, (own_experiment, key) in store.stored(root).items():
        if key and ((names and own_experiment not in names) or (wanted is not None and key_of(key) not in wanted)):
            continue
        try:
            run = store.with_key(store.read(place), key)
            if not labelled or run.environment.label == label:
                runs.append(run)
        except DamagedRun as error:
            damaged.append(str(error))
        except SchemaMismatch as error:
            newer.append(str(error))
    if not runs:
        unread = damaged + newer
        spoilt = f" but {len(unread)} left out, the first: {unread[0]}" if unread else ""
        raise no_runs(searched, names, f" with the label {label!r}" if labelled else "", spoilt)
    elsewhere: tuple[str, ...] = ()
    places = ""
    ahead = [run for run in runs if run.dated_ahead]
    if environment == "newest":
        runs, elsewhere, places = _of_newest_environment(runs)
    if ahead:
        dated = f"{len(ahead)} run{'s are' if len(ahead) > 1 else ' is'} dated in the future, such as {ahead[0].key}"
        elsewhere += (f"{dated}: the clock of their host was wrong, and they count as the oldest",)
    runs = tuple(_numbered_anew(runs))
    return Runs(runs, tuple(damaged), tuple(newer), names, root=root, elsewhere=elsewhere, places=places)


def _first_of(reasons: Sequence[str]) -> str:
    """The number of runs with these reasons, which differ in numbers only, and an example."""
    count = f"{len(reasons)} run{'s' * (len(reasons) != 1)}"
    return f"{count}, {'such as: ' * (len(set(reasons)) > 1)}{reasons[0]}"


def _of_newest_environment(runs: Sequence[Run]) -> tuple[list[Run], tuple[str, ...], str]:
    """The runs of the newest host and kernel of each environments.place_of, and of the newest tools of each system.

    Also a line for each other environment, and a line if the runs were measured in several places.
    """
    # Labelled runs are for comparisons: they displace no run without a label.
    by_age = sorted(runs, key=lambda run: (not run.environment.label, run.age_key), reverse=True)
    dated = [(_system(run), run.environment) for run in by_age if run.status == "ok"]
    newest = environments.newest(dated)
    places = {system[0]: environment.place() for system, environment in newest.items()}
    newest_runs: list[Run] = []
    displaced: Counter[tuple[environments.Environment, environments.Environment]] = Counter()
    for run in runs:
        here = places.get(_system(run)[0], environments.Environment())
        if newest.get(_system(run), here).agrees(run.environment):
            newest_runs.append(run)
        else:
            displaced[run.environment, newest.get(_system(run), here)] += 1
    lines = tuple(
        f"measured otherwise: {count} run{'s' * (count != 1)}, {where}; the others: {here}"
        for (where, here), count in displaced.items()
    )
    if all(one.agrees(other) for one, other in itertools.combinations(places.values(), 2)):
        return newest_runs, lines, ""
    each = "; ".join(f"{what} on {place}" for what, place in sorted(places.items()))
    return newest_runs, lines, f"not all was measured in the same place, so compare within each: {each}"


def _system(run: Run) -> tuple[str, ...]:
    """What shares the newest tools. Code of a study's own is each experiment's: a trial of it displaces no others."""
    spec = run.spec
    own = [spec.experiment] if run.environment.code else []
    return environments.place_of(spec.backend, spec.experiment, spec.host_kind), spec.driver, spec.workload, *own


def _numbered_anew(runs: Sequence[Run]) -> Iterator[Run]:
    """The runs; repeated measurements of a spec in one environment get repetitions of their own."""
    same = environments.same(run.environment for run in runs)
    last: dict[tuple[Spec, environments.Environment], Run] = {}
    for run in sorted(runs, key=lambda run: (run.status == "ok", run.age_key)):
        last[run.spec, same[run.environment]] = run
    highest: dict[tuple[Spec, environments.Environment], int] = {}
    if len(last) < len(runs):
        for spec, environment in last:
            cell = spec.replace(repetition=0), environment
            highest[cell] = max(highest.get(cell, 0), spec.repetition)
    for run in runs:
        environment = same[run.environment]
        if last[run.spec, environment] is run:
            yield run
        else:
            cell = run.spec.replace(repetition=0), environment
            highest[cell] += 1
            yield store.with_spec(run, run.spec.replace(repetition=highest[cell]))
