"""open_testbed: the pairs of a Spec, up and idle."""

import contextlib
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pairlab.base import html_repr, topology
from pairlab.model.spec import Spec, require_spec
from pairlab.testbed import limits, plans
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.contracts import Progress, Site, no_progress
from pairlab.testbed.endpoints import Endpoint, Pair, Rank, pairs_of, with_port
from pairlab.testbed.plans import Plan
from pairlab.testbed.process_launcher import ProcessLauncher
from pairlab.testbed.requirements import allow_open_files

#: How many pairs the HTML view names.
SHOWN = 3


class Testbed:
    """Pairs that are up. pairs[i].client and .server are endpoints, with .run([...]) for a command in them.

    background: pairs that send beside these. workers: endpoints for CPU load. plan: the testbed's plan.
    directory: the working directory. up_s: the time to bring the testbed up, in seconds.
    """

    __test__ = False  # pytest: not a test class

    def __init__(self, plan: Plan, site: Site, launcher: ProcessLauncher, directory: Path, up_s: float):
        self.spec = plan.spec
        self.plan = plan
        self.directory = directory
        self.site = site
        self.launcher = launcher
        self.up_s = up_s
        endpoints = {each.name: self._endpoint(each.name) for each in plan.endpoints}
        pairs = tuple(
            Pair(
                server.pair,
                endpoints[client.name],
                endpoints[server.name],
                site.first_port + server.pair,
                plan.tasks[server.pair],
                site.published.get(server.name, ""),
            )
            for client, server in pairs_of(plan.endpoints)
        )
        targets = tuple((pair.target, pair.port) for pair in pairs) if plan.has_one_client else ()
        ranks = ranks_of(pairs[: self.spec.pairs], self.spec.ranks, len(pairs)) if plan.all_connect else ()
        self.pairs = tuple(replace(pair, targets=targets, ranks=ranks) for pair in pairs[: self.spec.pairs])
        self.background = pairs[self.spec.pairs :]
        self.workers = tuple(self._endpoint(each.name) for each in plan.workers)

    def _endpoint(self, name: str) -> Endpoint:
        return Endpoint(name, self.site.addresses.get(name, ""), self.launcher.run)

    @property
    def first(self) -> Endpoint:
        """The first pair's client."""
        return self._endpoint(self.plan.endpoints[0].name)

    @property
    def with_clients(self) -> tuple[Pair, ...]:
        """The pairs with a client of their own: all, or only the first if its client serves all pairs."""
        return self.pairs[:1] if self.plan.has_one_client else self.pairs

    def __repr__(self) -> str:
        return (
            f"<Testbed: {self.spec.pairs} pairs on {self.spec.driver} ({self.spec.backend}), up in {self.up_s:.2f} s>"
        )

    def _repr_html_(self) -> str:
        count, shown = len(self.pairs), self.pairs[:SHOWN]
        rest = [f"and {count - SHOWN:,} more"] if count > SHOWN else []
        addresses = [
            f"{pair.client.name} {pair.client.address} → {with_port(pair.target, pair.port)}" for pair in shown
        ]
        return html_repr.summary(
            f"{count:,} pair{'s' * (count != 1)} over {self.spec.driver}",
            [
                ("backend", self.spec.backend),
                ("pairs", "\n".join([*addresses, *rest])),
                ("limits", limits.describe(self.plan.limits) or "none"),
                ("besides", ", ".join(self.spec.particulars)),
                ("directory", self.directory),
            ],
            badge=f"up in {self.up_s:.2f} s",
            tone="good",
            body=topology.drawer(self.site.facts()),
        )


def ranks_of(pairs: Sequence[Pair], count: int, servers: int) -> tuple[Rank, ...]:
    """The first `count` endpoints as ranks, servers first; 0: all of them.

    servers: the number of servers' ports, from the first pair's on; clients' ports follow them.
    """
    first_port = pairs[0].port
    of_pairs = [
        (
            Rank(pair.client.name, pair.client.address, first_port + servers + pair.index),
            Rank(pair.server.name, pair.server.address, pair.port),
        )
        for pair in pairs
    ]
    chosen = list(itertools.chain(*of_pairs))[: count or None]
    return tuple(sorted(chosen, key=lambda rank: rank.port))


@contextlib.contextmanager
def open_testbed(spec: Spec | Plan, progress: Progress = no_progress) -> Iterator[Testbed]:
    """Brings up the pairs of `spec` and nothing else; everything is gone when the block is left.

    Raises, before anything is built, Unavailable for missing requirements of this host, UnknownName for unknown names,
    and BadSpec for more cores than this process may use, or links that cannot be shaped. A Plan is taken as checked.
    """
    if isinstance(spec, Plan):
        plan = spec
    else:
        require_spec(spec, "open_testbed")
        plan = plans.layout(spec)
        plan.require()
    allow_open_files(len(plan.endpoints) + len(plan.workers))
    with working_directory() as directory:
        begun_s = time.monotonic()
        with (
            plan.backend.open(plan, directory, progress) as site,
            contextlib.closing(ProcessLauncher(site, directory)) as launcher,
        ):
            if plan.links:
                site.shape(plan.links)
            if plan.is_routed and plan.driver.carries_traffic:  # else there are no routes
                site.route_congestion_control(plan.spec.congestion_control)
            yield Testbed(plan, site, launcher, directory, time.monotonic() - begun_s)
