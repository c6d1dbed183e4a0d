"""What this machine can do, what is missing, and how to get it."""

from pairlab.errors import PairlabError
from pairlab.testbed import facts, registry
from pairlab.testbed.contracts import Backend, Lack, Program

#: Programs that pairlab does well without, and what they add.
EXTRAS = {
    "LaTeX": (
        (Program("latexmk", "latexmk"), Program("pdflatex", "texlive-latex-recommended")),
        "builds paper/main.pdf",
    ),
    "mmdebstrap": (
        (Program("mmdebstrap", "mmdebstrap"),),
        "builds the container image where no registry answers",
    ),
    "Chromium": ((Program("chromium", "chromium"),), "runs the browser tests"),
}


def examine() -> dict:
    """The findings, as plain data: {"host": …, "backends": {name: …}, "extras": {name: …}}.

    Each thing that can be chosen has `available`, and `missing`: a list of {"what": …, "remedy": …}.
    """
    return {
        "host": facts.host(),
        "backends": {name: _examine_backend(registry.backends.get(name)()) for name in registry.backends.names()},
        "extras": {name: _examine_extra(*extra) for name, extra in EXTRAS.items()},
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


def _examine_extra(programs: tuple[Program, ...], purpose: str) -> dict:
    return _finding(purpose, [lack for program in programs if (lack := program.lack())])


def _finding(summary: str, lacks: list[Lack]) -> dict:
    missing = [{"what": lack.what, "remedy": lack.remedy} for lack in dict.fromkeys(lacks)]
    return {"available": not missing, "summary": summary, "missing": missing}
