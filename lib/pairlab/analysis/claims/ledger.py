"""The claims ledger: the papers' statements, with the effects and margins that decide them; kept in data/claims.yaml.

A study has its own in claims.yaml. Another package adds a file under the entry point `pairlab.claims`, which names the
path; the module that holds it may add to published.PAPERS.

A claim states that an effect (effect.py) is more than `than`, less, or equal. `margin` is the deviation from `than`
that makes no difference in practice, in the unit of the effect. Both were chosen before the runs were seen, and stand
in the file beside the statement, with the conditions under which the papers state it (`requires`), and what would make
it false.
"""

import difflib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from pairlab import paths
from pairlab.analysis import published
from pairlab.analysis.claims import settings
from pairlab.analysis.claims.conditions import Requires
from pairlab.analysis.claims.effect import Effect
from pairlab.analysis.output import formatting
from pairlab.base import entry_points, safe_yaml
from pairlab.errors import BadInput, UnknownName

FILE = paths.DATA / "claims.yaml"

_PLACE = re.compile("figure|table|section|abstract")
Slug = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
Text = Annotated[str, Field(min_length=1)]
Claimed = Literal["more", "less", "equal"]
#: Decimals of a claim's values, by unit.
DIGITS = {"%": 1, "share": 2, "r": 2, "ms": 1, "times": 2}


def _known_paper(key: str) -> str:
    if key not in published.PAPERS:
        raise ValueError(f"Input should be {' or '.join(map(repr, published.PAPERS))}")
    return key


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Source(_Part):
    """A paper by its key in published.PAPERS, with the figure, table or section; or `own`, and where it is stated."""

    paper: Annotated[str, AfterValidator(_known_paper)]
    where: Text

    @model_validator(mode="after")
    def _names_a_place(self):
        if self.paper != published.OWN and not _PLACE.search(self.where):
            raise ValueError("where: name the figure, table, section or abstract of the paper that states it")
        return self

    def __str__(self) -> str:
        return f"{self.paper}, {self.where}"


class Published(_Part):
    """The size that a paper states, in the unit of the claim's effect; tolerance: the precision of the statement."""

    value: float
    tolerance: float = Field(0.0, ge=0)


class _Stated(_Part):
    """The fields that a claim and an entry of the file share.

    instead: the experiment to read if the runs of the effect's own do not meet the conditions; empty: none. requires:
    the conditions on runs. than, margin, published: in the effect's unit. false_if: what would make the claim false, in
    words. by_construction: why the experiment leaves no other outcome, in words, so that a verdict is no finding; empty
    if it does.
    """

    id: Slug
    statement: Text
    sources: tuple[Source, ...] = Field(min_length=1, strict=False)
    effect: Effect
    claimed: Claimed
    than: float = 0.0
    margin: float = Field(ge=0)
    note: str = ""
    false_if: Text
    requires: Requires = Requires()
    instead: Slug | Literal[""] = ""
    by_construction: str = ""


class Claim(_Stated):
    """One statement on one effect."""

    published: Published | None = None

    @property
    def unit(self) -> str:
        return self.effect.unit

    @property
    def experiments(self) -> tuple[str, ...]:
        """The experiments whose runs the claim reads."""
        return self.effect.experiments


class _Entry(_Stated):
    """An entry of the file. With `drivers` it makes one claim per driver, whose name replaces {driver}."""

    drivers: list[Slug] = []
    published: Published | dict[str, Published] | None = None

    @model_validator(mode="after")
    def _published_for_known_drivers(self):
        if isinstance(self.published, dict) and (strange := set(self.published) - set(self.drivers)):
            raise ValueError(f"published for {', '.join(sorted(strange))}, which drivers does not list")
        if bool(self.drivers) != ("{driver}" in self.statement):
            raise ValueError("an entry with drivers, and no other, has {driver} in its statement")
        if bool(self.drivers) == ("driver" in self.effect.of):
            raise ValueError("an effect is `of` a driver, or the entry lists drivers, and not both")
        if settings.of(self.effect).pairs_vary and not (
            {"pairs"} & {*self.effect.of} or self.effect.each or self.effect.along
        ):
            raise ValueError("effect.of.pairs: say how many: a number, least, most, or such as '50 or most'")
        if self.claimed == "equal" and not self.margin:
            raise ValueError("equal needs a margin above 0: no measurement shows that an effect is exactly this")
        return self

    def claims(self) -> list[Claim]:
        shared = {name: getattr(self, name) for name in _Stated.model_fields}
        if not self.drivers:
            return [Claim(**shared, published=None if isinstance(self.published, dict) else self.published)]
        by_driver = self.published if isinstance(self.published, dict) else dict.fromkeys(self.drivers, self.published)
        return [
            Claim(
                **shared
                | {
                    "id": f"{self.id}-{driver}",
                    "statement": self.statement.replace("{driver}", driver),
                    "false_if": self.false_if.replace("{driver}", driver),
                    "effect": self.effect.model_copy(update={"of": {**self.effect.of, "driver": driver}}),
                    "published": by_driver.get(driver),
                }
            )
            for driver in self.drivers
        ]


