"""Snapshots of the host, and their differences: the proof that a testbed left the host unchanged.

take() reads the host; all other functions are pure.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from pairlab.base.environment import boot_id
from pairlab.errors import BadInput
from pairlab.testbed.audit import things, view
from pairlab.testbed.audit.view import OTHERS, OURS, UNKNOWN, Attribution, Thing, Unseen, View
from pairlab.testbed.cleanup.process_table import SESSION, read_processes

#: 2: a thing's settings are its `detail`.
VERSION = 2
#: Kinds of thing whose settings can change, so that their details are compared too.
CHANGEABLE = ("sysctl", "link")
#: Kinds that stay until they are removed: if an unknown one has vanished, we may have removed it.
LASTING = ("link", "switch", "firewall rule", "sysctl")
APPEARED, VANISHED, CHANGED, UNSEEN = "appeared", "vanished", "changed", "unseen"

#: The listing function of every kind, by the kind's name.
KINDS: dict[str, Callable[[View], Iterator[Thing]]] = {
    "container": things.containers,
    "docker network": things.networks,
    "process": things.processes,
    "namespace": things.namespaces,
    "link": things.links,
    "switch": things.switches,
    "firewall rule": things.firewall,
    "sysctl": things.sysctls,
    "cgroup": things.cgroups,
    "temporary file": things.temporary_files,
    "mount": things.mounts,
}


@dataclass(frozen=True)
class Snapshot:
    """The things on the host. seen: the kinds listed; unseen: why other kinds could not be listed.

    session: the one whose things count as ours (see Attribution); empty: all of pairlab's. conntrack_entries: for
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
        """Raises BadInput for other text, and for a snapshot of another version."""
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
        """Whether it counts against pairlab: any difference not known to be others', except our vanished things."""
        if self.change == VANISHED:
            return self.whose == UNKNOWN and self.kind in LASTING
        return self.whose != OTHERS

    def __str__(self) -> str:
        detail = f"{self.before} -> {self.detail}" if self.change == CHANGED else self.detail
        if self.change == UNSEEN:
            return f"{self.kind}: could be listed before, and cannot now ({detail})"
        return f"{self.kind} {self.name} {self.change}" + (f" ({detail})" if detail else "")


def take() -> Snapshot:
    """Reads the host; changes nothing. `unseen` has the reasons for kinds that cannot be listed."""
    docker = view.ask_docker()
    session = os.environ.get(SESSION, "")
    owners: dict[str, str] = {}
    attribution = Attribution(read_processes(), owners, session, os.getpid())
    owners.update({each.id: view.whose_labels(attribution, each.labels) for each in docker.containers})
    seen_now = View(attribution, docker, owners)
    listed: list[Thing] = []
    unseen: dict[str, str] = {}
    for kind, list_things in KINDS.items():
        try:
            listed.extend(list_things(seen_now))
        except Unseen as why:
            unseen[kind] = str(why)
    return Snapshot(
        taken_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        boot=boot_id(),
        session=session,
        seen=frozenset(KINDS.keys() - unseen.keys()),
        unseen=unseen,
        things=tuple(sorted(listed, key=lambda each: (each.kind, each.name))),
        conntrack_entries=things.conntrack_entries(),
    )


def diff(before: Snapshot, after: Snapshot) -> list[Difference]:
    """The things that appeared, vanished or changed. A kind that can no longer be listed is a difference too.

    Raises BadInput for snapshots that cannot be compared: of other hosts, of another boot, of another session.
    """
    if before.boot != after.boot:
        raise BadInput("the snapshots are of different hosts, or the host was rebooted in between")
    if before.session != after.session:
        raise BadInput(f"the snapshots were taken with different values of {SESSION}: take both with the same")
    was = {(each.kind, each.name): each for each in before.things}
    now = {(each.kind, each.name): each for each in after.things}
    differences = [Difference(UNSEEN, kind, "", OURS, after.unseen[kind]) for kind in sorted(before.seen - after.seen)]
    for key in sorted(was.keys() | now.keys()):
        old, new = was.get(key), now.get(key)
        if key[0] not in before.seen & after.seen and not (new and new.whose == OURS):
            continue  # the kind was not listed in both
        if new is None:
            differences.append(Difference(VANISHED, *key, was[key].whose, was[key].detail))
        elif old is None:
            differences.append(Difference(APPEARED, *key, new.whose, new.detail))
        elif key[0] == "namespace" and new.whose == OURS != old.whose:  # its number was used again
            differences.append(Difference(APPEARED, *key, OURS, new.detail))
        elif key[0] in CHANGEABLE and new.detail != old.detail:
            differences.append(Difference(CHANGED, *key, new.whose, new.detail, before=old.detail))
    return differences


def counted(differences: Sequence[Difference], *, ours_only: bool = False) -> list[Difference]:
    """The differences that count against pairlab. ours_only: only those known to be ours, if others use the host."""
    return [each for each in differences if each.counts and not (ours_only and each.whose == UNKNOWN)]
