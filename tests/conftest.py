"""What tests share: a store of their own, and proof that nothing stays on the host."""

import pytest

from pairlab.testbed import registry
from tests import host


def pytest_collection_modifyitems(items):
    """Speed is for `make bench`; a slow machine must not fail the tests."""
    for item in items:
        if item.get_closest_marker("bench"):
            item.add_marker(pytest.mark.skip(reason="measures speed: make bench"))


@pytest.fixture
def runs_dir(tmp_path, monkeypatch):
    """A store of the test's own."""
    place = tmp_path / "runs"
    monkeypatch.setenv("PAIRLAB_RUNS", str(place))
    return place


@pytest.fixture
def clean_host():
    """Fails the test if it leaves anything on the host."""
    before = host.snapshot()
    yield before
    assert host.settled(before), f"left on the host: {host.difference(before)}"


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
