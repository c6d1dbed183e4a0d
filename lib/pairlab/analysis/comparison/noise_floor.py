"""The noise floor of a host, as `pairlab calibrate` recorded it beside the runs, and what it keeps from being found.

A file for each host and backend: runs/.calibration/<host>-<backend>.json. It keeps the values that were measured, so
that what follows from them can be worked out for any number of repetitions.
"""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field, model_validator

from pairlab.analysis.claims.effect import Contrast
from pairlab.analysis.comparison.cells import named
from pairlab.analysis.output.provenance import write_atomically
from pairlab.errors import SchemaMismatch, StoreError
from pairlab.model.spec import Mark, Spec, marked
from pairlab.model.summaries import MEASURES
from pairlab.statistics import changes, power
from pairlab.statistics.changes import Change
from pairlab.statistics.intervals import ALPHA, PERCENT, Student
from pairlab.store.dataset import Runs

SCHEMA = 1
#: Below the folder of runs: the records, and the runs that they were made from, apart from all others.
FOLDER = ".calibration"
#: The numbers of repetitions for which a record names the smallest detectable effect.
REPETITIONS = (3, 5, 10, 20)
#: What is between a host's CPUs and its kernel in the fingerprint that runs bear.
_KERNEL = ", Linux "
#: The one measure of a set of runs whose test between equals counts: the others tell of the same runs again.
COUNTED = ("total_bps", "fct_median_s")
#: The fields of Spec by which no parameters are special: what cells and records name, what tells repetitions apart, and
#: what a run is only judged by.
ORDINARY = (
    *("experiment", "backend", "driver", "workload", "pairs", "duration_s", "flow_bytes"),
    *marked(Mark.REPLICATE),
    *marked(Mark.BOUND),
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)  # what a later pairlab adds is read over


class Cell(_Part):
    """What was measured twice in each repetition; first and second in base units, a value per repetition.

    parameters: of what is `special` about its runs, all that has no field here. pooled: of a percentile, whose change
    is that of all flows (quantiles.percent_change), the logarithm of that, its standard error and degrees of freedom.
    """

    driver: str
    workload: str
    pairs: int = Field(ge=1)
    duration_s: float
    flow_bytes: int = 0
    link_rate_bps: float = 0.0
    parameters: dict[str, bool | int | float | str] = Field(default_factory=dict)
    measure: str
    first: tuple[float, ...] = Field(min_length=2)
    second: tuple[float, ...] = Field(min_length=2)
    pooled: tuple[float, float, float] | None = None

    @model_validator(mode="after")
    def _can_be_compared(self):
        if len(self.first) != len(self.second) or min(*self.first, *self.second) <= 0:
            raise ValueError("first and second need a value above zero of each repetition")
        return self

    @property
    def special(self) -> dict[str, Any]:
        """As `special` of the runs that it was measured by."""
        shaped = {"link_rate_bps": self.link_rate_bps} if self.link_rate_bps else {}
        return shaped | self.parameters

    @property
    def values(self) -> tuple[float, ...]:
        return self.first + self.second

    @property
    def change(self) -> Change:
        return changes.described(self._difference, self.first, self.second)

    @property
    def spread_within(self) -> float:
        return power.spread_within(self._difference)

    @property
    def _difference(self) -> Student:
        if self.pooled:
            return Student(*self.pooled, len(self.first), PERCENT)
        return changes.ratio(self.first, self.second)

    def detectable(self, repetitions: int) -> float:
        """The logarithm of the smallest effect that so many repetitions of two cells like this one find."""
        return power.smallest_detectable(power.spread(self.values), repetitions)

    @computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def found(self) -> dict[str, Any]:
        """What the values tell, for readers of the file."""
        least = {str(n): self.detectable(n) for n in REPETITIONS}
        simulated = {n: power.simulated_power(self.values, effect, int(n)) for n, effect in least.items()}
        return {
            "variation": _rounded(power.variation(self.values)),
            "variation_within": _rounded(self.spread_within),
            "smallest_detectable_percent": {n: _rounded(power.percent(effect)) for n, effect in least.items()},
            "simulated_power": {n: _rounded(share) for n, share in simulated.items()},
            "a_against_a": _found(self.change),
        }