def load(*files: Path) -> tuple[Claim, ...]:
    """The claims of these files in their order; without files: of FILE, of other packages, and of the study.

    Raises BadInput, naming the entry and its error: an unknown key, a wrong type, an unknown quantity, factor or
    paper, a duplicate id.
    """
    claims: list[Claim] = []
    added = (Path(entry_points.load(point)) for point in entry_points.added("claims").values())
    own = paths.STUDY / "claims.yaml"
    for file in files or (FILE, *added, *([own] if own.is_file() else [])):
        claims += _claims_of(file, {claim.id for claim in claims})
    return tuple(claims)


def named(name: str) -> tuple[Claim, ...]:
    """The claim of that name, else all claims of that entry, one per driver. Raises UnknownName."""
    claims = load()
    matches = tuple(claim for claim in claims if claim.id == name)
    matches = matches or tuple(claim for claim in claims if claim.id.startswith(f"{name}-"))
    if not matches:
        near = difflib.get_close_matches(name, [claim.id for claim in claims], n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        raise UnknownName(f"no claim {name!r}{hint} `pairlab claims --json` lists them all")
    return matches


def stated_beside(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """All claims of the papers that state one of these: the family over which p is corrected."""
    stated = {source.paper for claim in claims for source in claim.sources}
    return tuple(claim for claim in load() if stated & {source.paper for source in claim.sources})


def _claims_of(file: Path, taken: set[str]) -> list[Claim]:
    """The claims of a file. taken: ids that other claims have."""
    try:
        entries = safe_yaml.read(file)
    except ValueError as error:
        raise BadInput(f"{file} {error}") from None
    if not isinstance(entries, list):
        raise BadInput(f"{file} must be a list of claims, not a {type(entries).__name__}")
    claims: list[Claim] = []
    for number, entry in enumerate(entries, 1):
        name = entry.get("id", f"number {number}") if isinstance(entry, dict) else f"number {number}"
        try:
            of_entry = _Entry.model_validate(entry).claims()
        except ValidationError as error:
            raise BadInput(f"{file}, claim {_printable(name)}: {_explain(error)}") from None
        for claim in of_entry:
            if claim.id in taken:
                raise BadInput(f"{file}: there are two claims {claim.id!r}: rename one")
            taken = taken | {claim.id}
        claims += of_entry
    return claims


def papers(claim: Claim) -> str:
    """The keys of the papers that state a claim."""
    return ", ".join(sorted({source.paper for source in claim.sources}))


def _explain(error: ValidationError) -> str:
    errors = [(".".join(map(_printable, detail["loc"])) or "entry", detail["msg"]) for detail in error.errors()]
    return "; ".join(f"{field}: {message}" for field, message in errors)


def _printable(key: object) -> str:
    """A key or value of the file in one line."""
    return text if (text := str(key)).isprintable() else repr(text)


def shown(value: float, unit: str) -> str:
    """A claim's value with its unit; empty for NaN."""
    if math.isnan(value):
        return ""
    return f"{value:.{DIGITS[unit]}f}{_behind(unit)}"


def estimate(value: float, low: float, high: float, unit: str) -> tuple[str, str]:
    """An effect and its interval as text, each with the unit and with the decimals that the interval bears.

    Both are shown(value) and empty without an interval.
    """
    number, bounds = _without_unit(value, low, high, unit)
    return (f"{number}{_behind(unit)}", f"{bounds}{_behind(unit)}") if bounds else (shown(value, unit), "")


def with_interval(value: float, low: float, high: float, unit: str) -> str:
    """The same as one text, with the unit once: 35.7 [11.5, 65.2] %."""
    number, bounds = _without_unit(value, low, high, unit)
    return f"{number} {bounds}{_behind(unit)}" if bounds else shown(value, unit)


def _without_unit(value: float, low: float, high: float, unit: str) -> tuple[str, str]:
    """An effect and its interval; the interval is empty where there is none."""
    digits = formatting.digits_of(value, low, high, DIGITS[unit])
    return f"{value:.{digits}f}", "" if math.isnan(low) else formatting.interval(low, high, digits)


def _behind(unit: str) -> str:
    return "" if unit in ("share", "r") else f" {unit}"
