"""Flow size distributions: read from files of other generators or shipped, with their mean, quantiles and samples.

A distribution is a CDF of few points, joined by straight lines. Flows have whole bytes: a size is rounded up, as
Empirical Traffic Generator does, and everything here is of rounded sizes. Where two points have one size, that size has
the difference of their shares; where the first point's share is above 0, its size has that share.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pairlab import paths
from pairlab.base import safe_yaml, units
from pairlab.errors import BadInput, UnknownName, unknown_name

FOLDER = paths.DATA / "flow-sizes"

#: By how much the last share may differ from 1: what is left of sums of rounded decimals.
_TOLERANCE = 1e-6
_MOST_BYTES = 1e15
#: Of a distribution as text: those that are published have a dozen.
MOST_POINTS = 1000
_OF_POINTS = set("0123456789.e+-:,")


@dataclass(frozen=True, eq=False)
class FlowSizes:
    """A distribution of flow sizes. sizes: in bytes, and shares: of the flows that are no larger; both never fall.

    name: of the distribution or its file. title, source, joined: of those that are shipped, in words.
    """

    name: str
    sizes: np.ndarray
    shares: np.ndarray
    title: str = ""
    source: str = ""
    joined: str = ""

    def cdf(self, size_bytes: Sequence[float] | np.ndarray) -> np.ndarray:
        """The share of flows that are no larger than each size."""
        whole = np.floor(np.asarray(size_bytes, dtype=float))
        # Of points of one size the last counts, and np.interp has the first of them to the left of it.
        last = np.append(np.diff(self.sizes) > 0, True)
        first = np.insert(np.diff(self.sizes) > 0, 0, True)
        above = np.clip(np.searchsorted(self.sizes[last], whole, side="right") - 1, 0, None)
        low, high = self.sizes[last][above], np.append(self.sizes[first], np.inf)[above + 1]
        from_share, to_share = self.shares[last][above], np.append(self.shares[first], 1)[above + 1]
        with np.errstate(invalid="ignore"):
            between = np.where(np.isinf(high), 1, from_share + (to_share - from_share) * (whole - low) / (high - low))
        return np.where(whole < self.sizes[0], 0, between)

    def quantile(self, share: Sequence[float] | float | np.ndarray) -> np.ndarray:
        """The size in bytes that so large a share of the flows does not exceed. share: above 0, up to 1."""
        share = np.asarray(share, dtype=float)
        if not ((share > 0) & (share <= 1)).all():
            raise ValueError("a quantile is of a share above 0 and up to 1")
        at = np.clip(np.searchsorted(self.shares, share, side="left"), 0, len(self.shares) - 1)
        before = np.maximum(at - 1, 0)
        rise = self.shares[at] - self.shares[before]
        part = np.where(rise > 0, (share - self.shares[before]) / np.where(rise > 0, rise, 1), 1)
        exact = self.sizes[before] + np.minimum(part, 1) * (self.sizes[at] - self.sizes[before])
        return np.maximum(np.ceil(exact), 1).astype(np.int64)

    def sample(self, flows: int, seed: int = 0) -> np.ndarray:
        """Sizes of so many flows in bytes, by the inverse of the CDF; the same for the same seed."""
        return self.quantile(1 - np.random.default_rng(seed).random(flows))

    @property
    def mean_bytes(self) -> float:
        """The mean size, by integration."""
        weights, means, _ = self._parts()
        return float(weights @ means)

    def share_of_bytes(self, largest: float) -> float:
        """The share of all bytes that is in so large a share of the flows, the largest ones."""
        if not 0 < largest <= 1:
            raise ValueError("the largest flows are a share above 0 and up to 1")
        weights, means, ends = self._parts(cut=1 - largest)
        return float((weights * means)[ends > 1 - largest + 1e-15].sum() / (weights @ means))

    def _parts(self, cut: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each straight line, and the first step: its share, its mean size and the share that it ends at.

        cut: a share at which a line is parted, by the sizes that the CDF has there.
        """
        shares, sizes = np.concatenate([[0], self.shares]), np.concatenate([self.sizes[:1], self.sizes])
        if 0 < cut < 1:
            at = int(np.searchsorted(shares, cut))
            rise = shares[at] - shares[at - 1]
            there = sizes[at - 1] + (sizes[at] - sizes[at - 1]) * ((cut - shares[at - 1]) / rise)
            shares, sizes = np.insert(shares, at, cut), np.insert(sizes, at, there)
        low, high = sizes[:-1], sizes[1:]
        width = high - low
        means = np.where(width > 0, (_integral(high) - _integral(low)) / np.where(width > 0, width, 1), np.ceil(high))
        return np.diff(shares), np.maximum(means, 1), shares[1:]


