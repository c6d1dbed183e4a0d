"""Which congestion control endpoints have, and what a host lacks for one."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.errors import Unavailable
from pairlab.measurement import measure as measurement
from pairlab.testbed import requirements
from pairlab.testbed.docker.backend import Docker
from pairlab.testbed.netns.backend import Netns
from pairlab.testbed.plans import layout
from pairlab.testbed.requirements import MissingRequirement
from tests.conftest import mostly_whole, need, need_all_of
from tests.support.punctual import PUNCTUAL
from tests.support.shared import asking


def names(setting):
    return (requirements.TCP_SETTINGS / f"tcp_{setting}congestion_control").read_text().split()


@pytest.fixture(scope="module")
def another():
    """A congestion control that is not the default; one that the host does not allow to all, where there is one."""
    others = [name for name in names("available_") if name not in names("")]
    if not others:
        pytest.skip("this kernel has one congestion control only")
    return sorted(others, key=lambda name: name in names("allowed_"))[0]


def seen_by_kernel(spec, monkeypatch):
    """The run, and the congestion controls that the kernel shows of its connections while they send, at each side.

    Each endpoint is asked until it has a connection.
    """
    if not shutil.which("ss") or not shutil.which("nsenter"):
        pytest.skip("the kernel is asked with ss and nsenter, not both on PATH: apt-get install iproute2 util-linux")
    if os.geteuid() and spec.backend == "docker":
        pytest.skip("needs root: only root may look into a container's namespaces")
    of_own_sandbox = ["--user", "--preserve-credentials"] if os.geteuid() else []
    seen, real = {"client": set(), "server": set()}, measurement._watch

    def watch(bed, clients, *others):
        unseen = [each for each in bed.launcher._processes.values() if each.ready and not each.ended]
        real_wait = bed.launcher.wait_ended

        def wait_ended(*arguments):
            for each in list(unseen):
                inside = ["nsenter", *of_own_sandbox, "--net", "--target", str(each.pid)]
                inside += ["ss", "-tinH", "state", "established"]
                # It has to see them before they end, also where they fill the CPUs.
                told = subprocess.run(inside, capture_output=True, text=True, check=False, **PUNCTUAL).stdout
                if found := set(re.findall(r"(\w+) wscale:", told)):
                    seen[each.endpoint.name.partition("-")[0]] |= found
                    unseen.remove(each)
            real_wait(clients, min(arguments[1], 0.05) if unseen else arguments[1], *arguments[2:])

        monkeypatch.setattr(bed.launcher, "wait_ended", wait_ended)
        real(bed, clients, *others)
        monkeypatch.setattr(bed.launcher, "wait_ended", real_wait)

    monkeypatch.setattr(measurement, "_watch", watch)
    return measure(spec), seen


def routes_here():
    return subprocess.run(["ip", "-4", "route", "show", "table", "all"], capture_output=True, text=True).stdout


#: Links of a low rate: a flow of netcat's lasts seconds, and flows leave CPU time to who looks at them.
SHAPED = {"link_rate_bps": 1e8}
#: Routes are an endpoint's: a driver sets them whatever the tool, and a backend's tools have them whatever the driver.
TOOLS = ("netcat", "sockperf", "flowgen", "iperf", "iperf3")
CASES = [("netns", "bridge", workload) for workload in TOOLS]
CASES += [("netns", "macvlan", "sockperf"), ("netns", "ovs", "flowgen")]
CASES += [("docker", "bridge", workload) for workload in ("netcat", "flowgen")]
AT_HAND = [
    *(("netns", "bridge", "netcat"), ("netns", "macvlan", "sockperf"), ("netns", "ovs", "flowgen")),
    *(("docker", "bridge", "netcat"), ("docker", "bridge", "flowgen")),
]


@pytest.mark.parametrize(("backend", "driver", "workload"), mostly_whole(CASES, but=AT_HAND))
def test_the_one_asked_for_is_in_force_at_both_ends_whatever_the_tool(
    backend, driver, workload, another, runs_dir, clean_host, monkeypatch
):
    need(backend, driver, workload)
    lasting = {"flow_bytes": 25_000_000, "duration_s": 30} if workload == "netcat" else {"duration_s": 3}
    spec = asking(workload, backend=backend, driver=driver, congestion_control=another, **SHAPED, **lasting)
    need_all_of(spec)
    before = routes_here()
    run, seen = seen_by_kernel(spec, monkeypatch)
    assert set(run.flows["status"]) == {"ok"}, run.reasons  # who looks so often spoils the sampling of CPUs
    assert seen == {"client": {another}, "server": {another}}
    assert run.facts["congestion_control"] == {"in_force": another, "by": "route"}
    assert run.facts["network"]["route_congestion_control"] == another
    assert run.facts["network"]["tcp_congestion_control"] in names("")  # no setting was changed
    if workload != "netcat":  # which is not asked before its end
        assert set(run.flows["congestion_control"]) == {another}
    assert routes_here() == before


@pytest.mark.parametrize("workload", mostly_whole(["sockperf", "flowgen"], but=["sockperf"]))
def test_the_loopback_of_a_sandbox_is_its_own_and_has_it_too(workload, another, runs_dir, monkeypatch):
    need("netns", "host", workload)
    before = routes_here()
    run, seen = seen_by_kernel(asking(workload, driver="host", congestion_control=another, duration_s=3), monkeypatch)
    assert set(run.flows["status"]) == {"ok"}, run.reasons  # who looks so often spoils the sampling of CPUs
    assert seen == {"client": {another}, "server": {another}}
    assert set(run.flows["congestion_control"]) == {another}
    assert routes_here() == before


def test_on_the_hosts_own_routes_a_tool_chooses_for_itself_what_all_may(runs_dir):
    allowed = [name for name in names("allowed_") if name not in names("")]
    if not allowed:
        pytest.skip("this host allows to all its default only")
    need("docker", "host")
    before = routes_here()
    run = measure(asking("flowgen", backend="docker", driver="host", congestion_control=allowed[0]))
    assert set(run.flows["congestion_control"]) == {allowed[0]}
    assert run.facts["congestion_control"] == {"in_force": allowed[0], "by": "tool"}
    assert routes_here() == before


#: Before and after it connects, a program chooses another one.
CHOOSES = """
import socket, sys
server, other = sys.argv[1], sys.argv[2].encode()
with socket.socket() as sock:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, other)
    sock.setblocking(False)
    sock.connect_ex((server, 9))
    print(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, other)
    except PermissionError:
        print("refused")
