"""open_testbed: the pairs of a Spec, up and idle."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pairlab import cards
from pairlab.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.barrier import Conductor
from pairlab.testbed.contracts import Endpoint, Limits, Pair, Progress, Site, silent
from pairlab.testbed.limits import limits_of, told
from pairlab.testbed.links import links_of
from pairlab.testbed.tasks import draw
from pairlab.testbed.workdir import working_directory

#: So many pairs are named on a card.
SHOWN = 3


class Testbed:
    """Pairs that are up. pairs[i].client and .server are endpoints, with .run([...]) for a command in them.

    directory: its working directory. limits: what each endpoint may use of the CPUs, by name. up_s: how long bringing
    it up took, in seconds.
    """

    __test__ = False  # pytest: not a test class

    def __init__(
        self, spec: Spec, site: Site, conductor: Conductor, directory: Path, limits: Mapping[str, Limits], up_s: float
    ):
        self.spec = spec
        self.directory = directory
        self.site = site
        self.conductor = conductor
        self.limits = limits
        self.up_s = up_s
        self.pairs = tuple(
            Pair(
                index,
                self._endpoint(f"client-{index}"),
                self._endpoint(f"server-{index}"),
                site.first_port + index,
                task,
            )
            for index, task in enumerate(draw(spec))
        )

    def _endpoint(self, name: str) -> Endpoint:
        return Endpoint(name, self.site.addresses[name], self.conductor.run)

    def __repr__(self) -> str:
        return (
            f"<Testbed: {self.spec.pairs} pairs on {self.spec.driver} ({self.spec.backend}), up in {self.up_s:.2f} s>"
        )

    def _repr_html_(self) -> str:
        count, shown = len(self.pairs), self.pairs[:SHOWN]
        rest = [f"and {count - SHOWN:,} more"] if count > SHOWN else []
        addresses = [f"{pair.client.name} {pair.client.address} → {pair.server.address}:{pair.port}" for pair in shown]
        return cards.card(
            f"{count:,} pair{'s' * (count != 1)} over {self.spec.driver}",
            [
                ("backend", self.spec.backend),
                ("pairs", "\n".join([*addresses, *rest])),
                ("limits", told(self.limits) or "none"),
                ("besides", ", ".join(self.spec.particulars)),
                ("directory", self.directory),
            ],
            badge=f"up in {self.up_s:.2f} s",
            tone="good",
        )


@contextlib.contextmanager
def open_testbed(spec: Spec, progress: Progress = silent) -> Iterator[Testbed]:
    """Brings up the pairs of `spec` and nothing else; everything is gone when the block is left.

    Raises, before anything is built, Unavailable where this host cannot do it, UnknownName for names it does not know,
    and BadSpec for more cores than this process may use, or links that cannot be shaped.
    """
    backend = registry.backends.get(spec.backend)()
    driver = registry.drivers.get(spec.driver)
    limits, links = limits_of(spec), links_of(spec)
    lacks = backend.lacks() or backend.lacks_for(driver)
    lacks = lacks or backend.lacks_limits(limits.values()) or backend.lacks_links(links.values())
    registry.require(lacks, f"backend {spec.backend!r}, driver {spec.driver!r}")
    names = [f"{side}-{index}" for index in range(spec.pairs) for side in ("client", "server")]
    with working_directory() as directory:
        begun = time.monotonic()
        with (
            backend.open(names, driver(), directory, progress, limits) as site,
            contextlib.closing(Conductor(site, directory)) as conductor,
        ):
            if links:
                site.shape(links)
            yield Testbed(spec, site, conductor, directory, limits, time.monotonic() - begun)