def _integral(size: np.ndarray) -> np.ndarray:
    """Of the size rounded up, from 0 to that size."""
    whole = np.floor(size)
    return whole * (whole + 1) / 2 + (size - whole) * (whole + 1)


def names() -> list[str]:
    return sorted(_sources())


def load(name_or_file: str | Path, *, unit_bytes: float = 1) -> FlowSizes:
    """A shipped distribution by its name, or one from a file (`read`); a file is what has a folder or exists.

    Also one from text, as `as_points` writes it.

    Raises UnknownName with the choices, and BadInput as `read`.
    """
    text = str(name_or_file)
    if text in _sources():
        if unit_bytes != 1:
            raise BadInput(f"{text!r} is shipped in bytes: leave the unit out")
        return dataclasses.replace(read(FOLDER / f"{text}.txt"), name=text, **_sources()[text])
    if ":" in text and set(text) <= _OF_POINTS:
        return _of_lines(text.replace(":", " ").split(","), "points", Path("the CDF"))
    if "/" in text or Path(text).exists():
        return read(Path(text), unit_bytes=unit_bytes)
    raise UnknownName(unknown_name("flow size distribution or file", text, names()))


@functools.cache
def _sources() -> Mapping[str, Mapping[str, Any]]:
    return safe_yaml.read(FOLDER / "sources.yaml")


