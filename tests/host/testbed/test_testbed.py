"""The contract of testbeds, over every driver in every backend that this machine has."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time

import psutil
import pytest

from pairlab import Spec, open_testbed
from pairlab.errors import BadSpec, MeasurementFailed, TestbedError, UnknownName
from pairlab.testbed import registry
from tests.conftest import (
    at_once,
    backend_and_driver,
    every_backend_and_driver,
    every_driver,
    missing_for,
    mostly_whole,
    need,
)
from tests.support import host

pytestmark = pytest.mark.usefixtures("clean_host")


DRIVERS = [(*each, hosts) for hosts in (1, 3) for each in every_backend_and_driver(hosts=hosts)]


@pytest.mark.parametrize(
    ("backend", "driver", "hosts"), DRIVERS, ids=[f"{backend}-{driver}-{hosts}" for backend, driver, hosts in DRIVERS]
)
def test_a_driver_is_tested_here_or_what_this_machine_lacks_for_it_is_said(backend, driver, hosts):
    """Once: a driver that is lacking is no parameter of any other test."""
    if lack := missing_for(backend, driver, hosts):
        pytest.skip(lack)
    assert (backend, driver) in backend_and_driver(hosts=hosts)


EVERY_DRIVER = [pytest.param(each.values, marks=each.marks, id="-".join(each.values)) for each in every_driver()]


@pytest.fixture(params=EVERY_DRIVER, scope="module")
def spec(request):
    backend, driver = request.param
    need(backend, driver)
    return Spec(backend=backend, driver=driver, pairs=3)


@pytest.fixture(scope="module")
def opened(spec):
    """A testbed for several tests, over every driver in every backend."""
    before = host.snapshot()
    with open_testbed(spec) as bed:
        yield bed
    assert host.settled(before), host.difference(before)


def test_each_client_reaches_its_own_server(opened):
    launcher, site = opened.launcher, opened.site
    listening = [
        (pair.server, [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)])
        for pair in opened.pairs
    ]
    servers = launcher.start(listening, options=[["--listen", str(pair.port)] for pair in opened.pairs])
    launcher.wait_ready(servers, 60)
    assert all(server.ready for server in servers)
    for pair in opened.pairs:
        target = f"{pair.target}:{pair.port}"
        done = pair.client.run([site.flowgen, "client", "--connect", target, "--bytes", "1000000", "--limit", "60"])
        assert json.loads(done.stdout.splitlines()[-1])["complete"], done.stderr
    launcher.stop(servers)
    received = [json.loads(server.stdout)["flow_bytes"] for server in launcher.results(servers)]
    assert received == [1_000_000] * 3


def test_endpoints_have_namespaces_of_their_own_unless_the_driver_shares_one(opened, spec):
    ends = [end for pair in opened.pairs for end in (pair.client, pair.server)]
    seen = {end.run(["readlink", "/proc/self/ns/net"]).stdout for end in ends}
    addresses = {end.address for end in ends}
    driver = registry.drivers.get(spec.driver)
    isolated = driver.isolated
    assert len(seen) == (3 if driver.pair_shares_namespace else 6 if isolated else 1)
    assert len(addresses) == (6 if driver.has_links() else 1)
    if isolated or spec.backend == "netns":
        assert os.readlink("/proc/self/ns/net") + "\n" not in seen


def test_an_endpoint_is_described_by_its_own_link(opened, spec):
    done = opened.pairs[0].client.run([opened.site.flowgen, "facts", "--link", opened.site.interface])
    facts = opened.site.facts()
    assert json.loads(done.stdout)["mtu_bytes"] >= 1500 - registry.drivers.get(spec.driver).overhead_bytes
    assert ("datapath" in facts) == (spec.driver == "ovs")
    assert "bridge_nf_call_iptables" in facts


@pytest.mark.parametrize(
    ("backend", "driver"),
    mostly_whole(
        backend_and_driver(),
        but=[("netns", "bridge"), ("docker", "bridge")],
        only=[
            ("netns", "ovs"),
            ("docker", "macvlan"),
            ("docker", "ovs"),
            ("docker", "overlay"),
            ("docker", "nat-proxy"),
        ],
    ),
)
def test_where_an_event_loop_runs_a_testbed_opens_and_an_error_in_its_block_leaves_nothing(backend, driver, clean_host):
    """As in a notebook."""
    need(backend, driver)

    async def checks():
        return registry.backends.get(backend)().missing_driver(registry.drivers.get(driver))

    async def cell():
        with open_testbed(Spec(backend=backend, driver=driver)) as bed:
            assert bed.pairs[0].client.run(["echo", "here"]).stdout == "here\n"
            _ = 1 / 0

    assert asyncio.run(checks()) == []
    with pytest.raises(ZeroDivisionError):
        asyncio.run(cell())
    assert host.settled(clean_host)


@pytest.fixture(params=at_once(), scope="module")
def bed(request):
    need(request.param)
    before = host.snapshot()
    with open_testbed(Spec(backend=request.param, driver="bridge", pairs=2)) as bed:
        yield bed
    assert host.settled(before), host.difference(before)


def test_a_command_gives_its_output_and_its_status(bed):
    done = bed.pairs[1].client.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_arguments_reach_a_command_as_they_are(bed):
    strange = ["a b", "it's", '"', "$(id)", "line\nbreak", "ü", ""]
    done = bed.pairs[0].server.run(["printf", "<%s>", *strange])
    assert done.stdout == "".join(f"<{word}>" for word in strange)


def test_a_command_that_is_not_there_is_named(bed):
    with pytest.raises(MeasurementFailed, match=r"client-0: .*no-such-tool.*No such file"):
        bed.pairs[0].client.run(["no-such-tool"])


def test_a_command_that_does_not_end_is_ended(bed):
    with pytest.raises(MeasurementFailed, match=r"sleep in client-0 did not end within 0\.2 s"):
        bed.pairs[0].client.run(["sleep", "1000"], timeout_s=0.2)
    left = bed.pairs[0].client.run(["sh", "-c", "grep -l '^sleep' /proc/[0-9]*/comm || true"])
    assert left.stdout == ""


def test_one_release_starts_all_that_hold_at_a_gate(bed):
    ends = [end for pair in bed.pairs for end in (pair.client, pair.server)]
    gate = bed.launcher.gate()
    held = bed.launcher.start([(end, ["true"]) for end in ends], gate=gate)
    bed.launcher.wait_ready(held, 60)
    assert [process.ended for process in held] == [False] * 4
    released_ns = gate.release()
    bed.launcher.wait_ended(held, 60)
    bed.launcher.stop(held)  # until then the launchers stay, as their exits would disturb what still runs
    assert [process.exit_code for process in held] == [0] * 4
    assert all(process.start_ns >= released_ns for process in held)


def test_a_server_that_cannot_listen_is_no_reason_to_wait(bed):
    (server,) = bed.launcher.start(
        [(bed.pairs[0].server, ["sh", "-c", "echo no port >&2; exit 4"])], options=[["--listen", "7"]]
    )
    begun = time.monotonic()
    bed.launcher.wait_ready([server], 600)
    assert time.monotonic() - begun < 60
    bed.launcher.results([server])
    assert (server.ready, server.failure) == (False, "ended with 4: no port")


def test_unknown_names_are_refused_with_those_there_are():
    there_are = ", ".join(registry.drivers.names())
    with pytest.raises(UnknownName, match=rf"no driver 'brigde'; did you mean 'bridge'\? \(there are: {there_are}\)"):
        registry.drivers.get("brigde")
    with pytest.raises(BadSpec, match=r"no backend 'lxc' \(there are: docker, netns, ssh, uml\)"):
        Spec(backend="lxc")
    elsewhere = Spec.stored({"backend": "lxc"})
    with (
        pytest.raises(UnknownName, match=r"no backend 'lxc' \(there are: docker, netns, ssh, uml\)"),
        open_testbed(elsewhere),
    ):
        pass


def test_a_soft_limit_of_open_files_is_raised_to_what_a_testbed_needs():
    """In a process of its own, as a limit is for good. Its sandbox holds a network namespace of each endpoint."""
    need("netns")
    code = """
        import resource
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
        from pairlab import Spec, open_testbed
        with open_testbed(Spec(pairs=40)) as bed:
            print(bed.pairs[39].client.run(["echo", "up"]).stdout)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("up", "")


