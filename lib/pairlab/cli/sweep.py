"""`pairlab sweep`: measure every cell of a sweep file; `pairlab scheduler`, `pairlab worker`: on several machines."""

import contextlib
import shlex
import sys
from collections import Counter
from functools import cached_property
from pathlib import Path

import click

from pairlab.base import named_values, units
from pairlab.base.caller import caller_with
from pairlab.base.credentials import file as credentials_file
from pairlab.cli import options
from pairlab.cli import watch as watching
from pairlab.cli.terminal import NOT_DONE, UNAVAILABLE, event, fail, out, say, steps, write
from pairlab.errors import BadInput, UnknownName, unknown_name
from pairlab.progress.describe import duration
from pairlab.testbed.contracts import no_progress


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="List the cells in their order; measure nothing.")
@click.option("--watch", is_flag=True, help="Show the progress of a sweep that was started elsewhere.")
@options.backend("Use this backend instead of the file's; with --watch, show only its cells.")
@click.option("--retry", is_flag=True, help="Measure failed and invalid cells again.")
@click.option("--stop-on-failure", is_flag=True, help="Stop at the first cell that fails, as with `on_failure: stop`.")
@click.option(
    "--attempts",
    type=click.IntRange(1, 100),
    help="Measure a cell at most so often if other load on the machine makes it invalid; by default as FILE says (3).",
)
@click.option("--where", multiple=True, metavar="NAME=VALUE", help="Measure only cells that have this value.")
@click.option("--repetitions", default="", help="So many in place of the file's (8), or so many more (+5).")
@options.LABEL
@options.NO_WAIT
@options.as_json("a line for each cell, and one at the end")
@options.SCHEDULER
@click.option(
    "--wait-s",
    default=60.0,
    show_default=True,
    help="With --scheduler: wait so long (s) for it, and for workers.",
)
@options.CREDENTIALS
def sweep(file, dry_run, watch, where, repetitions, label, no_wait, as_json, scheduler, wait_s, credentials, **how):
    """Measure every cell of a sweep FILE.

    It resumes where it was interrupted. FILE may be the name of a sweep in sweeps/.

    Exit status 0 only if every cell is done, or may be skipped; 3 if none is, so that there is nothing to report.

    With --watch, nothing is measured: it reads the store and shows the cells done, failed and left, the time left and
    the newest results of a sweep that runs in another terminal or notebook, or on another host that shares the store.
    It ends with the sweep, and with the sweep's status; Ctrl-C ends only the watching, with status 0. If the sweep is
    not running, it prints the command that resumes it: on a terminal it then waits for that, elsewhere it ends with
    status 1. With --json, it prints a line whenever something changes.
    """
    if watch:
        backend = how.pop("backend")
        if dry_run or any(how.values()) or no_wait or scheduler:
            raise BadInput("--watch measures nothing: of the other options, only --backend and --json go with it")
        watching.watch(file, backend, as_json=as_json)
        return
    from pairlab.base import schedulers
    from pairlab.batch import runner as sweeps
    from pairlab.batch import sweep_file, sweep_manifest

    click.get_current_context().with_resource(caller_with(label=label))
    file = sweep_file.locate(file)
    plan = sweep_manifest.keep_auto(sweeps.load(file), say)
    plan = plan.with_repetitions(repetitions) if repetitions else plan
    backend = how["backend"]
    fits = _fits(where)
    todo, most = (
        [spec for spec in sweeps.cells(plan, backend, at_most=at_most) if fits(spec)] for at_most in (False, True)
    )
    if not todo:
        raise BadInput(f"no cell of sweep {plan.name!r} has {', '.join(where)}")
    view = (_Events if as_json else _Words)(plan.name, todo, most, how["retry"], shared=bool(scheduler))
    if dry_run:
        view.plan(
            Counter(rule for spec, rule in sweeps.rules(plan, backend).items() if fits(spec)),
            [cells for block in sweep_file.blocks(plan, backend) if (cells := list(filter(fits, block)))],
            _in_others(plan, todo),
            sweep_file.fractions(plan, backend),
        )
        return
    view.begin()
    given = how | {"stop_on_failure": how["stop_on_failure"] or None, "where": fits, "wait": not no_wait, "say": say}
    with contextlib.ExitStack() as stack:
        if scheduler:
            from pairlab.batch.executors.workers import WorkerPool

            given["pool"] = stack.enter_context(WorkerPool(scheduler, wait_s=wait_s, credentials=credentials))
        tally = view.follow(lambda tell, progress: sweeps.run(plan, tell=tell, progress=progress, **given))
    again = [_myself(), "sweep", str(file), *(["--backend", backend] if backend else []), "--retry"]
    again += ["--label", label] if label else []
    again += [word for each in where for word in ("--where", each)]
    again += ["--repetitions", repetitions] if repetitions else []
    again += schedulers.options(scheduler, credentials) if scheduler else []
    view.end(tally, again)
    if not tally.done:
        fail("nothing was measured, so there is nothing to report", UNAVAILABLE)
    if not tally.good:
        sys.exit(NOT_DONE)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8786, show_default=True, help="Port to listen at.")
