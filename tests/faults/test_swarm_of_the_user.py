"""Promise: a swarm that the user's daemon is in stays as it was, however a testbed with a swarm of its own ends."""

import contextlib
import subprocess

import docker
import pytest
from docker.errors import APIError

from pairlab import Spec, measure
from pairlab.testbed.contracts import no_progress
from tests.conftest import need_all_of
from tests.faults.forked import Forked
from tests.faults.processes import DYING_S, await_process

pytestmark = pytest.mark.usefixtures("runs_dir", "forking")

OVERLAY = Spec(backend="docker", driver="overlay", pairs=2, hosts=2, placement="across", workload="flowgen")
#: Measures over a swarm of its own, and says each phase.
MEASURING = """
from pairlab import Spec, measure
spec = Spec(backend="docker", driver="overlay", pairs=2, hosts=2, placement="across", workload="flowgen", duration_s=30)
measure(spec, fresh=True, progress=lambda phase, done, total: print(phase, flush=True))
"""


@pytest.fixture
def client():
    need_all_of(OVERLAY)
    with contextlib.closing(docker.from_env()) as client:
        yield client


@pytest.fixture
def swarm(client):
    """The user's: made for this test, on the loopback, with a service's network."""
    if client.info()["Swarm"]["LocalNodeState"] != "inactive":
        pytest.skip("this host's daemon is in a swarm already, which stays as it is")
    gateway_there = _networks(client, "docker_gwbridge")
    client.swarm.init(advertise_addr="127.0.0.1", listen_addr="127.0.0.1:2377")
    try:
        client.networks.create("pairlab-users-own", driver="overlay", attachable=True)
        await_process(lambda: [each for each in client.networks.list(names=["docker_gwbridge"]) if _is_whole(each)])
        await_process(_rules_of_the_user)
        yield lambda: (_identity(client), _networks(client, "pairlab-users-own"))
    finally:
        client.swarm.leave(force=True)
        if not gateway_there:  # Docker leaves it behind
            for each in client.networks.list(names=["docker_gwbridge"]):
                each.remove()


def _is_whole(gateway):
    """Whether the swarm's gateway is at work, which comes after the swarm: what Docker does for it is done by then."""
    gateway.reload()
    return "ingress-sbox" in gateway.attrs["Containers"]


def _rules_of_the_user():
    """Docker takes this rule away and puts it back, as the first, for each network that it makes."""
    listed = subprocess.run(["iptables", "--wait", "-S", "FORWARD"], check=True, capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if line == "-A FORWARD -j DOCKER-USER"]


def _identity(client):
    told = client.info()["Swarm"]
    return told["LocalNodeState"], told["NodeID"], told["Cluster"]["ID"]


def _networks(client, name):
    return [each.id for each in client.networks.list(names=[name])]


def test_a_swarm_of_the_user_stays_as_it_was(swarm, client, clean):
    before = swarm()
    assert before[0][0] == "active"
    run = measure(OVERLAY.replace(duration_s=0.5, max_foreign_cpu=1), progress=no_progress, attempts=3)
    assert set(run.flows["status"]) == {"ok"}
    assert swarm() == before
    with Forked(MEASURING) as process:
        for line in process.stdout:
            if line.startswith("measuring"):
                process.kill()
                break
        process.wait(DYING_S)
    clean()
    assert swarm() == before
    with pytest.raises(APIError, match="already part of a swarm"):
        client.swarm.init(advertise_addr="127.0.0.1")
