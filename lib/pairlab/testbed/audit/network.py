"""What a testbed could leave in the host's network: networks, namespaces, links, switches and firewall rules.

One function for each kind: it yields what there is, and raises Unseen where that cannot be read. Nothing is changed.
Attribution errs to one side: only what is known to be somebody else's is called that; what bears no sign is unknown.
"""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pairlab.base.threads import run_in_thread
from pairlab.testbed.audit.attribution import OTHERS, OURS, UNKNOWN, combined
from pairlab.testbed.audit.view import (
    NAMED_NAMESPACES,
    Thing,
    Unseen,
    View,
    entries,
    require_docker,
    whose_namespace_file,
)

#: Links of pairlab's: in a sandbox's network, and on the host below Docker's macvlan networks.
OUR_LINKS = re.compile(r"pairlab|pl[0-9a-z_]{8}x?$|(client|server)-[0-9]+$|parent[01]$")
COUNTERS = re.compile(r" ?\[[0-9]+:[0-9]+\] ?")


def networks(view: View) -> Iterator[Thing]:
    """Docker's networks."""
    require_docker(view.docker)
    for each in view.docker.networks:
        yield Thing("docker network", each["Id"][:12], view.networks[each["Id"]], each["Name"])


def namespaces(view: View) -> Iterator[Thing]:
    """Network, mount, PID and user namespaces: by who is in them, by who holds them open, and by name."""
    for space in view.inside.keys() | view.held.keys():
        inside, held = view.inside.get(space, set()), view.held.get(space, set())
        holders = inside | held
        if any(view.attribution.whose(pid) == OTHERS for pid in inside):
            whose = OTHERS  # it would be there without us
        elif view.attribution.observer in held:
            whose = OURS  # the observer forgot to close it
        else:
            whose = combined(view.attribution.whose(pid) for pid in holders)
        words = [process.command for pid in sorted(holders)[:1] if (process := view.attribution.processes.get(pid))]
        yield Thing("namespace", space, whose, "of " + (words[0] if words else "nobody"))
    for folder in NAMED_NAMESPACES:
        for file in entries(folder):
            if _is_mounted(file):  # Docker removes the others within a minute
                yield Thing("namespace", str(file), whose_namespace_file(view, file), "named")


def _is_mounted(file: Path) -> bool:
    """Whether a namespace is mounted there; else it is an empty file, left when one was unmounted."""
    try:
        return file.stat().st_dev != file.parent.stat().st_dev
    except OSError:  # gone meanwhile
        return False


def links(view: View) -> Iterator[Thing]:
    """Links of the present network namespace."""
    found = run_in_thread(_read_links)
    names = {each["index"]: each["name"] for each in found}
    aliases = {each["name"]: each["alias"] for each in found}
    for each in found:
        name, master = each["name"], names.get(each["master"], "")
        whose = view.of_network(name)
        if OUR_LINKS.match(name):
            alias = aliases.get(name) or aliases.get(name.removesuffix("x")) or ""
            whose = view.attribution.whose_testbed(name[2:10], alias) if name.startswith("pl") else OURS
        elif whose is None and each["kind"] == "veth" and master:
            whose = view.of_network(master)
        detail = [each["kind"], "up" if each["up"] else "down", f"mtu {each['mtu']}", each["qdisc"]]
        detail += [f"in {master}"] if master else []
        yield Thing("link", name, OTHERS if name == "lo" else whose or UNKNOWN, ", ".join(filter(None, detail)))


def _read_links() -> list[dict]:
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        return [
            {
                "index": link["index"],
                "name": link.get("ifname"),
                "master": link.get("master"),
                "alias": link.get("ifalias"),
                "kind": (link.get("linkinfo") or {}).get("kind") or "",
                "up": bool(link["flags"] & 1),
                "mtu": link.get("mtu"),
                "qdisc": link.get("qdisc"),
            }
            for link in ipr.get_links()
        ]


def switches(view: View) -> Iterator[Thing]:
    """Bridges and ports in the database of this host's own Open vSwitch, where it runs one; ours never get there."""
    socket = Path(os.environ.get("OVS_RUNDIR", "/run/openvswitch")) / "db.sock"
    if not socket.exists():
        return
    for table in ("Bridge", "Port"):
        output = _output(["ovs-vsctl", f"--db=unix:{socket}", "--timeout=5", "--format=json", "list", table])
        known = json.loads(output)
        for row in known["data"]:
            name = row[known["headings"].index("name")]
            yield Thing("switch", f"{table.lower()} {name}", OURS if OUR_LINKS.match(name) else UNKNOWN)


def firewall(view: View) -> Iterator[Thing]:
    """Rules and chains of iptables and nftables, without counters; a rule's second copy is a thing of its own."""
    if os.geteuid() != 0:
        raise Unseen("only root may read the rules of the firewall")
    copies: Counter[str] = Counter()
    for rule in _rules():
        copies[rule] += 1
        again = f" (copy {copies[rule]})" if copies[rule] > 1 else ""
        bridges = re.findall(r"\b(?:br-[0-9a-f]{12}|docker0)\b", rule)
        whose = combined(view.of_network(bridge) or UNKNOWN for bridge in bridges) if bridges else UNKNOWN
        yield Thing("firewall rule", rule + again, whose)


def _rules() -> Iterator[str]:
    for program in ("iptables", "ip6tables"):
        table = ""
        for line in _output([f"{program}-save"]).splitlines() if shutil.which(f"{program}-save") else ():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith((":", "-")):
                yield f"{program} {table} {re.sub(COUNTERS, '', line)}"
    chain: list[str] = []
    for line in _output(["nft", "--stateless", "list", "ruleset"]).splitlines() if shutil.which("nft") else ():
        words = line.strip()
        if words.endswith("{"):
            chain.append(words.removesuffix("{").strip())
        elif words == "}":
            chain.pop()
        elif words:
            yield f"nft {' '.join(chain)} {words}"


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unseen(f"{argv[0]} does not answer: {error}") from error
    return done.stdout