class Planted(Cell):
    """A shaped link in `first`, and one in `second` whose rate is less by cost_percent."""

    cost_percent: float = Field(gt=0, lt=100)

    @property
    def in_interval(self) -> bool:
        """Whether the interval of the change has the planted size."""
        return self.change.low_percent <= -self.cost_percent <= self.change.high_percent

    @computed_field  # type: ignore[prop-decorator]  # as pydantic has it
    @property
    def found(self) -> dict[str, Any]:
        """What the values tell, for readers of the file."""
        return {**_found(self.change), "planted_percent": -self.cost_percent, "in_interval": self.in_interval}


class Calibration(_Part):
    """What one host's noise is in one backend. host: the fingerprint that runs bear; times in UTC."""

    schema_version: int = Field(alias="schema")
    host: str
    backend: str
    pairlab: str
    measured_from: datetime
    measured_to: datetime
    cells: tuple[Cell, ...]
    planted: tuple[Planted, ...] = ()

    @property
    def independent(self) -> list[Cell]:
        """The cells of which no two are of the same runs: only their tests can be counted."""
        return [cell for cell in self.cells if cell.measure in COUNTED]

    @property
    def differences(self) -> int:
        """In how many independent cells the test between equals reported a difference."""
        return sum(cell.change.differs() for cell in self.independent)

    @property
    def trustworthy(self) -> bool:
        """Equals differ no more often than chance allows, and every planted difference is found as one."""
        found = all(cell.change.differs() and cell.change.change_percent < 0 for cell in self.planted)
        return found and self.differences <= power.most_rejections(len(self.independent))

    def under(self, parameters: Mapping[str, Any] | None, measure: str) -> list[Cell]:
        """The cells of a measure whose runs had exactly these special parameters; None: none."""
        return [cell for cell in self.cells if cell.measure == measure and cell.special == (parameters or {})]

    def spread(self, contrast: Contrast, workload: str, parameters: Mapping[str, Any] | None = None) -> float | None:
        """By how much one repetition's contrast spreads on this host, as a logarithm; None where it is not recorded.

        The noise of a cell is that within repetitions, as contrasts are: under these special parameters, of this
        workload and these numbers of pairs. That of others says nothing of them.
        """
        known = [cell for cell in self.under(parameters, contrast.measure) if cell.workload == workload]
        squares = []
        for pairs in contrast.pairs:
            alike = [cell.spread_within**2 for cell in known if cell.pairs == pairs]
            if not alike:
                return None
            squares.append(np.mean(alike))
        return contrast.gain * float(np.sqrt(np.mean(squares)))

    def floor(
        self, contrast: Contrast, workload: str, repetitions: int, parameters: Mapping[str, Any] | None = None
    ) -> "NoiseFloor | None":
        """What is below detection of such an effect; None where the noise of its measure is not recorded.

        parameters: `special` of the runs, None where they are plain.
        """
        return NoiseFloor.of(self.spread(contrast, workload, parameters), repetitions)


class NoiseFloor(NamedTuple):
    """spread: of one repetition's logarithm. effect: the logarithm of the smallest that can be found. by_twins: known
    by twins (twins.py), and not by a record.
    """

    spread: float
    effect: float
    by_twins: bool = False

    @classmethod
    def of(cls, spread: float | None, repetitions: int, *, by_twins: bool = False) -> "NoiseFloor | None":
        """That of so many repetitions; None of fewer than two, or where the spread is not known."""
        if spread is None or repetitions < 2:
            return None
        return cls(spread, power.smallest_detectable(spread, repetitions, paired=True), by_twins)

    @property
    def percent(self) -> float:
        return power.percent(self.effect)

    def repetitions_needed(self, effect: float) -> int | None:
        """How many repetitions would find an effect (its logarithm) of that size."""
        return power.repetitions_needed(effect, self.spread)


def special(spec: Spec) -> dict[str, Any]:
    """What sets the noise of such runs apart from that of plain ones: by name, what is neither ORDINARY nor a default.

    An interval that is as long as a short run is no more special than the run.
    """
    asked = spec.model_dump(exclude_defaults=True)
    longest = min(spec.duration_s, Spec.model_fields["interval_s"].default)
    ordinary = {*ORDINARY, "interval_s"} if spec.interval_s == longest else ORDINARY
    return {name: value for name, value in asked.items() if name not in ordinary}


def file_of(root: Path, host: str, backend: str) -> Path:
    """Where the record of that host and backend lies, or would."""
    return root / FOLDER / f"{hashlib.sha256(host.encode()).hexdigest()[:16]}-{backend}.json"


