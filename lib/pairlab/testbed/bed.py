"""open_testbed: the pairs of a Spec, up and idle."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pairlab.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.barrier import Conductor
from pairlab.testbed.contracts import Endpoint, Limits, Pair, Progress, Site, silent
from pairlab.testbed.limits import limits_of
from pairlab.testbed.tasks import draw
from pairlab.testbed.workdir import working_directory


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


@contextlib.contextmanager
def open_testbed(spec: Spec, progress: Progress = silent) -> Iterator[Testbed]:
    """Brings up the pairs of `spec` and nothing else; everything is gone when the block is left.

    Raises, before anything is built, Unavailable where this host cannot do it, UnknownName for names it does not know,
    and BadSpec for more cores than this process may use.
    """
    backend = registry.backends.get(spec.backend)()
    driver = registry.drivers.get(spec.driver)
    limits = limits_of(spec)
    lacks = backend.lacks() or backend.lacks_for(driver) or backend.lacks_limits(limits.values())
    registry.require(lacks, f"backend {spec.backend!r}, driver {spec.driver!r}")
    names = [f"{side}-{index}" for index in range(spec.pairs) for side in ("client", "server")]
    with working_directory() as directory:
        begun = time.monotonic()
        with (
            backend.open(names, driver(), directory, progress, limits) as site,
            contextlib.closing(Conductor(site, directory)) as conductor,
        ):
            yield Testbed(spec, site, conductor, directory, limits, time.monotonic() - begun)
