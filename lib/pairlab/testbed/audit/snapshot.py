"""The host at two moments, and what differs: the proof that a testbed left it as it was found.

take() reads the host; all else here is pure.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from pairlab.base.environment import boot_id
from pairlab.errors import BadInput
from pairlab.testbed.audit import network, system, view
from pairlab.testbed.audit.attribution import OTHERS, OURS, UNKNOWN, Attribution
from pairlab.testbed.audit.view import Thing, Unseen, View
from pairlab.testbed.cleanup.process_table import SESSION, read_processes

#: 2: what a thing is like is its `detail`.
VERSION = 2
#: Kinds of thing whose settings can change, so that their details are compared too.
CHANGEABLE = ("sysctl", "link")
#: Kinds that stay until somebody removes them: where an unknown one is gone, we may have removed it.
LASTING = ("link", "switch", "firewall rule", "sysctl")
APPEARED, VANISHED, CHANGED, UNSEEN = "appeared", "vanished", "changed", "unseen"

#: Every kind that is listed, by what one of its things is called.
KINDS: dict[str, Callable[[View], Iterator[Thing]]] = {
    "container": system.containers,
    "docker network": network.networks,
    "process": system.processes,
    "namespace": network.namespaces,
    "link": network.links,
    "switch": network.switches,
    "firewall rule": network.firewall,
    "sysctl": system.sysctls,
    "cgroup": system.cgroups,
    "temporary file": system.temporary_files,
    "mount": system.mounts,
}


@dataclass(frozen=True)
class Snapshot:
    """What there was on the host. seen: the kinds listed; unseen: why others could not be.

    session: whose things count as ours (see attribution.py); empty: all of pairlab's. conntrack_entries: for
    information only.
    """

    taken_at: str
    boot: str
    session: str
    seen: frozenset[str]
    unseen: Mapping[str, str] = field(default_factory=dict)
    things: tuple[Thing, ...] = ()
    conntrack_entries: int | None = None

    def to_json(self) -> str:
        fields = asdict(self) | {"version": VERSION, "seen": sorted(self.seen)}
        return json.dumps(fields, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Snapshot":
        """Raises BadInput for what is no snapshot, or one of a newer pairlab."""
        try:
            fields = json.loads(text)
            version = fields.pop("version")
            if version != VERSION:
                raise BadInput(f"snapshot version {version}, and this pairlab reads {VERSION}: take it again")
            things = tuple(Thing(**each) for each in fields.pop("things"))
            return cls(things=things, seen=frozenset(fields.pop("seen")), **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(
                f"this is no snapshot of a host ({error}): `pairlab doctor --snapshot FILE` writes one"
            ) from error


@dataclass(frozen=True)
class Difference:
    """One thing that changed. whose: ours, unknown, or others (known to be somebody else's)."""

    change: str
    kind: str
    name: str
    whose: str
    detail: str = ""
    before: str = ""

    @property
    def counts(self) -> bool:
        """Whether it counts against pairlab: all that is not known to be others', but for things of ours that went."""
        if self.change == VANISHED:
            return self.whose == UNKNOWN and self.kind in LASTING
        return self.whose != OTHERS

    def __str__(self) -> str:
        detail = f"{self.before} -> {self.detail}" if self.change == CHANGED else self.detail
        if self.change == UNSEEN:
            return f"{self.kind}: could be listed before, and cannot now ({detail})"
        return f"{self.kind} {self.name} {self.change}" + (f" ({detail})" if detail else "")


def take() -> Snapshot:
    """Reads the host; changes nothing. Why a kind cannot be listed is in `unseen`."""
    docker = view.ask_docker()
    session = os.environ.get(SESSION, "")
    owners: dict[str, str] = {}
    attribution = Attribution(read_processes(), owners, session, os.getpid())
    owners.update({each["Id"]: view.whose_labels(attribution, each["Config"]["Labels"]) for each in docker.containers})
    seen_now = View(attribution, docker, owners)
    things: list[Thing] = []
    unseen: dict[str, str] = {}
    for kind, list_things in KINDS.items():
        try:
            things.extend(list_things(seen_now))
        except Unseen as why:
            unseen[kind] = str(why)
    return Snapshot(
        taken_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        boot=boot_id(),
        session=session,
        seen=frozenset(KINDS.keys() - unseen.keys()),
        unseen=unseen,
        things=tuple(sorted(things, key=lambda each: (each.kind, each.name))),
        conntrack_entries=system.conntrack_entries(),
    )


def diff(before: Snapshot, after: Snapshot) -> list[Difference]:
    """What came, went or changed. A kind that could be listed before and cannot now is a difference too.

    Raises BadInput for snapshots that cannot be compared: of other hosts, of another boot, of another session.
    """
    if before.boot != after.boot:
        raise BadInput("the snapshots are of different hosts, or the host was rebooted in between")
    if before.session != after.session:
        raise BadInput(f"the snapshots were taken with different values of {SESSION}: take both with the same")
    was = {(each.kind, each.name): each for each in before.things}
    now = {(each.kind, each.name): each for each in after.things}
    found = [Difference(UNSEEN, kind, "", OURS, after.unseen[kind]) for kind in sorted(before.seen - after.seen)]
    for key in sorted(was.keys() | now.keys()):
        old, new = was.get(key), now.get(key)
        if key[0] not in before.seen & after.seen and not (new and new.whose == OURS):
            continue  # nothing to compare it with
        if new is None:
            found.append(Difference(VANISHED, *key, was[key].whose, was[key].detail))
        elif old is None:
            found.append(Difference(APPEARED, *key, new.whose, new.detail))
        elif key[0] == "namespace" and new.whose == OURS != old.whose:  # its number was used again
            found.append(Difference(APPEARED, *key, OURS, new.detail))
        elif key[0] in CHANGEABLE and new.detail != old.detail:
            found.append(Difference(CHANGED, *key, new.whose, new.detail, before=old.detail))
    return found


def counted(differences: Sequence[Difference], *, ours_only: bool = False) -> list[Difference]:
    """Those that count against pairlab. ours_only: only what is known to be ours, where others use the host too."""
    return [each for each in differences if each.counts and not (ours_only and each.whose == UNKNOWN)]
