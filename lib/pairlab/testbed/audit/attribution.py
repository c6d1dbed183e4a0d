"""Whose a process, a container or a testbed is: pairlab's, somebody else's, or unknown.

Everything pairlab starts inherits PAIRLAB_OWNER (see cleanup/ownership.py), also where it is renamed or its parent
died. Where pairlab is used several times on one host, PAIRLAB_SESSION in the environment tells one use from the
others: then ours is what inherited the same value, and what pairlab does elsewhere on the host is somebody else's.
"""

import os
from collections.abc import Iterable, Iterator, Mapping

from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.ownership import Liveness
from pairlab.testbed.cleanup.process_table import HostProcess

OURS, UNKNOWN, OTHERS = "ours", "unknown", "others"


class Attribution:
    """The processes of this host, and whose they are.

    containers: whose each Docker container is, by its id. observer: the process that asks.
    """

    def __init__(
        self, processes: Mapping[int, HostProcess], containers: Mapping[str, str], session: str, observer: int
    ):
        self.processes = processes
        self.session = session
        self.observer = observer
        self._containers = containers
        self._above = set(_ancestry(processes, observer))
        self._cleaners: dict[str, set[str]] = {}
        for pid, each in processes.items():
            for run in each.runs if each.owner or each.session else ():
                self._cleaners.setdefault(run, set()).add(self.whose(pid))

    def whose(self, pid: int) -> str:
        """Whose process that is. The observer and its parents are no left-overs: they count as others."""
        process = self.processes.get(pid)
        if process is None:
            return UNKNOWN
        if pid in self._above:
            return OTHERS
        if process.zombie:  # it has no environment any more
            return OURS if process.parent not in self._above and self.whose(process.parent) == OURS else OTHERS
        if self.session:
            if process.session:
                return OURS if process.session == self.session else OTHERS
        elif process.owner or _is_pairlabs(process.words):
            return OURS
        return self.whose_container(process.container) if process.container else OTHERS

    def whose_container(self, identity: str) -> str:
        """Whose container that is; unknown where Docker does not list it, as it may have lost it."""
        return self._containers.get(identity, UNKNOWN)

    def whose_testbed(self, run: str, owner: str = "") -> str:
        """Whose one of pairlab's testbeds is: ours, unless it is another session's.

        run: its id, which its cleanup processes have in their command lines, also after its owner died. owner: who
        made it (see ownership.me), for where there is no such process.
        """
        if not self.session:
            return OURS
        if cleaners := self._cleaners.get(run):
            return OURS if OURS in cleaners else OTHERS
        if not owner or (state := ownership.liveness(owner)) is Liveness.DEAD:
            return OURS  # left behind, by whomever
        if state is Liveness.UNKNOWN or not (named := ownership.Owner.parse(owner)):
            return UNKNOWN
        return OURS if named.pid in self._above or self.whose(named.pid) == OURS else OTHERS


def _ancestry(processes: Mapping[int, HostProcess], pid: int) -> Iterator[int]:
    """That process, its parent, and so on."""
    while pid in processes:
        yield pid
        pid = processes[pid].parent


def _is_pairlabs(words: tuple[str, ...]) -> bool:
    """Whether a command line is one of pairlab's own, for processes started by hand."""
    programs = {os.path.basename(word) for word in words[:2]}
    return bool(
        programs & {"pairlab", "flowgen"}
        or any(word.startswith("pairlab.testbed.") for word in words)
        or any("/tmp/pairlab-" in word for word in words)
    )


def combined(owners: Iterable[str]) -> str:
    """Whose something is that several have a part in: ours if any is, else unknown if any is."""
    every = set(owners)
    return OURS if OURS in every else UNKNOWN if UNKNOWN in every else OTHERS
