"""The host at two moments, and what differs: the proof that a testbed left it as it was found.

take() looks at the host (inventory.py has the kinds, kin.py whose they are); all else here is pure.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pairlab.errors import BadInput
from pairlab.testbed import inventory
from pairlab.testbed.inventory import Thing
from pairlab.testbed.kin import OTHERS, OURS, SESSION, UNKNOWN, Kin, processes

VERSION = 1
BOOT = Path("/proc/sys/kernel/random/boot_id")
#: Kinds of thing that stay what they are and can be changed, so that what they are like is compared too.
CHANGEABLE = ("sysctl", "link")
#: Kinds that stay until somebody takes them away: that one of nobody known is gone may be our doing.
LASTING = ("link", "switch", "firewall rule", "sysctl")
APPEARED, VANISHED, CHANGED, UNSEEN = "appeared", "vanished", "changed", "unseen"


@dataclass(frozen=True)
class Snapshot:
    """What there was on the host. seen: the kinds looked at; unseen: why others could not be.

    session: whose things count as ours (see kin.py); empty: all of pairlab's. conntrack_entries: for information only.
    """

    taken_at: str
    boot: str
    session: str
    seen: frozenset[str]
    unseen: Mapping[str, str] = field(default_factory=dict)
    things: tuple[Thing, ...] = ()
    conntrack_entries: int | None = None

    def to_json(self) -> str:
        told = asdict(self) | {"version": VERSION, "seen": sorted(self.seen)}
        return json.dumps(told, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Snapshot":
        """Raises BadInput for what is no snapshot, or one of a newer pairlab."""
        try:
            told = json.loads(text)
            version = told.pop("version")
            if version != VERSION:
                raise BadInput(f"a snapshot of version {version}, and this pairlab knows {VERSION}: take it anew")
            things = tuple(Thing(**each) for each in told.pop("things"))
            return cls(things=things, seen=frozenset(told.pop("seen")), **told)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadInput(
                f"this is no snapshot of a host ({error}): `pairlab doctor --snapshot FILE` writes one"
            ) from error


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was. whose: ours, unknown, or others (known to be somebody else's)."""

    change: str
    kind: str
    name: str
    whose: str
    told: str = ""
    before: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is held against pairlab: all that is not known to be others'. That ours is gone is well."""
        if self.change == VANISHED:
            return self.whose == UNKNOWN and self.kind in LASTING
        return self.whose != OTHERS

    def __str__(self) -> str:
        like = f"{self.before} -> {self.told}" if self.change == CHANGED else self.told
        if self.change == UNSEEN:
            return f"{self.kind}: could be seen before, and cannot now ({like})"
        return f"{self.kind} {self.name} {self.change}" + (f" ({like})" if like else "")


def take() -> Snapshot:
    """Looks at the host; changes nothing. What it may not see is told in `unseen`."""
    known = processes()
    docker = inventory.ask_docker()
    session = os.environ.get(SESSION, "")
    owners: dict[str, str] = {}
    kin = Kin(known, owners, session, os.getpid())
    owners.update({each["Id"]: inventory.whose_labels(kin, each["Config"]["Labels"]) for each in docker.containers})
    view = inventory.View(kin, docker, owners)
    things: list[Thing] = []
    unseen: dict[str, str] = {}
    for kind, look in inventory.KINDS.items():
        try:
            things.extend(look(view))
        except inventory.Unseen as why:
            unseen[kind] = str(why)
    return Snapshot(
        taken_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        boot=BOOT.read_text().strip(),
        session=session,
        seen=frozenset(inventory.KINDS.keys() - unseen.keys()),
        unseen=unseen,
        things=tuple(sorted(things, key=lambda each: (each.kind, each.name))),
        conntrack_entries=inventory.conntrack_entries(),
    )


def diff(before: Snapshot, after: Snapshot) -> list[Difference]:
    """What came, went or changed. A kind that could be seen before and cannot any more is a difference too.

    Raises BadInput for snapshots that cannot be compared: of other hosts, of another boot, of another session.
    """
    if before.boot != after.boot:
        raise BadInput("the snapshots are of different hosts, or the host has been started again in between")
    if before.session != after.session:
        raise BadInput(f"the snapshots were taken with different values of {SESSION}: take both with the same")
    was = {(each.kind, each.name): each for each in before.things}
    now = {(each.kind, each.name): each for each in after.things}
    found = [Difference(UNSEEN, kind, "", OURS, after.unseen[kind]) for kind in sorted(before.seen - after.seen)]
    for key in sorted(was.keys() | now.keys()):
        old, new = was.get(key), now.get(key)
        if key[0] not in before.seen & after.seen and not (new and new.whose == OURS):
            continue  # there is nothing to compare it with
        if old is None:
            found.append(Difference(APPEARED, *key, new.whose, new.told))
        elif new is None:
            found.append(Difference(VANISHED, *key, old.whose, old.told))
        elif key[0] == "namespace" and new.whose == OURS != old.whose:  # its number has come round again
            found.append(Difference(APPEARED, *key, OURS, new.told))
        elif key[0] in CHANGEABLE and new.told != old.told:
            found.append(Difference(CHANGED, *key, new.whose, new.told, before=old.told))
    return found


def counted(differences: Sequence[Difference], *, ours_only: bool = False) -> list[Difference]:
    """Those held against pairlab. ours_only: only what is known to be ours, on a host where others work meanwhile."""
    return [each for each in differences if each.counts and not (ours_only and each.whose == UNKNOWN)]
