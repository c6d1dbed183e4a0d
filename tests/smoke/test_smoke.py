"""Smoke with real parts: every network of this machine once, and every workload once.

What is asserted holds on the slowest and busiest machine there is: counts, identities, who listens where, and that
nothing is left. How fast it was, and whether such a run counts, is for the whole (tests/host).
"""

import functools
import json
import os
import subprocess

import pytest

from pairlab import Spec, store
from pairlab.model.tables import TABLES
from pairlab.testbed import registry
from tests.conftest import missing, need_all_of
from tests.support import host
from tests.support.shared import FLOW_BYTES, asking, watched
from tests.support.sockets import assert_inside

PAIRS = 2
#: Checks that only someone who touches the testbed while it measures can fail.
UNTOUCHED = ("regrouped", "affinity_changed", "network_changed")


def networks():
    """Every driver with every backend that has it, on as few hosts as it takes; those that this machine lacks are
    passed over, as tests/host/testbed/test_testbed.py says what it lacks for them."""
    for backend in registry.backends.names():
        for driver in registry.drivers.names():
            kind = registry.drivers.get(driver)
            if kind.carries_traffic and backend not in kind.absent_in:
                spec = spec_of(backend, driver)
                if not missing(spec):
                    yield pytest.param(spec, id=f"{backend}-{driver}")


def spec_of(backend, driver):
    several = {"hosts": 2, "placement": "across"} if registry.drivers.get(driver).needs_hosts else {}
    return asking("flowgen", backend=backend, driver=driver, flow_bytes=FLOW_BYTES, duration_s=60, **several)


NETWORKS = list(networks())


def workloads():
    return [name for name in registry.workloads.names() if registry.workloads.get(name).sends_traffic]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """once(spec) -> Observed: measured when first asked for; that nothing was left is asserted there."""
    root = tmp_path_factory.mktemp("smoke") / "runs"

    @functools.cache
    def once(spec):
        need_all_of(spec)
        return watched(spec, root, attempts=1)

    return once


@pytest.mark.parametrize("spec", NETWORKS)
def test_over_every_network_each_byte_is_counted_once_by_both_ends_and_by_the_link(spec, once):
    run = once(spec).run
    assert run.status in ("ok", "invalid"), run.reasons  # invalid: the machine was busy
    assert not any(run.checks.get(name) for name in UNTOUCHED), run.reasons
    flows = run.flows
    assert list(flows["status"]) == ["ok"] * PAIRS, list(flows["error"])
    assert list(flows["pair"]) == list(range(PAIRS))
    assert list(flows["size_bytes"]) == list(flows["flow_bytes"]) == [FLOW_BYTES] * PAIRS
    assert run.intervals.groupby("pair")["interval_bytes"].sum().to_list() == [FLOW_BYTES] * PAIRS
    assert (flows[["start_s", "connected_s", "first_byte_s", "completed_s"]].diff(axis=1).iloc[:, 1:] > 0).all(
        axis=None
    )
    assert (flows["fct_s"] == flows["completed_s"] - flows["start_s"]).all()
    assert run.checks["interface_bytes"] in (None, 0.0)  # None: the link is others', too


@pytest.mark.parametrize("spec", NETWORKS)
def test_over_every_network_servers_listen_inside_the_testbed_only(spec, once):
    if spec.backend == "uml":
        pytest.skip("its endpoints are processes of another kernel")
    seen = once(spec)
    servers = [end for name, end in seen.at_release.items() if name.startswith("server-")]
    assert len(servers) == PAIRS
    assert_inside(spec.backend, spec.driver, servers, seen.new_listeners)


@pytest.mark.parametrize("workload", workloads())
def test_every_workload_reports_each_flow_once_in_declared_columns_and_is_read_again_as_it_was(workload, once):
    """Tools report in their own ways, which their parsers read; what a request carries is known to the byte."""
    run = once(asking(workload)).run
    kind = registry.workloads.get(workload)
    assert run.status in ("ok", "invalid"), run.reasons
    assert not any(run.checks.get(name) for name in UNTOUCHED), run.reasons
    for name, columns in TABLES.items():
        own = [each.name for each in run.metrics if each.table == name]
        assert list(getattr(run, name).columns) == [*columns, *own]
    flows = run.flows
    assert set(flows["pair"]) == set(range(PAIRS))
    assert set(flows["status"]) == {"ok"}, set(flows["error"])
    assert (flows["flow_bytes"] > 0).all()
    if "sizes" not in kind.features:
        assert list(flows["pair"]) == list(range(PAIRS))
    if workload == "rr":
        assert (flows["flow_bytes"] == flows["transactions"] * (run.spec.request_bytes + run.spec.response_bytes)).all()
    version = run.facts["versions"][workload]
    assert any(digit.isdigit() for digit in version), version
    again = store.read(run.path)
    assert again.flows.equals(flows)
    assert (again.key, again.status, again.reasons) == (run.spec.key, run.status, run.reasons)


@pytest.mark.parametrize("backend", ["netns", "docker"])
def test_datagrams_sent_are_those_received_and_those_lost(backend, once):
    spec = asking("flowgen", backend=backend, duration_s=0.5, udp_share=1.0, udp_rate_bps=1e7, message_bytes=1000)
    flows = once(spec).run.flows
    assert (flows["datagrams_sent"] > 0).all()
    assert (flows["datagrams_sent"] == flows["datagrams_received"] + flows["datagrams_lost"]).all()
    assert (flows["flow_bytes"] == flows["datagrams_received"] * 1000).all()


@pytest.mark.parametrize("backend", ["netns", "docker"])
def test_a_launch_goes_through_its_phases_in_order(backend, once):
    spec = Spec(experiment="launch-time", backend=backend, launches=1, pairs=PAIRS)
    found = once(spec).run.launches
    assert list(found["status"]) == ["ok"] * PAIRS, list(found["error"])
    assert (found["running_s"] >= found["created_s"]).all()
    assert not (found["first_ping_s"] < found["link_up_s"]).any()  # of a link in a container that may not be known
    assert (found["ready_s"] >= found[["running_s", "first_ping_s"]].max(axis=1)).all()


def test_what_was_just_installed_is_seen():
    """PAIRLAB_EXPECT names what must not be skipped, as backend:name: a skip in the gate would hide a test."""
    wanted = os.environ.get("PAIRLAB_EXPECT", "")
    found = json.loads(
        subprocess.run([host.BIN / "pairlab", "doctor", "--json"], capture_output=True, text=True).stdout
    )
    there = {
        f"{backend}:{name}"
        for backend, of_it in found["backends"].items()
        for kind in ("drivers", "workloads")
        for name, finding in of_it[kind].items()
        if finding["available"]
    }
    there |= {name.lower() for name, extra in found["extras"].items() if extra["available"]}
    assert set(filter(None, wanted.split(","))) <= there