@click.option("--dashboard-port", type=int, help="Port of Dask's dashboard, which any user of this host can read.")
@options.CREDENTIALS
def scheduler(host, port, dashboard_port, credentials):
    """Start a Dask scheduler for sweeps on several hosts.

    Workers and sweeps connect to it; Ctrl-C ends it.

    Whoever has its file of credentials, and nobody else, can connect, and can run commands as the workers' users: copy
    it to the hosts of workers only. It listens at this host only, unless you give --host.
    """
    from pairlab.batch.executors import processes

    processes.serve_scheduler(host, port, dashboard_port, credentials_file(credentials), say=write)


@click.command()
@click.option("--scheduler", "address", required=True, help="The scheduler, such as tls://127.0.0.1:8786.")
@click.option("--host", help="Address to listen at; by default the one that reaches the scheduler.")
@click.option("--wait-s", default=300.0, show_default=True, help="Wait so long for a scheduler that is gone.")
@options.CREDENTIALS
def worker(address, host, wait_s, credentials):
    """Measure cells of sweeps that run on other hosts.

    It serves `pairlab sweep FILE --scheduler`; Ctrl-C ends it.

    One worker a host: it measures one cell at a time, as this user, in a store of its own that is emptied when the run
    has been sent. It needs neither the sweep's file nor its store.
    """
    from pairlab.batch.executors import processes

    processes.serve_worker(address, host, wait_s, credentials_file(credentials), say=write)


def _fits(where):
    """A predicate: whether a cell has these values, NAME=VALUE; for a name with several values, one of them."""
    from pairlab.model.spec import Spec, value_of

    texts = named_values.by_name(where)
    if unknown := [name for name in texts if name not in Spec.model_fields]:
        raise UnknownName(f"--where: {unknown_name('parameter', unknown[0], Spec.model_fields)}")
    accepted = {name: [value_of(name, value) for value in values] for name, values in texts.items()}
    return lambda spec: all(getattr(spec, name) in values for name, values in accepted.items())


def _in_others(plan, todo):
    """The sweep's cells in each other backend, by the backend's name."""
    from pairlab.batch import runner as sweeps
    from pairlab.errors import BadSweep
    from pairlab.testbed import registry

    cells_of = {}
    for name in registry.backends.names():
        if name not in {spec.backend for spec in todo} and registry.backends.get(name).is_set_up():
            with contextlib.suppress(BadSweep):  # no grid is for this backend
                cells_of[name] = sweeps.cells(plan, name)
    return cells_of


def _myself():
    """The command of this program, relative to the current directory if possible."""
    path = Path(sys.argv[0])
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else sys.argv[0]


