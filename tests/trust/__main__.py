"""`python -m tests.trust`: writes the tables of docs/trust.md from the promises and the measured values.

docs/trust/promises.yaml has each promise with its tests. docs/trust/measured.json has what each test measured last,
even if the last run covered only some. This reads new results from .cache/, and replaces the part of the page between
the two marks. No value is typed by hand.
"""

import ast
import json
import math
import statistics
import string
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pairlab import paths
from tests.trust import evidence
from tests.trust.evidence import Evidence

DOCS = paths.ROOT / "docs"
PROMISES, MEASURED, PAGE = DOCS / "trust" / "promises.yaml", DOCS / "trust" / "measured.json", DOCS / "trust.md"
BEGIN, END = "<!-- made by python -m tests.trust: begin -->\n", "<!-- end -->\n"

#: The unit of a value, by the ending of its name.
UNITS = {
    "_percent": " %",
    "_pct": " %",
    "_bps": " bit/s",
    "_bytes": " B",
    "_mb": " MB",
    "_gb": " GB",
    "_ms": " ms",
    "_s": " s",
}

#: Of values that are texts, so many different ones are shown.
MAX_TEXTS = 4
OUTCOMES = ("passed", "failed", "skipped")
KEPT = "yes"

#: By test, as named in promises.yaml: when and where it ran, the numbers of cases by outcome, and the values.
Measured = dict[str, dict[str, Any]]


def promises() -> dict[str, list[dict[str, Any]]]:
    """Sections of promises. promise: a text; tests: names as of Evidence, or whole files.

    requires: values that tests must have measured, by name: every one equal to a value, or {at_most: number}.
    """
    return yaml.safe_load(PROMISES.read_text())["sections"]


def summary() -> list[dict[str, str]]:
    """The lines of the summary. says: a text; test and figure: the value behind it."""
    return yaml.safe_load(PROMISES.read_text())["summary"]


def named() -> set[str]:
    """Every test of a promise."""
    return {test for section in promises().values() for each in section for test in each["tests"]}


def holds(test: str, part: Evidence) -> bool:
    """Whether this evidence is from this test, or from this file of tests."""
    return part.test == test or part.test.startswith(f"{test}::")


def taken_in(measured: Measured, found: Iterable[Evidence], tests: Iterable[str]) -> Measured:
    """measured, updated with newer evidence of these tests; that of other tests is dropped."""
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
    """The last run of a test's cases, or of a file's tests, as one entry."""
    last = max(part.when for part in parts)
    parts = [part for part in parts if part.when == last]
    figures: dict[str, list] = {}
    for part in parts:
        for name, value in part.figures.items():
            figures.setdefault(name, []).extend(value if isinstance(value, list) else [value])
    outcomes = {word: sum(part.outcome == word for part in parts) for word in OUTCOMES}
    return {"when": last, "where": parts[0].where, **outcomes, "figures": dict(sorted(figures.items()))}