def test_a_sandbox_that_dies_is_said_to_be_gone():
    need("netns")
    gone = pytest.raises(MeasurementFailed, match="the testbed broke while it was in use")
    with gone, open_testbed(Spec(pairs=1)) as bed:
        killed = psutil.Process(bed.site.sandbox.pid)
        killed.kill()
        deadline = time.monotonic() + 60
        while killed.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(TestbedError, match="the sandbox ended during 'spawn'"):
            bed.pairs[0].client.run(["true"])


def test_the_servers_of_other_people_keep_their_ports():
    """With the host driver in Docker all share the host's ports."""
    import socket

    need("docker", "host")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        from pairlab.testbed.docker import site

        first = taken.getsockname()[1]
        assert site._free_ports(4) not in range(first - 3, first + 1)


def test_what_runs_in_an_endpoint_inherits_nothing_but_its_input_and_output(clean_host):
    """Of its sandbox's agent least of all: whoever has that socket can answer in its place."""
    need("netns")
    with open_testbed(Spec(pairs=1)) as bed:
        for end in (bed.pairs[0].client, bed.pairs[0].server):
            found = [
                line.split("->") for line in end.run(["ls", "-l", "/proc/self/fd"]).stdout.splitlines() if "->" in line
            ]
            assert {place.split()[-1] for place, _ in found} <= {"0", "1", "2", "3"}  # 3: the folder that ls reads
            assert not any("socket" in target for _, target in found), found
