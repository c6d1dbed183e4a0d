"""Advice on networks: the available drivers compared by stored runs; and the sweep that fills empty cells."""

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
from pairlab.model.spec import Spec
from pairlab.store.dataset import Runs, load_runs
from pairlab.testbed import registry
from pairlab.testbed.contracts import ISOLATIONS, NetworkDriver

#: Filters of runs that are not fields of a spec.
_ENVIRONMENT = frozenset({"host", "kernel", "label"})


def advise(question: Question, runs: str | Path | None = None, *, sweep: str = "", backend: str = "") -> Advice:
    """Advice by the runs below `runs` (of one `sweep`, if named): see analysis/advice/answer.py.

    backend: by default each that has runs, or netns if none has. Of several hosts, kernels or labels, the newest count,
    unless the question's filters name some. Raises as load_runs and Runs.where, but no NoRuns for an existing folder:
    the answer describes networks even without runs.
    """
    if runs is not None and not paths.existing(runs).is_dir():
        raise NoRuns(f"no runs in {paths.tried(runs)}: there is no such folder")
    try:
        every = not _ENVIRONMENT.isdisjoint(question.where)
        data = load_runs(runs, sweep=sweep, environment="all" if every else "newest")
    except NoRuns:
        data = Runs(())
    if backend:
        registry.backends.get(backend)
    backends = [backend] if backend else sorted({run.spec.backend for run in data if run.status == "ok"}) or ["netns"]
    drivers = [registry.drivers.get(name).name for name in question.where.get("driver", registry.drivers.names())]
    chosen = [each for name in backends for each in networks(name) if each.name in drivers]
    return answer.advise(data, question, chosen)


def networks(backend: str) -> list[Network]:
    """The networks of a backend that carry traffic."""
    result = []
    for driver in map(registry.drivers.get, registry.drivers.names()):
        if driver.carries_traffic and backend not in driver.absent_in:
            isolation = driver.isolation, ISOLATIONS[driver.isolation]
            hosts = driver.spans_hosts, driver.needs_hosts
            cannot = ", nor ".join(filter(None, [driver.cannot, "" if driver.spans_hosts else "reach other hosts"]))
            properties = driver.separates(), *hosts, _needs(driver, backend), cannot
            result.append(Network(driver.name, backend, isolation, *properties))
    return result


def _needs(driver: type[NetworkDriver], backend: str) -> str:
    """Root, Docker and packages, as the driver requires; namespaces need neither root nor Docker."""
    by_docker = driver.docker if backend == "docker" else None
    needs = ["Docker (swarm)" if by_docker and by_docker.swarm else "Docker"] if backend == "docker" else []
    if backend == "docker" and (not by_docker or by_docker.has_own_daemons):
        needs.append("root")
    if not by_docker:  # Docker itself builds the others
        needs += [program.package or program.name for program in driver.programs]
    return ", ".join(dict.fromkeys(needs)) or "–"


def sweep_text(advice: Advice, name: str = "advice") -> str:
    """A sweep file that measures the empty cells of the answer only; empty text without such cells.

    Comments list the cells that no experiment measures, and those that an experiment refuses.
    """
    grids: dict[str, list[dict[str, Any]]] = {}
    left_out: list[str] = []
    for missing in advice.missing:
        experiment, lacking = _experiment(missing)
        if lacking:
            left_out.append(f"{', '.join(missing.drivers)}: {lacking}")
            continue
        grid, refused = _grid(missing, experiment)
        left_out += refused
        if grid["driver"]:
            grids.setdefault(experiment, []).append(grid)
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


def _experiment(missing: Missing) -> tuple[str, str]:
    """The experiment that measures the missing cells, if necessary another one that has the parameters, such as other
    load; or the reason for having none.
    """
    if missing.experiment not in experiments.notebooks():
        return "", f"there is no experiment {missing.experiment!r} here"
    needed = {name for name, value in missing.parameters.items() if value != Spec.model_fields[name].default}
    needed -= {"workload"} if missing.of == "launch" else set()  # nothing is sent
    others = () if missing.of == "launch" else experiments.notebooks()
    for name in (missing.experiment, *others):
        if needed <= experiments.defaults(name).keys():
            return name, ""
    lacking = sorted(needed - experiments.defaults(missing.experiment).keys())
    return "", f"experiment {missing.experiment!r} has no {', '.join(lacking)}"


def _grid(missing: Missing, experiment: str) -> tuple[dict[str, Any], list[str]]:
    """The grid of a sweep file, and the drivers that the experiment refuses, with reasons."""
    own = experiments.defaults(experiment)
    grid = {name: value for name, value in missing.parameters.items() if name in own and own[name] != value}
    if own.get("backend") != missing.backend:
        grid["backend"] = missing.backend
    accepted, refused = [], []
    for driver in missing.drivers:
        try:
            resolve(experiments.spec_of(experiment, grid | {"driver": driver}))
            accepted.append(driver)
        except BadSpec as error:
            refused.append(f"{driver} by {experiment}: {error}")
    return {"driver": accepted, **grid, "repetitions": missing.repetitions}, refused


def write_sweep(advice: Advice, file: Path) -> bool:
    """Writes `sweep_text` to a file, with the file's name; False, without a file, if there is nothing to measure."""
    text = sweep_text(advice, file.stem)
    if text:
        file.write_text(text, encoding="utf-8")
    return bool(text)


def shown_command(file: Path) -> str:
    """The command that measures the file."""
    return f"pairlab sweep {paths.shown(file)}"
