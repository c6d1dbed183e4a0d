"""Stand-ins for what a panel works with: findings of a host, and a measurement that goes as a test says."""

import asyncio
import copy
import dataclasses
import functools
from datetime import UTC, datetime

from pairlab import store
from pairlab.apps import doctor
from pairlab.testbed.host.live_sampler import Sample
from pairlab.widgets.form import Choices
from tests.support.runs import made_up

GONE = {"what": "ovs-vswitchd is not installed", "remedy": "sudo apt-get install openvswitch-switch"}


@functools.cache
def _everything():
    found = doctor.examine()
    for backend in found["backends"].values():
        for each in (backend, *backend["drivers"].values(), *backend["workloads"].values()):
            each.update(available=True, missing=[])
    return found


class Host:
    """What `pairlab doctor` finds: everything, but for what a test takes away."""

    def __init__(self):
        self._found = copy.deepcopy(_everything())

    def examine(self):
        return copy.deepcopy(self._found)

    def lose(self, driver, backend="netns"):
        self._found["backends"][backend]["drivers"][driver].update(available=False, missing=[GONE])

    def lose_backend(self, backend):
        self._found["backends"][backend].update(available=False, missing=[{"what": "no daemon", "remedy": "start it"}])

    def choices(self):
        return Choices(self.examine)


def in_event_loop(test):
    """The test, an async function, run in an event loop of its own."""

    @functools.wraps(test)
    def run(*arguments, **fixtures):
        asyncio.run(test(*arguments, **fixtures))

    return run


class FakeMeasurement:
    """Stands in for in_subprocess.attend_async: reports phases and samples, then stores a run, or raises.

    hold: an event to wait for before the end; outcome: raised instead. specs: those it was called with, in order.
    """

    def __init__(self, root, *, status="ok", reasons=(), outcome=None, hold=None):
        self.root, self.status, self.reasons, self.outcome = root, status, reasons, outcome
        self.hold = hold
        self.specs, self.fresh = [], []

    async def __call__(self, spec, *, fresh, root, on_phase, on_sample):
        assert root == self.root
        self.specs.append(spec)
        self.fresh.append(fresh)
        on_phase("bringing up", 1, 4)
        await asyncio.sleep(0)
        on_phase("measuring (s)", 0.5, spec.total_s)
        on_sample(Sample(0.5, spec.total_s, (1e9,) * spec.pairs, 1e9 * spec.pairs, 0.1, 0.5, 0.2))
        if self.hold:
            await self.hold.wait()
        if self.outcome:
            raise self.outcome
        run = made_up(status=self.status, reasons=self.reasons, **spec.model_dump(exclude_defaults=True))
        return store.write(dataclasses.replace(run, measured_at=datetime.now(UTC)), root)


def html(widget):
    """All that a widget shows as HTML, its children's too."""
    own = getattr(widget, "value", "") if type(widget).__name__ in ("HTML", "LiveView") else ""
    return str(own) + "".join(html(child) for child in getattr(widget, "children", ()))


async def until(true, within_s=60.0):
    """Waits for that to be so; a busy machine takes its time."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.01)