def find(root: Path, host: str, backend: str) -> Calibration | None:
    """The record of that host and backend beside these runs, if there is one.

    Raises SchemaMismatch where a newer pairlab wrote it, StoreError where it is damaged or cannot be read.
    """
    place = file_of(root, host, backend)
    again = f"move it away, or measure it again: pairlab calibrate --backend {backend}"
    try:
        stored = json.loads(place.read_text(encoding="utf-8"))
        if stored["schema"] > SCHEMA:
            newer = f"with schema {stored['schema']}, and this one knows up to {SCHEMA}"
            raise SchemaMismatch(f"{place} was written by a newer pairlab, {newer}: update pairlab")
        found = Calibration.model_validate(stored)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{place} could not be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise StoreError(f"{place} is no calibration ({where}: {first['msg']}): {again}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise StoreError(f"{place} is no calibration ({error!r}): {again}") from None
    if (found.host, found.backend) != (host, backend):
        raise StoreError(f"{place} is of {found.host}, {found.backend}: it was renamed; {again}")
    return found


def write(calibration: Calibration, root: Path) -> Path:
    """Records it whole or not at all; cells that were measured earlier, and not again now, are kept."""
    place = file_of(root, calibration.host, calibration.backend)
    if earlier := find(root, calibration.host, calibration.backend):
        again = {_name(cell) for cell in (*calibration.cells, *calibration.planted)}
        cells, planted = (
            tuple(cell for cell in kept if _name(cell) not in again) for kept in (earlier.cells, earlier.planted)
        )
        changes = {"cells": cells + calibration.cells, "planted": planted + calibration.planted}
        begun = {"measured_from": min(earlier.measured_from, calibration.measured_from)} if cells else {}
        calibration = calibration.model_copy(update=changes | begun)
    data = calibration.model_dump(mode="json", by_alias=True)
    content = json.dumps(data, indent=1, allow_nan=False) + "\n"
    return write_atomically(place, content.encode(), remedy="PAIRLAB_RUNS names another one")


def of_runs(runs: Runs) -> dict[str, Calibration]:
    """The records beside loaded runs that are of their host, by backend; of several kernels, of the newest run's."""
    if runs.root is None or not len(runs):
        return {}
    hosts: dict[str, list[str]] = {}
    for run in sorted(runs, key=lambda run: run.age_key):
        if run.status == "ok":
            hosts.setdefault(run.spec.backend, []).append((run.facts.get("host") or {}).get("fingerprint", ""))
    found = {}
    for backend, its in sorted(hosts.items()):
        if len({host.partition(_KERNEL)[0] for host in its}) == 1:
            found[backend] = find(runs.root, its[-1], backend)
    return {backend: calibration for backend, calibration in found.items() if calibration}


def remark(calibrations: Mapping[str, Calibration], backends: Sequence[str], with_twins: Collection[str] = ()) -> str:
    """What a reader must know of the noise floors behind verdicts on runs that are plain, but for the congestion
    control that they may ask for: one text, however many there are. with_twins: the backends whose runs have twins.
    """
    remarks = []
    for backend in backends:
        if backend in with_twins:
            remarks.append(f"{backend}: by twins, the cells that were measured twice in a block")
        each = calibrations.get(backend)
        plain = [cell for cell in each.cells if cell.special.keys() <= {"congestion_control"}] if each else []
        if each and plain:
            of = {(cell.workload, cell.pairs, "".join(cell.special.values())) for cell in plain}
            what = ", ".join(
                f"{workload} at {pairs} pairs{control and f', {control}'}" for workload, pairs, control in sorted(of)
            )
            under = f"{each.measured_to.astimezone(UTC):%Y-%m-%d} under {each.host.rpartition(', ')[2]}"
            remarks.append(f"{backend}: measured {under} ({what})")
        elif backend not in with_twins:
            remarks.append(f"{backend}: none recorded, so intervals alone decide (`pairlab calibrate` records one)")
    return f"Noise floor of this host, below which nothing is called decided. {'; '.join(remarks)}."


def not_covered(calibrations: Mapping[str, Calibration], specs: Sequence[Spec], measure: str) -> list[str]:
    """What a reader must know of runs with special parameters on hosts whose noise is recorded, but not under these."""
    found = []
    for spec in specs:
        calibration, parameters = calibrations.get(spec.backend), special(spec)
        if calibration and parameters and not calibration.under(parameters, measure):
            options = " ".join(f"-p {name} {value}" for name, value in parameters.items())
            ends = f"--flow-bytes {spec.flow_bytes} " if spec.flow_bytes else ""
            command = f"pairlab calibrate --backend {spec.backend} {ends}{options}"
            found.append(f"no noise floor is recorded under these parameters: `{command}` records one")
    return list(dict.fromkeys(found))


def _name(cell: Cell) -> tuple:
    """What tells a cell from others."""
    names = [name for name in type(cell).model_fields if name not in ("first", "second", "pooled", "parameters")]
    return *(getattr(cell, name) for name in names), *sorted(cell.parameters.items())


def _found(change: Change) -> dict[str, Any]:
    return {name: _rounded(value) for name, value in change._asdict().items()} | {"difference": change.differs()}


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def tables(calibration: Calibration) -> dict[str, pd.DataFrame]:
    """By title: the noise, what can be found in it, and the planted differences; all as text."""
    cells, planted = calibration.cells, calibration.planted
    found = {
        f"Noise of {calibration.backend} on {calibration.host}": [_noise_row(cell) for cell in cells],
        f"Smallest detectable effect, level {ALPHA:.0%}, power {power.POWER:.0%} (in brackets: the power in"
        " simulations from what was measured)": [_name_row(cell) | _detectable(cell) for cell in cells],
        **({"Planted differences": [_planted_row(cell) for cell in planted]} if planted else {}),
    }
    return {title: pd.DataFrame(rows) for title, rows in found.items()}


def summary(calibration: Calibration) -> str:
    """Whether the tests found what is not there, and what is."""
    counted, planted = len(calibration.independent), calibration.planted
    lines = [
        f"A against A: a difference was reported in {calibration.differences} of {counted} comparisons, one of"
        f" each set of runs, at level {ALPHA:.0%}; chance allows up to {power.most_rejections(counted)}."
    ]
    if planted:
        found = sum(cell.change.differs() for cell in planted)
        inside = sum(cell.in_interval for cell in planted)
        lines.append(f"Planted: {found} of {len(planted)} found, {inside} with the true size in the interval.")
    return " ".join(lines)


def _noise_row(cell: Cell) -> dict[str, str]:
    return {
        **_name_row(cell),
        "variation": f"{100 * power.variation(cell.values):.2f} %",
        "within repetitions": f"{100 * cell.spread_within:.2f} %",
        "A against A": _change_text(cell.change),
        "p (t, ranks)": f"{cell.change.p:.2f}, {cell.change.p_ranks:.2f}",
        "difference": "reported" if cell.change.differs() else "none",
        "n": str(cell.change.repetitions),
    }


def _name_row(cell: Cell) -> dict[str, str]:
    measure = MEASURES[cell.measure].name if cell.measure in MEASURES else cell.measure
    return {"cell": _in_words(cell), "measure": measure}


def _detectable(cell: Cell) -> dict[str, str]:
    least = {n: cell.detectable(n) for n in REPETITIONS}
    return {
        f"n = {n}": f"{power.percent(effect):.1f} % ({power.simulated_power(cell.values, effect, n):.0%})"
        for n, effect in least.items()
    }


def _planted_row(cell: Planted) -> dict[str, str]:
    return {
        "cell": _in_words(cell),
        "planted": f"{-cell.cost_percent:g} %",
        "found": _change_text(cell.change),
        "within": "yes" if cell.in_interval else "no",
        "p": f"{cell.change.p:.2g}",
        "n": str(cell.change.repetitions),
    }


def _in_words(cell: Cell) -> str:
    shaped = f", links of {cell.link_rate_bps / 1e6:g} Mbit/s" if cell.link_rate_bps else ""
    lasts = f"{cell.flow_bytes:,} B" if cell.flow_bytes else f"{cell.duration_s:g} s"
    special = "".join(f", {named(name, value)}" for name, value in cell.parameters.items())
    return f"{cell.workload} over {cell.driver}, {cell.pairs} pair{'s' * (cell.pairs != 1)}, {lasts}{shaped}{special}"


def _change_text(change: Change) -> str:
    return f"{change.change_percent:+.2f} % [{change.low_percent:.2f}, {change.high_percent:.2f}]"
