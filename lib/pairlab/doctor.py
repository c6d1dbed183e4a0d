"""What this machine can do, what is missing, and how to get it."""

from collections.abc import Iterator

from pairlab.analysis import texlive
from pairlab.errors import PairlabError
from pairlab.testbed import facts, registry
from pairlab.testbed.contracts import Backend, Lack, Program


def _latex() -> list[Lack]:
    missing = texlive.missing()
    return [Lack(f"LaTeX lacks {', '.join(missing)}", texlive.REMEDY)] if missing else []


def _program(name: str) -> list[Lack]:
    lack = Program(name, package=name).lack()
    return [lack] if lack else []


def _extras() -> Iterator[tuple[str, str, list[Lack]]]:
    """What pairlab does well without: its name, what it adds, and what is missing of it."""
    yield "LaTeX", "builds paper/main.pdf", _latex()
    yield "mmdebstrap", "builds the container image where no registry answers", _program("mmdebstrap")
    yield "Chromium", "runs the browser tests", _program("chromium")


def examine() -> dict:
    """The findings, as plain data: {"host": …, "backends": {name: …}, "extras": {name: …}}.

    Each thing that can be chosen has `available`, and `missing`: a list of {"what": …, "remedy": …}.
    """
    return {
        "host": facts.host(),
        "backends": {name: _examine_backend(registry.backends.get(name)()) for name in registry.backends.names()},
        "extras": {name: _finding(purpose, lacks) for name, purpose, lacks in _extras()},
    }


def _examine_backend(backend: Backend) -> dict:
    lacks = backend.lacks()
    drivers, workloads = {}, {}
    for name in registry.drivers.names():
        driver = registry.drivers.get(name)
        drivers[name] = _finding(driver.summary, lacks or _safely(backend, driver))
    for name in registry.workloads.names():
        workload = registry.workloads.get(name)
        missing = [lack for program in workload.programs if (lack := backend.lacks_program(program))]
        workloads[name] = _finding(workload.summary, lacks or missing)
    return {**_finding(backend.summary, lacks), "drivers": drivers, "workloads": workloads}


def _safely(backend: Backend, driver) -> list[Lack]:
    try:
        return backend.lacks_for(driver)
    except PairlabError as error:
        return [Lack(f"its check failed ({error})", "report this, with the output of pairlab doctor --json")]


def _finding(summary: str, lacks: list[Lack]) -> dict:
    missing = [{"what": lack.what, "remedy": lack.remedy} for lack in dict.fromkeys(lacks)]
    return {"available": not missing, "summary": summary, "missing": missing}
