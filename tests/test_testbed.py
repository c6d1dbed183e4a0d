"""The contract of testbeds, over every driver in every backend that this machine has."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pairlab import Spec, open_testbed
from pairlab.errors import MeasurementFailed, TestbedError, Unavailable, UnknownName
from pairlab.testbed import registry, sandbox
from tests import host
from tests.conftest import backend_and_driver, need

pytestmark = pytest.mark.usefixtures("clean_host")


@pytest.fixture(params=backend_and_driver(), ids="-".join)
def spec(request):
    backend, driver = request.param
    need(backend, driver)
    return Spec(backend=backend, driver=driver, pairs=3)


def test_each_client_reaches_its_own_server(spec):
    with open_testbed(spec) as bed:
        conductor, site = bed.conductor, bed.site
        servers = conductor.start(
            [
                (p.server, [site.flowgen, "server", "--bind", p.server.address, "--port", str(p.port)])
                for p in bed.pairs
            ],
            listen=[pair.port for pair in bed.pairs],
        )
        conductor.wait_ready(servers, 10)
        assert all(server.ready for server in servers)
        for pair in bed.pairs:
            target = f"{pair.server.address}:{pair.port}"
            done = pair.client.run([site.flowgen, "client", "--connect", target, "--duration", "0.1"])
            total = json.loads(done.stdout.splitlines()[-1])
            assert total["flow_bytes"] > 100_000
        conductor.stop(servers)
        received = [json.loads(server.stdout)["flow_bytes"] for server in conductor.results(servers)]
    assert len(received) == 3
    assert min(received) > 100_000


def test_endpoints_have_namespaces_of_their_own_unless_the_driver_shares_one(spec):
    with open_testbed(spec) as bed:
        ends = [end for pair in bed.pairs for end in (pair.client, pair.server)]
        seen = {end.run(["readlink", "/proc/self/ns/net"]).stdout for end in ends}
        addresses = {end.address for end in ends}
    isolated = registry.drivers.get(spec.driver).isolated
    assert len(seen) == len(addresses) == (6 if isolated else 1)
    if isolated or spec.backend == "netns":
        assert os.readlink("/proc/self/ns/net") + "\n" not in seen


def test_an_endpoint_is_described_by_its_own_link(spec):
    with open_testbed(spec) as bed:
        done = bed.pairs[0].client.run([bed.site.flowgen, "facts", "--link", bed.site.interface])
        facts = bed.site.facts()
    assert json.loads(done.stdout)["mtu_bytes"] >= 1500
    assert ("datapath" in facts) == (spec.driver == "ovs")
    assert "bridge_nf_call_iptables" in facts


def test_a_testbed_opens_where_an_event_loop_runs_as_in_a_notebook(spec):
    async def cell():
        with open_testbed(spec) as bed:
            return bed.pairs[0].client.run(["echo", "here"]).stdout

    backend = registry.backends.get(spec.backend)()
    assert asyncio.run(cell()) == "here\n"

    async def checks():
        return backend.lacks_for(registry.drivers.get(spec.driver))

    assert asyncio.run(checks()) == []


def test_an_error_in_the_block_leaves_nothing_behind(spec, clean_host):
    with pytest.raises(ZeroDivisionError), open_testbed(spec):
        _ = 1 / 0
    assert host.settled(clean_host)


def test_a_killed_process_leaves_nothing_behind(spec, clean_host):
    with host.killed_builder(spec):
        assert host.difference(clean_host)
    assert host.settled(clean_host, within_s=20), host.difference(clean_host)


@pytest.mark.parametrize("moment", [0, 1, 4, 7])
def test_a_process_killed_while_containers_come_up_leaves_nothing_behind(moment, clean_host):
    need("docker")
    script = (
        "from pairlab import Spec, open_testbed\n"
        "def tell(phase, done, total): print(phase, done, flush=True)\n"
        "print('begun', flush=True)\n"
        "with open_testbed(Spec(backend='docker', driver='bridge', pairs=4), tell): input()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        wanted = f"bringing up {moment}\n".encode() if moment else b"begun\n"
        for line in process.stdout:
            if line == wanted:
                break
        process.kill()
    assert host.settled(clean_host, within_s=20), host.difference(clean_host)


@pytest.fixture(params=registry.backends.names())
def bed(request):
    need(request.param)
    with open_testbed(Spec(backend=request.param, driver="bridge", pairs=2)) as bed:
        yield bed


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
    begun = time.monotonic()
    with pytest.raises(MeasurementFailed, match=r"sleep in client-0 did not end within 0\.2 s"):
        bed.pairs[0].client.run(["sleep", "1000"], timeout_s=0.2)
    assert time.monotonic() - begun < 10
    left = bed.pairs[0].client.run(["sh", "-c", "grep -l '^sleep' /proc/[0-9]*/comm || true"])
    assert left.stdout == ""


def test_one_release_starts_all_that_hold_at_a_gate(bed):
    ends = [end for pair in bed.pairs for end in (pair.client, pair.server)]
    gate = bed.conductor.gate()
    held = bed.conductor.start([(end, ["true"]) for end in ends], gate=gate)
    bed.conductor.wait_ready(held, 10)
    assert [process.over for process in held] == [False] * 4
    released_ns = gate.release()
    bed.conductor.wait_ended(held, 10)
    assert [process.exit_code for process in held] == [0] * 4
    assert all(process.start_ns >= released_ns for process in held)


def test_a_server_that_cannot_listen_is_no_reason_to_wait(bed):
    (server,) = bed.conductor.start([(bed.pairs[0].server, ["sh", "-c", "echo no port >&2; exit 4"])], listen=[7])
    begun = time.monotonic()
    bed.conductor.wait_ready([server], 30)
    assert time.monotonic() - begun < 10
    bed.conductor.results([server])
    assert (server.ready, server.trouble) == (False, "ended with 4: no port")


def test_unknown_names_are_refused_with_those_there_are():
    with pytest.raises(UnknownName, match=r"no driver 'brigde'; there are: bridge, host, macvlan, ovs"):
        registry.drivers.get("brigde")
    with (
        pytest.raises(UnknownName, match=r"no backend 'lxc'; there are: docker, netns"),
        open_testbed(Spec(backend="lxc")),
    ):
        pass


def test_a_sandbox_that_dies_is_said_to_be_gone():
    need("netns")
    gone = pytest.raises(MeasurementFailed, match="the testbed broke while it was in use")
    with gone, open_testbed(Spec(pairs=1)) as bed:
        os.kill(bed.site.sandbox.pid, signal.SIGKILL)
        with pytest.raises(TestbedError, match="the sandbox ended during 'spawn'"):
            bed.pairs[0].client.run(["true"])


def test_without_a_way_to_make_a_sandbox_nothing_is_built(monkeypatch, clean_host):
    need("netns")
    sandbox.lack.cache_clear()
    monkeypatch.setattr(sandbox, "command", lambda: ["sh", "-c", "echo not allowed >&2; exit 1"])
    try:
        with pytest.raises(Unavailable, match="no sandbox can be made"), open_testbed(Spec()):
            pass
    finally:
        sandbox.lack.cache_clear()
    assert not host.difference(clean_host)


def test_the_servers_of_other_people_keep_their_ports():
    """With the host driver in Docker all share the host's ports."""
    import socket

    need("docker", "host")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        from pairlab.testbed.backends import docker

        first = taken.getsockname()[1]
        assert docker._free_ports(4) not in range(first - 3, first + 1)
