"""What this machine can do."""

import json
import sys
from pathlib import Path

import click

from pairlab.cli.group import NOT_DONE
from pairlab.cli.terminal import out
from pairlab.errors import BadInput


@click.command()
@click.option("--snapshot", "taken", type=click.Path(path_type=Path), help="Write what is on the host to a file.")
@click.option(
    "--diff",
    "before",
    type=click.Path(path_type=Path),
    help="Compare the host with that file; status 1 if they differ.",
)
@click.option("--ours", is_flag=True, help="With --diff: count only what is known to be pairlab's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(taken, before, ours, as_json):
    """Show what this machine can do, what is missing, and how to get it.

    With --snapshot and --diff, check that the host is as it was: containers, networks, namespaces, links, switches,
    firewall rules, sysctls, cgroups, processes, temporary files, mounts. Both read only, and change nothing.
    """
    from pairlab.apps.doctor import compare, examine
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
            click.echo(json.dumps({"file": str(taken), "things": len(now.things), "unseen": dict(now.unseen)}))
            return
        out.print(f"{len(now.things)} things written to {taken}", markup=False)
        for kind, why in now.unseen.items():
            out.print(f"not checked: {kind}: {why}", markup=False)
        return
    if before:
        found = compare(snapshot.Snapshot.from_json(before.read_text(encoding="utf-8")), ours_only=ours)
        if as_json:
            click.echo(json.dumps(found.as_dict(), indent=1))
        else:
            out.print(str(found), markup=False)
        if found.left:
            sys.exit(NOT_DONE)
        return
    found = examine()
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    host = found["host"]
    out.print(f"[bold]{host['cpu_model']}[/], {host['cpus']} CPUs, {host['memory_bytes'] / 2**30:.0f} GiB,", end=" ")
    out.print(f"{host['distribution']}, Linux {host['kernel']}")
    for name, backend in found["backends"].items():
        out.print()
        out.print(_finding(name, backend, f"[bold]backend {name}[/]"))
        if backend["available"]:
            for kind in ("drivers", "workloads"):
                for each, finding in backend[kind].items():
                    out.print(_finding(each, finding, f"  {kind[:-1]} {each}"))
    out.print()
    for name, extra in found["extras"].items():
        out.print(_finding(name, extra, name))
    if not all(thing["available"] for thing in _all_findings(found)):
        out.print("\nWith root, [bold]make tools[/] installs all that Debian and Ubuntu have of the above.")


def _finding(name, finding, title):
    if finding["available"]:
        isolation = f" (isolation: {finding['isolation']})" if "isolation" in finding else ""
        return f"[green]✓[/] {title}: {finding['summary']}{isolation}"
    lacks = "".join(f"\n      {lack['what']}: {lack['remedy']}" for lack in finding["missing"])
    return f"[yellow]–[/] {title}: {finding['summary']}{lacks}"


def _all_findings(found):
    yield from found["extras"].values()
    for backend in found["backends"].values():
        yield from (backend, *backend["drivers"].values(), *backend["workloads"].values())
