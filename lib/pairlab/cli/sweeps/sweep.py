"""`pairlab sweep`: measure every cell of a sweep file."""

import contextlib
import shlex
import sys
from collections import Counter
from pathlib import Path

import click

from pairlab.cli.group import NOT_DONE, UNAVAILABLE, fail
from pairlab.cli.sweeps import watch as watching
from pairlab.cli.sweeps.workers import CREDENTIALS
from pairlab.cli.terminal import event, out, say, steps
from pairlab.errors import BadInput
from pairlab.progress.words import duration
from pairlab.testbed.contracts import silent


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="List the cells in their order; measure nothing.")
@click.option("--watch", is_flag=True, help="Show the progress of a sweep that was started elsewhere.")
@click.option("--backend", help="Use this backend instead of the file's; with --watch, show only its cells.")
@click.option("--retry", is_flag=True, help="Measure failed and invalid cells again.")
@click.option("--stop-on-failure", is_flag=True, help="Stop at the first cell that fails, as with `on_failure: stop`.")
@click.option(
    "--attempts",
    type=click.IntRange(1, 100),
    help="Measure a cell at most so often if other load on the machine makes it invalid; by default as FILE says (3).",
)
@click.option("--no-wait", is_flag=True, help="Fail if another measurement is running on this host.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a line for each cell, and one at the end.")
@click.option("--scheduler", help="Measure on the workers of this Dask scheduler, tls://HOST:PORT (pairlab worker).")
@click.option(
    "--wait-s",
    default=60.0,
    show_default=True,
    help="With --scheduler: wait so long (s) for it, and for workers.",
)
@CREDENTIALS
def sweep(
    *, file, dry_run, watch, backend, retry, stop_on_failure, attempts, no_wait, as_json, scheduler, wait_s, credentials
):
    """Measure every cell of a sweep FILE; resumes where it was interrupted. FILE may be the name of a sweep in sweeps/.

    Exit status 0 only if every cell is done, or may be skipped; 3 if none is, so that there is nothing to report.

    With --watch, nothing is measured: it reads the store and shows the cells done, failed and left, the time left and
    the newest results of a sweep that runs in another terminal or notebook, or on another host that shares the store.
    It ends with the sweep, and with the sweep's status; Ctrl-C ends only the watching, with status 0. If the sweep is
    not running, it prints the command that resumes it: on a terminal it then waits for that, elsewhere it ends with
    status 1. With --json, it prints a line whenever something changes.
    """
    if watch:
        if dry_run or retry or stop_on_failure or attempts or no_wait or scheduler:
            raise BadInput("--watch measures nothing: of the other options, only --backend and --json go with it")
        watching.watch(file, backend, as_json=as_json)
        return
    from pairlab.base import schedulers
    from pairlab.batch import runner as sweeps
    from pairlab.batch import sweep_file, sweep_manifest
    from pairlab.testbed import registry

    file = sweep_file.locate(file)
    plan = sweep_manifest.keep_auto(sweeps.load(file), say)
    if backend:
        registry.backends.get(backend)
    todo, most = sweeps.cells(plan, backend), sweeps.cells(plan, backend, at_most=True)
    view = (_Events if as_json else _Words)(plan.name, todo, most, retry, shared=bool(scheduler))
    if dry_run:
        view.plan(Counter(sweeps.rules(plan, backend).values()))
        return
    view.begin()
    asked = {"backend": backend, "retry": retry, "attempts": attempts, "wait": not no_wait, "say": say}
    asked["stop_on_failure"] = stop_on_failure or None
    with contextlib.ExitStack() as stack:
        if scheduler:
            from pairlab.batch.executors.workers import WorkerPool

            cells = list(sweeps.rules(plan, backend))
            its = {"attempts": attempts or plan.attempts, "retry": retry, "wait": not no_wait}
            asked["pool"] = stack.enter_context(
                WorkerPool(scheduler, cells, wait_s=wait_s, credentials=credentials, **its)
            )
        tally = view.follow(lambda tell, progress: sweeps.run(plan, tell=tell, progress=progress, **asked))
    again = [_myself(), "sweep", str(file), *(["--backend", backend] if backend else []), "--retry"]
    again += schedulers.options(scheduler, credentials) if scheduler else []
    view.end(tally, again)
    if not tally.done:
        fail("nothing was measured, so there is nothing to report", UNAVAILABLE)
    if not tally.good:
        sys.exit(NOT_DONE)


def _myself():
    """This program as one can type it where one is."""
    path = Path(sys.argv[0])
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else sys.argv[0]