"""


def test_no_program_can_have_another_than_its_route(another):
    need("netns")
    with open_testbed(Spec(workload="flowgen", pairs=1, congestion_control=another)) as bed:
        pair, (default,) = bed.pairs[0], names("")
        done = pair.client.run([sys.executable, "-c", CHOOSES, pair.target, default])
    assert done.stdout.split() == [another, "refused"], done.stderr


def test_one_that_the_kernel_has_not_is_refused_before_anything_is_built(runs_dir):
    need("netns")
    with pytest.raises(Unavailable, match="this kernel has no congestion control 'no_such'"):
        measure(asking("netcat", congestion_control="no_such"))


# --- what a host lacks


@pytest.fixture
def settings(tmp_path, monkeypatch):
    (tmp_path / "tcp_available_congestion_control").write_text("reno bbr cubic vegas\n")
    (tmp_path / "tcp_allowed_congestion_control").write_text("reno bbr\n")
    (tmp_path / "tcp_congestion_control").write_text("bbr\n")
    monkeypatch.setattr(requirements, "TCP_SETTINGS", tmp_path)
    return tmp_path


#: As a backend says that it can set no routes.
NO_ROUTES = [MissingRequirement("the routes stay as they are", "take another driver")]


def lacks(name, by_route=(), chooses=True):
    return requirements.missing_congestion_control(name, by_route=by_route, tool="netcat", chooses=chooses)


def test_what_the_kernel_lacks_is_named_with_what_it_has(settings):
    (lack,) = lacks("westwood")
    assert str(lack) == (
        "this kernel has no congestion control 'westwood'; it has: reno, bbr, cubic, vegas:"
        " sudo modprobe tcp_westwood, or choose another"
    )


def test_by_routes_every_tool_has_what_the_kernel_has(settings):
    assert lacks("cubic", chooses=False) == []


def test_without_routes_a_tool_may_choose_what_the_host_allows_to_all(settings):
    assert lacks("reno", NO_ROUTES) == []
    (lack,) = lacks("cubic", NO_ROUTES)
    assert str(lack) == (
        "tools may not choose the congestion control 'cubic', only: reno, bbr; and the routes stay as they are:"
        " take another driver, or sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='reno bbr cubic'"
    )


def test_without_routes_a_tool_without_an_option_has_the_default_only(settings):
    assert lacks("bbr", NO_ROUTES, chooses=False) == lacks("", NO_ROUTES, chooses=False) == []
    (lack,) = lacks("reno", NO_ROUTES, chooses=False)
    assert str(lack).startswith(
        "workload 'netcat' cannot choose the congestion control 'reno', and the routes stay as they are:"
    )


def test_where_the_host_does_not_say_nothing_is_refused(settings):
    for file in settings.iterdir():
        file.unlink()
    assert lacks("vegas") == lacks("vegas", NO_ROUTES) == []


@pytest.mark.parametrize(
    ("backend", "driver", "user", "refused"),
    [
        (Netns, "bridge", 1000, ""),
        (Netns, "host", 1000, ""),
        (Docker, "bridge", 0, ""),
        (Docker, "bridge", 1000, "which needs root"),
        (Docker, "host", 0, "the host's own routes"),
    ],
)
def test_routes_are_set_where_they_are_ours_and_can_be(backend, driver, user, refused, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: user)
    found = backend().missing_routes(layout(Spec(driver=driver)))
    assert bool(found) == bool(refused)
    assert all(refused in str(lack) for lack in found)
