"""Promise: what is not ours is never touched, neither by runs, nor by accidents, nor by `pairlab clean`.

Standing by: another container on a network of its own, another Open vSwitch with a bridge, namespaces with and without
a name, links, a chain of the firewall, processes, a cgroup and folders, some of them with names much like ours.
"""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pairlab import Spec, measure
from pairlab.testbed import registry
from pairlab.testbed.audit import snapshot
from pairlab.testbed.audit.view import OURS
from pairlab.testbed.cleanup.process_table import SESSION
from pairlab.testbed.docker import image
from pairlab.testbed.host import cgroups
from tests.conftest import need
from tests.faults.host_state import SHARED, wait_clean
from tests.faults.test_killed_netns import measuring
from tests.support import host

NAME = f"by{os.getpid()}"
#: They are other people's, so they do not bear the mark of this session.
ELSEWHERE = {name: value for name, value in os.environ.items() if name != SESSION}

pytestmark = [
    pytest.mark.usefixtures("runs_dir", "forking"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can put up what belongs to nobody of us"),
]


def run(*argv):
    subprocess.run(argv, check=True, capture_output=True, env=ELSEWHERE)


def begun(stack, *argv, **options):
    """A process of other people's, gone with the stack."""
    process = stack.enter_context(subprocess.Popen(argv, env=ELSEWHERE, start_new_session=True, **options))
    stack.callback(process.kill)
    return process


def a_container(stack):
    import docker

    if registry.backends.get("docker")().missing():
        return
    client = stack.enter_context(contextlib.closing(docker.from_env()))
    image.ensure(client, lambda *progress: None)
    network = client.networks.create(f"{NAME}-pairlab", driver="bridge")
    stack.callback(network.remove)
    container = client.containers.create(image.tag(), ["sleep", "600"], name=f"pairlab-{NAME}", network=network.name)
    stack.callback(container.remove, force=True)
    container.start()
    yield "docker network", network.id[:12]
    yield "container", container.id[:12]


def a_switch(stack, place, monkeypatch):
    """An Open vSwitch where the host's would be, as far as the programs' environment tells."""
    if registry.backends.get("netns")().missing_driver(registry.drivers.get("ovs")):
        return
    monkeypatch.setenv("OVS_RUNDIR", str(place))
    database = f"unix:{place}/db.sock"
    run("ovsdb-tool", "create", f"{place}/conf.db")
    for daemon, *words in (("ovsdb-server", f"{place}/conf.db", f"--remote=p{database}"), ("ovs-vswitchd", database)):
        pid = place / f"{daemon}.pid"
        ends = [f"--pidfile={pid}", f"--unixctl={place}/{daemon}.ctl", f"--log-file={place}/{daemon}.log", "--detach"]
        run(daemon, *words, *ends, "--no-chdir", "-vconsole:off")
        stack.callback(lambda pid=pid: os.kill(int(pid.read_text()), 9))
        yield "process", process_name(int(pid.read_text()))
    run("ovs-vsctl", f"--db={database}", "add-br", NAME, "--", "set", "bridge", NAME, "datapath_type=netdev")
    stack.callback(run, "ovs-vsctl", f"--db={database}", "del-br", NAME)
    yield "switch", f"bridge {NAME}"


def namespaces_and_links(stack):
    run("ip", "netns", "add", NAME)
    stack.callback(run, "ip", "netns", "delete", NAME)
    yield "namespace", f"/run/netns/{NAME}"
    inside = begun(
        stack, "unshare", "--net", "sh", "-c", "echo in; read wait", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    inside.stdout.readline()
    yield "namespace", os.readlink(f"/proc/{inside.pid}/ns/net")
    run("ip", "link", "add", f"{NAME}a", "type", "veth", "peer", f"{NAME}b")
    stack.callback(run, "ip", "link", "delete", f"{NAME}a")
    yield from (("link", f"{NAME}a"), ("link", f"{NAME}b"))


def a_chain(stack):
    if shutil.which("iptables"):
        run("iptables", "--wait", "-N", NAME)
        stack.callback(run, "iptables", "--wait", "-X", NAME)
        yield "firewall rule", f"iptables filter :{NAME} -"


def processes_and_folders(stack):
    yield "process", process_name(begun(stack, "sleep", "600").pid)
    yield "process", process_name(begun(stack, "flowgen", "600", executable=shutil.which("sleep")).pid)
    folder = Path("/tmp", f"pairlab-notes-{NAME}")
    folder.mkdir()
    stack.callback(shutil.rmtree, folder)
    (folder / "page").write_text("mine")
    yield "temporary file", str(folder)
    if not cgroups.missing():
        group = cgroups.hierarchy().base() / f"pairlab-{NAME}"
        group.mkdir()
        stack.callback(group.rmdir)
        yield "cgroup", str(group)


def process_name(pid):
    from pairlab.testbed.cleanup import process_table

    return process_table.read_processes()[pid].name


@pytest.fixture
def bystanders(tmp_path, monkeypatch):
    """What stands by, as (kind, name) of a snapshot's things; the same ones are there afterwards."""
    (tmp_path / "ovs").mkdir()
    with contextlib.ExitStack() as stack:
        found = [
            *a_container(stack),
            *a_switch(stack, tmp_path / "ovs", monkeypatch),
            *namespaces_and_links(stack),
            *a_chain(stack),
            *processes_and_folders(stack),
        ]
        yield found


def test_bystanders_are_untouched_by_runs_accidents_and_cleaning(bystanders):
    need("netns")
    before = snapshot.take()
    was = {(each.kind, each.name): each for each in before.things}
    assert [one for one in bystanders if one not in was] == []
    for driver in ("bridge", "macvlan", "ovs"):
        need("netns", driver)
        measure(Spec(driver=driver, workload="flowgen", pairs=2, duration_s=0.5))
        with measuring(driver, "measuring (s)") as process:
            process.wait()
    wait_clean(before)
    # On a shared host, what others have just left is theirs to tidy.
    cleaning = [str(host.BIN / "pairlab"), "clean", *(["--dry-run"] if SHARED else [])]
    output = subprocess.run(cleaning, capture_output=True, text=True, check=True).stdout
    now = {(each.kind, each.name): each for each in snapshot.take().things}
    assert {one: now.get(one) for one in bystanders} == {one: was[one] for one in bystanders}
    assert NAME not in output


def test_a_bystander_is_not_taken_for_ours_but_by_its_name(bystanders):
    seen = {(each.kind, each.name): each.whose for each in snapshot.take().things}
    taken_for_ours = {one for one in bystanders if seen[one] == OURS}
    assert {kind for kind, _ in taken_for_ours} <= {"temporary file", "cgroup"}  # these two bear our prefix
