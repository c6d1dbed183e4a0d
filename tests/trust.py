"""`python -m tests.trust`: docs/trust.md from what is promised and what was measured.

docs/trust/promises.yaml has each promise with the tests that hold it; docs/trust/measured.json what they measured
last, kept when a machine has run only some of them. This takes in what lies in .cache/ and writes the page's tables
anew, between their two marks. No figure is typed by hand.
"""

import ast
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pairlab import paths
from tests import evidence
from tests.evidence import Evidence

DOCS = paths.ROOT / "docs"
PROMISES, MEASURED, PAGE = DOCS / "trust" / "promises.yaml", DOCS / "trust" / "measured.json", DOCS / "trust.md"
BEGIN, END = "<!-- made by python -m tests.trust: begin -->\n", "<!-- end -->\n"

#: How a figure's name ends, and what its unit is shown as.
UNITS = {
    "_percent": " %",
    "_pct": " %",
    "_bps": " bit/s",
    "_bytes": " B",
    "_mb": " MB",
    "_ms": " ms",
    "_s": " s",
}

#: Of figures that are texts, so many different ones are shown.
MOST_TEXTS = 4
OUTCOMES = ("passed", "failed", "skipped")

#: By test, as promises.yaml names it: when, where, how many passed, failed and were skipped, and the figures.
Measured = dict[str, dict[str, Any]]


def promises() -> dict[str, list[dict[str, Any]]]:
    """Sections of promises; each has `promise`, a text, and `tests`, as Evidence names them or whole files."""
    return yaml.safe_load(PROMISES.read_text())


def named() -> set[str]:
    """Every test that holds a promise."""
    return {test for section in promises().values() for each in section for test in each["tests"]}


def holds(test: str, part: Evidence) -> bool:
    """Whether that evidence is of this test, or of this file of tests."""
    return part.test == test or part.test.startswith(f"{test}::")


def taken_in(measured: Measured, found: Iterable[Evidence], tests: Iterable[str]) -> Measured:
    """measured, with newer evidence of these tests in the place of older; that of other tests is dropped."""
    found, kept = list(found), {}
    for test in sorted(tests):
        ours = [part for part in found if holds(test, part)]
        old = measured.get(test)
        if ours and (old is None or max(part.when for part in ours) >= old["when"]):
            kept[test] = _reduced(ours)
        elif old:
            kept[test] = old
    return kept


def _reduced(parts: list[Evidence]) -> dict[str, Any]:
    """Of one test's cases, or a file's tests: those of the last run."""
    last = max(part.when for part in parts)
    parts = [part for part in parts if part.when == last]
    figures: dict[str, list] = {}
    for part in parts:
        for name, value in part.figures.items():
            figures.setdefault(name, []).extend(value if isinstance(value, list) else [value])
    outcomes = {word: sum(part.outcome == word for part in parts) for word in OUTCOMES}
    return {"when": last, "where": parts[0].where, **outcomes, "figures": dict(sorted(figures.items()))}


def page(text: str, sections: Mapping[str, list], measured: Measured) -> str:
    """The page with its tables made anew; all else in it stays as it is."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(_tables(sections, measured)) + END + after


def _tables(sections: Mapping[str, list], measured: Measured) -> Iterator[str]:
    """A table for each section, with a row for each test; a promise stands before the first of its tests."""
    for title, listed in sections.items():
        yield f"\n## {title}\n"
        yield "| promise | test | measured | when, where, n |"
        yield "|---|---|---|---|"
        for each in listed:
            promise = each["promise"]
            for test in each["tests"]:
                known = measured.get(test)
                figures = [_figure(*each) for each in _together(known["figures"])] if known else []
                cells = (promise, _shown(test), "<br>".join(figures) or "–", _circumstances(known))
                yield "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"
                promise = ""
    yield ""


def _shown(test: str) -> str:
    """How to run it, or where it stands."""
    file, _, name = test.partition("::")
    kind, _, part = test.partition(":")
    if kind in ("soak", "bench"):
        return f"`tests.{kind} {'--part ' if kind == 'soak' else ''}{part}`"
    told = f"[{file.removeprefix('tests/').removesuffix('.py')}](../{file})"
    return told + (f": {name.removeprefix('test_').replace('_', ' ')}" if name else "")


def _together(figures: Mapping[str, list]) -> Iterator[tuple[str, list]]:
    """Figures of one kind as one: those with the same name before a slash, as truth/netns and truth/docker have."""
    kinds: dict[str, list] = {}
    for name, values in figures.items():
        kinds.setdefault(name.partition("/")[0], []).extend(values)
    yield from kinds.items()


def _figure(name: str, values: list) -> str:
    """A figure's name in words, its median and range with the unit that its name ends with, and their number."""
    ending = next((end for end in UNITS if name.endswith(end)), "")
    words, unit = name.removesuffix(ending).replace("_", " "), UNITS.get(ending, "")
    numbers = [value for value in values if isinstance(value, (int, float)) and math.isfinite(value)]
    if len(numbers) < len(values):
        texts = list(dict.fromkeys(map(str, values)))
        more = f" and {len(texts) - MOST_TEXTS} more" if len(texts) > MOST_TEXTS else ""
        return f"{words}: {', '.join(texts[:MOST_TEXTS])}{more}"
    low, middle, high = min(numbers), statistics.median(numbers), max(numbers)
    spread = f" ({_number(low)} to {_number(high)}, n = {len(numbers)})" if high > low else ""
    return f"{words} {_number(middle)}{unit}{spread}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _circumstances(known: Mapping[str, Any] | None) -> str:
    if not known:
        return "not measured yet"
    told = ", ".join(f"{known[word]} {word}" for word in OUTCOMES if known[word])
    return f"{known['when'][:10]}; {known['where']}; {told}"


def unheld() -> set[str]:
    """Tests that hold a promise, and do not exist."""
    return {test for test in named() if not _exists(test)}


def unpromised() -> set[str]:
    """Files of fault tests, and parts of the soak, that hold no promise."""
    from tests import soak

    there = {str(path.relative_to(paths.ROOT)) for path in (paths.ROOT / "tests" / "faults").glob("test_*.py")}
    there |= {f"soak:{part}" for part in soak.PARTS}
    covered = {test.partition("::")[0] for test in named()}
    return there - covered


def _exists(test: str) -> bool:
    from tests import bench, soak

    kind, _, part = test.partition(":")
    if kind == "soak":
        return part in soak.PARTS
    if kind == "bench":
        return part in bench.PARTS
    file, _, name = test.partition("::")
    path = paths.ROOT / file
    return path.is_file() and (not name or name in _functions(path))


def _functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def main() -> None:
    measured = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    measured = taken_in(measured, evidence.all_kept(), named())
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), promises(), measured))
    missing = sorted(named() - set(measured))
    print(f"{len(measured)} of {len(named())} tests were run; not yet: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