class _View:
    """The printed view of a sweep: name, cells, the largest possible number of cells, and estimated times of both."""

    def __init__(self, name, todo, most, retry, *, shared):
        from pairlab import store
        from pairlab.batch import runner as sweeps
        from pairlab.batch.schedule import to_measure
        from pairlab.testbed import environment

        self.name, self.todo, self.most = name, todo, most
        # shared: runs of every host count
        self.statuses = store.statuses(most) if shared else store.statuses(most, environment=environment.here)
        of_todo = {spec: self.statuses[spec] for spec in todo}
        self.to_measure = to_measure(of_todo, retry)
        self.estimates_s = [
            sweeps.estimate_s(statuses, retry=retry, cost_s=lambda spec: self.earlier.cell(spec).seconds)
            for statuses in (of_todo, self.statuses)
        ]

    @cached_property
    def earlier(self):
        """The runs for estimates; loaded late, as a large store need not be read for a complete sweep."""
        from pairlab.measurement.estimate import EarlierRuns

        return EarlierRuns()

    def space(self):
        """Estimated bytes of the runs to be measured, and the number of cells that a rule of thumb was used for."""
        estimates = [self.earlier.stored_bytes(spec) for spec in self.to_measure]
        return sum(needed for needed, _ in estimates), sum(not runs for _, runs in estimates)


class _Words(_View):
    """The view for people: a line for each cell and, on a terminal, bars with the time left.

    A reason is printed in full at its first cell, and with the number of cells at the end; the reasons of skipped cells
    only at the end.
    """

    def plan(self, rules, blocks, others, fractions):
        from pairlab.measurement.measure import Cell

        def takes(cells):
            return duration(sum(self.earlier.cell(spec).seconds for spec in cells))

        for number, spec in enumerate(self.todo, 1):
            stored = self.statuses[spec]
            write(f"{number:4} {spec.key} {spec}" + (f" [{stored}]" if stored else ""))
        for experiment, design in fractions:
            write(f"{experiment}: {design.describe()}")
            for group in design.aliases():
                write(f"  aliased: {' = '.join(group)}")
        longest = takes(max(blocks, key=lambda block: sum(self.earlier.cell(spec).seconds for spec in block)))
        out.print(f"{len(blocks)} block{'s' * (len(blocks) != 1)} of cells that are compared, the longest of {longest}")
        for backend, cells in others.items():
            out.print(f"with --backend {backend}: {len(cells)} cells, about {takes(cells)}")
        for rule, cells in rules.items():
            if not isinstance(rule, int):
                how = f"repeated {rule.at_least} to {rule.at_most} times, until {rule}"
                write(f"{cells} of these cells, each {how}")
        missing = Counter(str(why) for spec in self.todo if (why := Cell(spec).missing))
        for why, cells in missing.most_common():
            write(f"{cells} of these cells cannot be measured here: {why}")
        self._estimated()
        stored = sum(status == "ok" for status in map(self.statuses.get, self.todo))
        out.print(f"{self._extent()} for those to be measured; stored: {stored} of {len(self.todo)}")

    def _estimated(self):
        """Prints the basis of the time estimate, and the disk space of the runs to be measured."""
        from pairlab.measurement.estimate import rule_of_thumb

        if not self.to_measure:
            return
        by_rule = Counter(spec.backend for spec in self.to_measure if not self.earlier.cell(spec).runs)
        by_runs = len(self.to_measure) - by_rule.total()
        by = [f"of {by_runs} cells from runs of this host over the same network"] if by_runs else []
        by += [f"of {cells} cells by a rule of thumb: {rule_of_thumb(backend)}" for backend, cells in by_rule.items()]
        write(f"time estimated {'; '.join(by)}")
        needed_bytes, unknown = self.space()
        by = f"of {unknown} cells by a rule of thumb" if unknown else "from runs of their experiments and workloads"
        write(f"disk space: about {units.with_prefix(needed_bytes, 'B', 2)}, estimated {by}")

    def begin(self):
        out.print(f"sweep {self.name}: {self._extent()}")

    def _extent(self):
        """The number of cells, and the estimated time of the unmeasured ones: ranges, if results decide."""
        least, most = len(self.todo), len(self.most)
        cells = f"{least} cells" if most == least else f"{least} to {most} cells"
        spent, longest = map(duration, self.estimates_s)
        return f"{cells}, about {spent}" + (f" to {longest}" if longest != spent else "")

    def follow(self, measure):
        from pairlab.model import reasons

        first: dict[tuple[str, str], int] = {}

        def detail(report):
            if report.state in ("done", "stored"):
                return f": {report.text}"
            number = first.setdefault((report.state, reasons.same(report.text)), report.number)
            return f": {report.text}" if number == report.number else f": as cell {number}"

        with steps(len(self.todo), "cells", self.estimates_s[0]) as bars:

            def tell(report):
                total = f"{'~' if report.most > report.total else ''}{report.total}"
                if report.state != "skipped":
                    line = f"{report.number:4}/{total} {report.state:8} {report.spec}{detail(report)}"
                    write(line if out.is_terminal else f"{line} ({duration(report.left_s)} left)")
                bars.reached(report.number, report.total, report.left_s)

            return measure(tell, bars.phase)

    def end(self, tally, again):
        from pairlab.model import reasons

        if tally.stopped:
            out.print("stopped at the first failure, as asked; started again, it continues after that cell")
        out.print(f"{tally.done} done, {tally.skipped} skipped, {len(tally.not_done)} not done")
        for skip in reasons.grouped(("skipped", why) for why in tally.skips.elements()):
            write(f"  {skip.cells} skipped: {skip.reason}")
        for name in tally.imprecise:
            write(f"  not as precise as asked: {name}")
        for trouble in reasons.grouped(tally.troubles):
            write(f"  {trouble.cells} {trouble.status}: {trouble.reason}")
        if tally.disturbed:
            share = len(tally.disturbed) / tally.measurements
            out.print(f"{len(tally.disturbed)} of {tally.measurements} measurements ({share:.0%}) did not count:")
        for trouble in _spoilt(tally):
            write(f"  {trouble.cells}: {trouble.reason}")
        if tally.not_done:
            write(f"to measure again what is not done: {shlex.join(again)}")


