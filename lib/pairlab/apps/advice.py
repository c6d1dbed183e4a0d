"""Which network for what: the drivers there are, held against stored runs; and the sweep that fills empty cells."""

from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.analysis.advice import answer
from pairlab.analysis.advice.answer import Advice, Missing
from pairlab.analysis.advice.question import Network, Question
from pairlab.base import safe_yaml
from pairlab.batch import experiments
from pairlab.errors import BadSpec, NoRuns
from pairlab.measurement.measure import resolve
from pairlab.store.dataset import Runs, load_runs
from pairlab.testbed import registry
from pairlab.testbed.contracts import ISOLATIONS, NetworkDriver


def advise(question: Question, runs: str | Path | None = None, *, sweep: str = "", backend: str = "") -> Advice:
    """Which network, by the runs below `runs` (of one `sweep`, if named): see analysis/advice/answer.py.

    backend: only that one; by default each that has runs, or netns where there is none. Raises as load_runs, but in a
    folder that is there not NoRuns: networks can be told of without any.
    """
    if runs is not None and not paths.existing(runs).is_dir():
        raise NoRuns(f"no runs in {paths.tried(runs)}: there is no such folder")
    try:
        found = load_runs(runs, sweep=sweep)
    except NoRuns:
        found = Runs(())
    if backend:
        registry.backends.get(backend)
    backends = [backend] if backend else sorted({run.spec.backend for run in found if run.status == "ok"}) or ["netns"]
    return answer.advise(found, question, [each for name in backends for each in networks(name)])


def networks(backend: str) -> list[Network]:
    """The networks of a backend that carry traffic."""
    known = [registry.drivers.get(name) for name in registry.drivers.names()]
    return [
        Network(
            driver.name,
            backend,
            (driver.isolation, ISOLATIONS[driver.isolation]),
            driver.separates(),
            driver.spans_hosts,
            driver.needs_hosts,
            _needs(driver, backend),
        )
        for driver in known
        if driver.carries_traffic and backend not in driver.absent_in
    ]


def _needs(driver: type[NetworkDriver], backend: str) -> str:
    """Root, Docker, and packages of programs: namespaces need none of the former two."""
    by_docker = driver.docker if backend == "docker" else None
    told = ["Docker"] if backend == "docker" else []
    if by_docker and by_docker.swarm:
        told = ["Docker (swarm)"]
    if backend == "docker" and (not by_docker or by_docker.has_own_daemons):
        told.append("root")
    if not by_docker:  # Docker itself builds the others
        told += [program.package or program.name for program in driver.programs]
    return ", ".join(dict.fromkeys(told)) or "–"


def sweep_text(advice: Advice, name: str = "advice") -> str:
    """A sweep file that fills the empty cells of the answer and measures nothing else; empty where none is empty.

    What no experiment here measures, and what one refuses for a network, is named in comments.
    """
    grids: dict[str, list[dict[str, Any]]] = {}
    left_out: list[str] = []
    for missing in advice.missing:
        if missing.experiment not in experiments.notebooks():
            left_out.append(f"{', '.join(missing.drivers)}: there is no experiment {missing.experiment!r} here")
            continue
        grid, refused = _grid(missing)
        left_out += refused
        if grid["driver"]:
            grids.setdefault(missing.experiment, []).append(grid)
    if not grids:
        return ""
    most = max(grid["repetitions"] for each in grids.values() for grid in each)
    content = {
        "name": name,
        "description": f"What is missing to say which network, for {advice.question}",
        "repetitions": most,
        "unavailable": "skip",
        "experiments": grids,
    }
    comments = "".join(f"# not measured: {each}\n" for each in left_out)
    return comments + safe_yaml.text(content, allow_unicode=True, width=110, default_flow_style=None)


def _grid(missing: Missing) -> tuple[dict[str, Any], list[str]]:
    """The grid of a sweep file, and what of it the experiment refuses."""
    known = experiments.defaults(missing.experiment)
    asked = {name: value for name, value in missing.parameters.items() if name in known and known[name] != value}
    if known.get("backend") != missing.backend:
        asked["backend"] = missing.backend
    accepted, refused = [], []
    for driver in missing.drivers:
        try:
            resolve(experiments.spec_of(missing.experiment, asked | {"driver": driver}))
            accepted.append(driver)
        except BadSpec as error:
            refused.append(f"{driver} by {missing.experiment}: {error}")
    return {"driver": accepted, **asked, "repetitions": missing.repetitions}, refused


def write_sweep(advice: Advice, file: Path) -> bool:
    """Writes `sweep_text` to a file, named after it; False where there is nothing to measure, and no file."""
    text = sweep_text(advice, file.stem)
    if text:
        file.write_text(text, encoding="utf-8")
    return bool(text)


def shown_command(file: Path) -> str:
    """How to measure it."""
    return f"pairlab sweep {paths.shown(file)}"
