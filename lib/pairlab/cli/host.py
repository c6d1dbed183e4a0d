"""Commands of the host: its capabilities, and the difference between two equal measurements on it."""

import contextlib
import json
import sys
from pathlib import Path

import click

from pairlab import paths
from pairlab.base.printing import echo
from pairlab.cli import options
from pairlab.cli.terminal import NOT_DONE, out, steps, table, write
from pairlab.errors import BadInput
from pairlab.testbed.contracts import no_progress


@click.command()
@click.option("--snapshot", "taken", type=click.Path(path_type=Path), help="Write what is on the host to a file.")
@click.option(
    "--diff",
    "before",
    type=click.Path(path_type=Path),
    help="Compare the host with that file; status 1 if they differ.",
)
@click.option("--ours", is_flag=True, help="With --diff: count only what is known to be pairlab's.")
@options.as_json()
def doctor(taken, before, ours, as_json):
    """Show what this machine can do, and how to get the rest.

    With --snapshot and --diff, check that the host is as it was: containers, networks, namespaces, links, switches,
    firewall rules, sysctls, cgroups, processes, temporary files, mounts. Both read only, and change nothing.
    """
    from pairlab.apps.doctor import compare, examine
    from pairlab.base import study_file
    from pairlab.testbed.audit import snapshot

    if taken and before:
        raise BadInput("use either --snapshot, which writes a snapshot, or --diff, which compares the host with one")
    if ours and not before:
        raise BadInput("--ours needs --diff FILE")
    if taken:
        taken.touch()  # so that the file itself is in the snapshot
        now = snapshot.take()
        taken.write_text(now.to_json(), encoding="utf-8")
        if as_json:
            echo(json.dumps({"file": str(taken), "things": len(now.things), "unseen": dict(now.unseen)}))
            return
        write(f"{len(now.things)} things written to {taken}")
        for kind, why in now.unseen.items():
            write(f"not checked: {kind}: {why}")
        return
    if before:
        difference = compare(snapshot.Snapshot.from_json(before.read_text(encoding="utf-8")), ours_only=ours)
        if as_json:
            echo(json.dumps(difference.as_dict(), indent=1))
        else:
            write(difference)
        if difference.left:
            sys.exit(NOT_DONE)
        return
    report = examine()
    if as_json:
        echo(json.dumps(report, indent=1))
        return
    host = report["host"]
    out.print(f"[bold]{host['cpu_model']}[/], {host['cpus']} CPUs, {host['memory_bytes'] / 2**30:.0f} GiB,", end=" ")
    out.print(f"{host['distribution']}, Linux {host['kernel']}")
    write(f"study {paths.STUDY}, runs in {paths.shown(paths.runs())}/")
    for kind, names in study_file.own_names().items():
        write(f"  code of the study runs as you: {kind} {', '.join(names)}")
    for name, backend in report["backends"].items():
        out.print()
        out.print(_finding(name, backend, f"[bold]backend {name}[/]"))
        if backend["available"]:
            for kind in ("drivers", "workloads"):
                for each, finding in backend[kind].items():
                    out.print(_finding(each, finding, f"  {kind[:-1]} {each}"))
    out.print()
    for name, extra in report["extras"].items():
        out.print(_finding(name, extra, name))
    if not all(thing["available"] for thing in _all_findings(report)) and (paths.ROOT / "Makefile").exists():
        out.print("\nWith root, [bold]make tools[/] installs all that Debian and Ubuntu have of the above.")


def _finding(name, finding, title):
    if finding["available"]:
        isolation = f" (isolation: {finding['isolation']})" if "isolation" in finding else ""
        return f"[green]✓[/] {title}: {finding['summary']}{isolation}"
    lacks = "".join(f"\n      {lack['what']}: {lack['remedy']}" for lack in finding["missing"])
    return f"[yellow]–[/] {title}: {finding['summary']}{lacks}"


def _all_findings(report):
    yield from report["extras"].values()
    for backend in report["backends"].values():
        yield from (backend, *backend["drivers"].values(), *backend["workloads"].values())


@click.command(cls=options.TakesParameters)
@options.backend("Whose noise is measured.", default="netns", show_default=True)
@click.option("--driver", default="bridge", show_default=True)
@click.option("--workload", default="auto", show_default=True)
@click.option(
    "--pairs", multiple=True, type=int, default=(10,), show_default=True,
    help="Number of pairs; may be given several times.",
)  # fmt: skip
@click.option("--repetitions", default=20, show_default=True, help="Repetitions; each measures every cell twice.")
@click.option("--duration", "duration_s", default=2.0, show_default=True, help="Seconds of each measurement.")
@click.option("--flow-bytes", default=0, help="Measure completion times too, of flows of this size.")
@click.option(
    "--plant", "costs", multiple=True, type=float, default=(5, 10, 20), show_default=True, metavar="PERCENT",
    help="Injected rate reductions to detect; may be given several times.",
)  # fmt: skip
@options.parameters("Set another parameter of every run.")
@click.option("--no-plant", is_flag=True, help="Inject no rate reductions.")
@options.FRESH
@options.as_json()
def calibrate(costs, parameters, no_plant, fresh, as_json, **planned):
    """Measure how far apart two equal measurements are here.

    This is the noise floor of this host.

    Every cell is measured as two, and links with a known rate reduction are measured beside them. The result is stored
    beside the runs; `pairlab claims` leaves smaller differences undecided. An interrupted calibration resumes. The exit
    status is 1 if equal cells were reported as different more often than chance allows, or an injected reduction was
    not detected.
    """
    from pairlab.analysis.comparison import noise_floor
    from pairlab.apps import calibration as calibrations

    plan = calibrations.plan(**planned, costs_percent=() if no_plant else costs, more=dict(parameters))
    total = len(list(calibrations.visits(plan)))
    with contextlib.nullcontext() if as_json else steps(total, "measurements") as bars:

        def tell(number, total, spec, outcome, left_s):
            if bars:
                echo(f"{number:4}/{total} {spec}: {outcome}", err=True)
                bars.reached(number, total, left_s)

        calibration = calibrations.run(plan, fresh=fresh, tell=tell, progress=bars.phase if bars else no_progress)
    if as_json:
        echo(calibration.model_dump_json(by_alias=True, indent=1))
    else:
        for title, frame in noise_floor.tables(calibration).items():
            table(frame, frame.itertuples(index=False), title=title)
        if plan.not_planted:
            write(f"no differences were planted: {plan.not_planted}")
        write(noise_floor.summary(calibration))
        file = noise_floor.file_of(paths.runs(), calibration.host, calibration.backend)
        write(f"recorded in {paths.shown(file)}")
    if not calibration.trustworthy:
        sys.exit(NOT_DONE)