def read(path: Path, *, unit_bytes: float = 1) -> FlowSizes:
    """A distribution from a file: a line for each point, its size first and the cumulative share last.

    Two columns: as Empirical Traffic Generator and HKUST's TrafficGenerator have them, or with a comma between. Three:
    as ns-2 has them, with a count between that is not used. Blank lines, and what follows a #, are skipped.
    unit_bytes: of a size, as such files may count packets. Raises BadInput with the file, the line and what to do.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise BadInput(f"cannot read the CDF {path}: {why}; give a text file, or one of {', '.join(names())}") from None
    return _of_lines(lines, path.name, path, unit_bytes)


def as_points(sizes: FlowSizes) -> str:
    """A distribution as text, which `load` reads: size:share of each point, "100:0.5,1000:1".

    Raises BadInput where there are more points than such a text may have.
    """
    if len(sizes.sizes) > MOST_POINTS:
        raise BadInput(
            f"{sizes.name} has {len(sizes.sizes):,} points, more than {MOST_POINTS:,}: straight lines join them, so"
            " leave out those that lie on one"
        )
    points = zip(sizes.sizes.tolist(), sizes.shares.tolist(), strict=True)
    return ",".join(f"{_short(size)}:{_short(share)}" for size, share in points)


def write(sizes: FlowSizes, path: Path) -> None:
    """Writes a distribution into a file that `read`, and flowgen, read as it is: sizes in bytes."""
    points = zip(sizes.sizes.tolist(), sizes.shares.tolist(), strict=True)
    path.write_text("".join(f"{size!r} {share!r}\n" for size, share in points))


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _of_lines(lines: Sequence[str], name: str, path: Path, unit_bytes: float = 1) -> FlowSizes:
    points: dict[int, tuple[float, float]] = {}
    for number, line in enumerate(lines, 1):
        if text := line.partition("#")[0].strip():
            points[number] = _point(text, f"{path}, line {number}", first=not points)
    if not points:
        raise BadInput(f"{path} has no points: write a line for each, with a size and a cumulative share")
    of_each = [share for _, share in points.values()]
    if of_each[-1] < 1 - _TOLERANCE and abs(sum(of_each) - 1) < _TOLERANCE:
        raise BadInput(f"{path}: the shares add up to 1, so each is of one size alone: give cumulative shares")
    before = (0.0, 0.0)
    for number, point in points.items():
        _check(*point, before, f"{path}, line {number}")
        before = point
    sizes, shares = np.array(list(points.values())).T
    if shares[-1] < 1 - _TOLERANCE:
        raise BadInput(
            f"{path}: the CDF ends at {shares[-1]:.12g}, not at 1: add a last line with the largest size and 1"
        )
    shares = np.minimum(shares, 1)
    shares[-1] = 1
    sizes = sizes * unit_bytes
    if sizes[-1] > _MOST_BYTES:
        raise BadInput(f"{path}: the largest flow is above {_MOST_BYTES:g} bytes: check the unit")
    if not sizes[shares > 0][0]:
        raise BadInput(f"{path}: flows of 0 bytes have a share above 0: give the smallest size that a flow has")
    return FlowSizes(name, sizes, shares)


def _point(text: str, where: str, *, first: bool) -> tuple[float, float]:
    words = text.split(",") if "," in text else text.split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        heading = ", and begin a heading with #" if first and not any(c.isdigit() for c in text) else ""
        percent = "; divide shares in percent by 100" if "%" in text else ""
        commas = "; a comma separates columns, not digits" if "," in text else ""
        raise BadInput(
            f"{where}: {text[:60]!r} are no numbers: give a size and a cumulative share{heading}{percent}{commas}"
        ) from None
    if len(words) == 1 and first:
        raise BadInput(
            f"{where}: has one number, as files that begin with the mean: remove the line, or comment it out"
        )
    if len(words) not in (2, 3) or ("," in text and len(words) == 3):
        between = "; a comma separates columns, not digits" if "," in text else ", or a count between the two"
        raise BadInput(f"{where}: has {len(words)} columns: give a size and a cumulative share{between}")
    size, share = numbers[0], numbers[-1]
    if not (math.isfinite(size) and math.isfinite(share)):
        raise BadInput(f"{where}: a size and a share must be finite")
    return size, share


def _check(size: float, share: float, before: tuple[float, float], where: str) -> None:
    if size < 0:
        raise BadInput(f"{where}: the size {size:.12g} is negative: a flow has at least 1 byte; correct the line")
    if share < 0:
        raise BadInput(f"{where}: the share {share:.12g} is negative: shares go from 0 to 1; correct the line")
    if share > 1 + _TOLERANCE:
        hint = "divide shares in percent by 100" if share <= 100 else "correct the line"
        raise BadInput(f"{where}: the share {share:.12g} is above 1: {hint}")
    if size < before[0]:
        raise BadInput(
            f"{where}: sizes fall from {before[0]:.12g} to {size:.12g}: sort the lines by size, the smallest first"
        )
    if min(share, 1) < min(before[1], 1):
        raise BadInput(
            f"{where}: the CDF falls from {before[1]:.12g} to {share:.12g}:"
            " give cumulative shares, each no less than the one before"
        )


def described(sizes: FlowSizes) -> str:
    """The distribution in one line: mean, median, p99 and how much the largest tenth of the flows carries."""
    median, p99, most = (units.with_prefix(int(size), "B") for size in sizes.quantile([0.5, 0.99, 1]))
    return (
        f"mean {units.with_prefix(sizes.mean_bytes, 'B')}, median {median}, p99 {p99}, largest {most};"
        f" the largest 10 % of flows carry {100 * sizes.share_of_bytes(0.1):.1f} % of all bytes"
    )


def as_text(sizes: FlowSizes, width: int = 60) -> str:
    """The CDF as lines of text: a bar for each tenth of the flows, and p99; sizes on a logarithmic axis."""
    shares = [*np.arange(1, 10) / 10, 0.99, 1.0]
    values = sizes.quantile(shares)
    low, high = math.log(values[0]), math.log(values[-1])
    lines = [f"share of flows up to a size ({units.with_prefix(int(values[0]), 'B')} to the largest, logarithmic axis)"]
    for share, value in zip(reversed(shares), reversed(values), strict=True):
        length = 1 + round((width - 1) * (math.log(value) - low) / (high - low)) if high > low else width
        lines.append(f"{share:5.2f} {'█' * length} {units.with_prefix(int(value), 'B')}")
    return "\n".join(lines)