def page(text: str, sections: Mapping[str, list], measured: Measured, summary: Iterable[Mapping[str, str]] = ()) -> str:
    """The page with its tables replaced; all else stays as it is."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    hosts = list(dict.fromkeys(each["where"] for each in measured.values()))
    parts = [*_summary(sections, measured, summary), *_sections(sections, measured, hosts), *_hosts(hosts)]
    return before + BEGIN + "\n".join(parts) + "\n" + END + after


def _summary(sections: Mapping[str, list], measured: Measured, lines: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """How many promises are kept, which are not, and a line for each of the most important values."""
    verdicts = {
        f"{number}.{place}": kept(each, measured)
        for number, listed in enumerate(sections.values(), 1)
        for place, each in enumerate(listed, 1)
    }
    good = sum(verdict == KEPT for verdict in verdicts.values())
    yield f"\n## Summary\n\n{good} of {len(verdicts)} promises were kept in the last run of their tests."
    for number, verdict in verdicts.items():
        if verdict != KEPT:
            yield f"\n- **Promise {number}: {verdict}**"
    rows = [(each["says"], *_value_of(measured, each["test"], each["figure"])) for each in lines]
    if rows:
        yield "\n" + _table(("value", "median", "lowest", "highest", "n"), rows)


def _sections(sections: Mapping[str, list], measured: Measured, hosts: list[str]) -> Iterator[str]:
    """Two tables for each section: the promises with their tests, and what those measured."""
    for number, (title, listed) in enumerate(sections.items(), 1):
        promised, values = [], []
        for place, each in enumerate(listed, 1):
            own, verdict, words = f"{number}.{place}", kept(each, measured), each["promise"]
            first = own
            for test in each["tests"]:
                known = measured.get(test)
                promised.append((first, words, verdict, _shown(test), *_last_run(known, hosts)))
                first = words = verdict = ""
                for name, found in _together(known["figures"] if known else {}):
                    values.append((own, _words(name), *_cells(name, found)))
        yield f"\n## {number}. {title}\n"
        yield _table(("", "promise", "kept", "test", "last run", "host"), promised)
        if values:
            yield f"\n### Values measured for section {number}\n"
            yield _table(("promise", "value", "median", "lowest", "highest", "n"), values)


def _hosts(hosts: Iterable[str]) -> Iterator[str]:
    yield "\n## Hosts\n"
    yield _table(("host", "what it is"), [(string.ascii_uppercase[at], host) for at, host in enumerate(hosts)])


def kept(promise: Mapping[str, Any], measured: Measured) -> str:
    """KEPT, or in words why the last run of its tests does not show that the promise is kept."""
    reasons = [reason for test in promise["tests"] for reason in _failures(test, promise, measured.get(test))]
    return "; ".join(dict.fromkeys(reasons)) or KEPT


def _failures(test: str, promise: Mapping[str, Any], known: Mapping[str, Any] | None) -> Iterator[str]:
    if not known:
        yield f"not measured: {_shown(test)}"
        return
    if known["failed"]:
        yield f"not kept: {known['failed']} tests of {_shown(test)} failed"
    for name, required in promise.get("requires", {}).items():
        found = known["figures"].get(name, [])
        if isinstance(required, Mapping):
            wrong = [value for value in found if not value <= required["at_most"]]
        else:
            wrong = [value for value in found if value != required]
        if wrong:
            yield f"not kept: {_words(name)} {', '.join(dict.fromkeys(map(_text, wrong)))} in {_shown(test)}"


def _last_run(known: Mapping[str, Any] | None, hosts: list[str]) -> tuple[str, str]:
    if not known:
        return "not measured yet", "–"
    outcomes = ", ".join(f"{known[word]} {word}" for word in OUTCOMES if known[word])
    return f"{known['when'][:10]}: {outcomes}", string.ascii_uppercase[hosts.index(known["where"])]


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([" ".join(str(cell).replace("|", "\\|").split()) for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _shown(test: str) -> str:
    """The command that runs it, or a link to its file."""
    file, _, name = test.partition("::")
    kind, _, part = test.partition(":")
    if kind in ("soak", "bench"):
        return f"`tests.{kind} {'--part ' if kind == 'soak' else ''}{part}`"
    link = f"[{file.removeprefix('tests/').removesuffix('.py')}](../{file})"
    return link + (f": {name.removeprefix('test_').replace('_', ' ')}" if name else "")


def _together(figures: Mapping[str, list]) -> Iterator[tuple[str, list]]:
    """Joins the values whose names agree before a slash, such as rate/netns and rate/docker."""
    kinds: dict[str, list] = {}
    for name, values in figures.items():
        kinds.setdefault(name.partition("/")[0], []).extend(values)
    yield from kinds.items()


def _value_of(measured: Measured, test: str, figure: str) -> tuple[str, ...]:
    """The cells of one value; of one that was not measured, that."""
    found = dict(_together(measured.get(test, {}).get("figures", {})))
    return _cells(figure, found[figure]) if figure in found else ("not measured yet", "", "", "")


def _words(name: str) -> str:
    """A value's name in words, without its unit."""
    return name.removesuffix(_ending(name)).replace("_", " ")


def _ending(name: str) -> str:
    return next((end for end in UNITS if name.endswith(end)), "")


def _cells(name: str, values: list) -> tuple[str, str, str, str]:
    """Median, lowest, highest and n; the extremes only where they differ. Of texts, the different ones, and n."""
    unit, n = UNITS.get(_ending(name), ""), str(len(values))
    numbers = [value for value in values if isinstance(value, (int, float)) and math.isfinite(value)]
    if len(numbers) < len(values):
        texts = list(dict.fromkeys(map(str, values)))
        more = f" and {len(texts) - MAX_TEXTS} more" if len(texts) > MAX_TEXTS else ""
        return f"{', '.join(texts[:MAX_TEXTS])}{more}", "", "", n
    low, middle, high = (f"{_number(each)}{unit}" for each in (min(numbers), statistics.median(numbers), max(numbers)))
    return (middle, low, high, n) if max(numbers) > min(numbers) else (middle, "", "", n)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _text(value: Any) -> str:
    return _number(value) if isinstance(value, (int, float)) else str(value)


def unheld() -> set[str]:
    """Tests that promises name and that do not exist."""
    return {test for test in named() if not _exists(test)}


def unpromised() -> set[str]:
    """Files of fault tests, and parts of the soak, that belong to no promise."""
    from tests.soak import __main__ as soak

    there = {str(path.relative_to(paths.ROOT)) for path in (paths.ROOT / "tests" / "faults").glob("test_*.py")}
    there |= {f"soak:{part}" for part in soak.PARTS}
    covered = {test.partition("::")[0] for test in named()}
    return there - covered


def _exists(test: str) -> bool:
    from tests.bench import __main__ as bench
    from tests.soak import __main__ as soak

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
    PAGE.write_text(page(PAGE.read_text(), promises(), measured, summary()))
    missing = sorted(named() - set(measured))
    print(f"{len(measured)} of {len(named())} tests have results; without: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