class _Events(_View):
    """The view for programs: a line with a JSON object for each cell, and for the start and the end."""

    def plan(self, rules, blocks, others, fractions):
        self.begin()
        for experiment, design in fractions:
            resolution, aliased = design.resolution, design.aliases()
            event("design", experiment=experiment, design=design.describe(), resolution=resolution, aliased=aliased)
        for number, spec in enumerate(self.todo, 1):
            event("planned", number=number, **_cell(spec), stored=self.statuses[spec])

    def begin(self):
        least_s, most_s = self.estimates_s
        cells = {"cells": len(self.todo), "cells_at_most": len(self.most)}
        estimates = {"estimate_s": least_s, "estimate_at_most_s": most_s, "estimate_bytes": round(self.space()[0])}
        event("sweep", name=self.name, **cells, **estimates)

    def follow(self, measure):
        def tell(report):
            extent = {"number": report.number, "total": report.total, "total_at_most": report.most}
            outcome = {"state": report.state, "text": report.text, "left_s": report.left_s}
            event("cell", **extent, **_cell(report.spec), **outcome)

        return measure(tell, no_progress)

    def end(self, tally, again):
        event(
            "end",
            done=tally.done,
            skipped=dict(tally.skips),
            not_done=tally.not_done,
            imprecise=tally.imprecise,
            stopped=tally.stopped,
            measurements=tally.measurements,
            spoilt={trouble.reason: trouble.cells for trouble in _spoilt(tally)},
            good=tally.good,
        )


def _spoilt(tally):
    """The reasons that measurements did not count, the most frequent first."""
    from pairlab.model import reasons

    return reasons.grouped(("spoilt", reason) for reason in tally.disturbed)


def _cell(spec):
    return {"key": spec.key, "spec": spec.model_dump(mode="json")}