class _View:
    """A sweep as it is printed: its name, its cells, how many they can become, and how long both take."""

    def __init__(self, name, todo, most, retry, *, shared):
        from pairlab import store
        from pairlab.batch import runner as sweeps
        from pairlab.measurement import in_store

        self.name, self.todo, self.most = name, todo, most
        self.statuses = (store.statuses if shared else in_store.statuses)(most)  # shared: measured on whatever host
        of_todo = {spec: self.statuses[spec] for spec in todo}
        self.estimates_s = [sweeps.estimate_s(statuses, retry=retry) for statuses in (of_todo, self.statuses)]


class _Words(_View):
    """For people: a line for each cell and, on a terminal, bars with the time left.

    A reason is printed in full for the first cell that has it, and with the number of cells at the end; of cells that
    are skipped, at the end only.
    """

    def plan(self, rules):
        for number, spec in enumerate(self.todo, 1):
            stored = self.statuses[spec]
            out.print(f"{number:4} {spec.key} {spec}" + (f" [{stored}]" if stored else ""), markup=False)
        for rule, cells in rules.items():
            if not isinstance(rule, int):
                how = f"repeated {rule.at_least} to {rule.at_most} times, until {rule}"
                out.print(f"{cells} of these cells, each {how}", markup=False)
        out.print(f"{self._extent()} for those to be measured")

    def begin(self):
        out.print(f"sweep {self.name}: {self._extent()}")

    def _extent(self):
        """How many cells, and about how long those take that are to be measured: ranges, where results decide."""
        least, most = len(self.todo), len(self.most)
        cells = f"{least} cells" if most == least else f"{least} to {most} cells"
        spent, longest = map(duration, self.estimates_s)
        return f"{cells}, about {spent}" + (f" to {longest}" if longest != spent else "")

    def follow(self, measure):
        from pairlab.model import reasons

        first: dict[tuple[str, str], int] = {}

        def said(report):
            if report.state in ("done", "stored"):
                return f": {report.text}"
            number = first.setdefault((report.state, reasons.same(report.text)), report.number)
            return f": {report.text}" if number == report.number else f": as cell {number}"

        with steps(len(self.todo), "cells", self.estimates_s[0]) as shown:

            def tell(report):
                total = f"{'~' if report.most > report.total else ''}{report.total}"
                if report.state != "skipped":
                    line = f"{report.number:4}/{total} {report.state:8} {report.spec}{said(report)}"
                    out.print(line if out.is_terminal else f"{line} ({duration(report.left_s)} left)", markup=False)
                shown.reached(report.number, report.total, report.left_s)

            return measure(tell, shown.phase)

    def end(self, tally, again):
        from pairlab.model import reasons

        if tally.stopped:
            out.print("stopped at the first failure, as asked; started again, it continues after that cell")
        out.print(f"{tally.done} done, {tally.skipped} skipped, {len(tally.not_done)} not done")
        for skip in reasons.grouped(("skipped", why) for why in tally.skips.elements()):
            out.print(f"  {skip.cells} skipped: {skip.reason}", markup=False)
        for name in tally.imprecise:
            out.print(f"  not as precise as asked: {name}", markup=False)
        for trouble in reasons.grouped(tally.troubles):
            out.print(f"  {trouble.cells} {trouble.status}: {trouble.reason}", markup=False)
        if tally.spoilt:
            share = len(tally.spoilt) / tally.measurements
            out.print(f"{len(tally.spoilt)} of {tally.measurements} measurements ({share:.0%}) did not count:")
        for trouble in _spoilt(tally):
            out.print(f"  {trouble.cells}: {trouble.reason}", markup=False)
        if tally.not_done:
            out.print(f"to measure again what is not done: {shlex.join(again)}", markup=False)


class _Events(_View):
    """For programs: a line with a JSON object for each cell, and for the start and the end."""

    def plan(self, rules):
        self.begin()
        for number, spec in enumerate(self.todo, 1):
            event("planned", number=number, **_cell(spec), stored=self.statuses[spec])

    def begin(self):
        least_s, most_s = self.estimates_s
        cells = {"cells": len(self.todo), "cells_at_most": len(self.most)}
        event("sweep", name=self.name, **cells, estimate_s=least_s, estimate_at_most_s=most_s)

    def follow(self, measure):
        def tell(report):
            known = {"number": report.number, "total": report.total, "total_at_most": report.most}
            outcome = {"state": report.state, "told": report.text, "left_s": report.left_s}
            event("cell", **known, **_cell(report.spec), **outcome)

        return measure(tell, silent)

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
    """Why measurements did not count, the most frequent reason first."""
    from pairlab.model import reasons

    return reasons.grouped(("spoilt", reason) for reason in tally.spoilt)


def _cell(spec):
    return {"key": spec.key, "spec": spec.model_dump(mode="json")}
