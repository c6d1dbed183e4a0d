"""What tests share: a store of their own, and proof that nothing stays on the host."""

import pytest
from hypothesis import HealthCheck, settings

from pairlab import sweep
from pairlab.testbed import registry
from pairlab.testbed.links import links_of
from tests import evidence, host, stillness

#: Properties are held by what they say, on a machine of any speed, and by the same examples each time. `search`, which
#: `make soak` does, looks for others.
ANY_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("pairlab", ANY_MACHINE, derandomize=True)
settings.register_profile("search", ANY_MACHINE, max_examples=1000)
settings.load_profile("pairlab")


def pytest_configure(config):
    config.pluginmanager.register(stillness.Again())


def pytest_collection_modifyitems(items):
    """Speed is for `make bench`; a slow machine must not fail the tests."""
    for item in items:
        if item.get_closest_marker("bench"):
            item.add_marker(pytest.mark.skip(reason="measures speed: make bench"))


@pytest.fixture(scope="session", autouse=True)
def _where_it_was_measured(record_testsuite_property):
    """For docs/trust.md, which quotes the junit XML."""
    record_testsuite_property("host", evidence.this_host())


@pytest.fixture
def runs_dir(tmp_path, monkeypatch):
    """A store of the test's own."""
    place = tmp_path / "runs"
    monkeypatch.setenv("PAIRLAB_RUNS", str(place))
    return place


@pytest.fixture
def any_host(monkeypatch):
    """Lets sweeps measure every cell, whatever this host has: where an executor makes up what it measures."""
    monkeypatch.setattr(sweep, "check", lambda spec: None)


@pytest.fixture
def clean_host():
    """Fails the test if it leaves anything on the host."""
    before = host.snapshot()
    yield before
    assert host.settled(before), f"left on the host: {host.difference(before)}"


@pytest.fixture
def begins_late(monkeypatch):
    """Has flowgen's clients begin so many seconds after their release, all but the first pair's."""
    workload = registry.workloads.get("flowgen")
    real = workload.client

    def begins_late(delay_s):
        def client(self, pair, spec, site):
            argv = real(self, pair, spec, site)
            return ["sh", "-c", f'sleep {delay_s}; exec "$@"', "sh", *argv] if pair.index else argv

        monkeypatch.setattr(workload, "client", client)

    return begins_late


def backend_and_driver():
    """Every driver in every backend, as parameters."""
    return [(backend, driver) for backend in registry.backends.names() for driver in registry.drivers.names()]


def need(backend, driver="bridge", workload="flowgen"):
    """Skips the test, with the reason, where this machine cannot do it."""
    its = registry.backends.get(backend)()
    lacks = its.lacks() or its.lacks_for(registry.drivers.get(driver))
    lacks += [lack for each in registry.workloads.get(workload).programs if (lack := its.lacks_program(each))]
    if lacks:
        pytest.skip("; ".join(map(str, lacks)))


def need_links(spec):
    """Skips the test, with the reason, where this machine cannot shape links as that spec asks."""
    if lacks := registry.backends.get(spec.backend)().lacks_links(links_of(spec).values()):
        pytest.skip("; ".join(map(str, lacks)))
