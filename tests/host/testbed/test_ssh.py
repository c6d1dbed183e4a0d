"""Hosts that are machines over ssh: real connections to real servers, in network namespaces that play the machines."""

import json
import os
import signal

import psutil
import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.errors import BadInput, PairlabError, Unavailable
from pairlab.testbed.ssh import inventory
from tests.support import machines as played
from tests.support.attempts import measured


@pytest.fixture
def machines(tmp_path, monkeypatch):
    played.need_sshd()
    with played.machines(tmp_path, monkeypatch) as made:
        yield made


def across(driver="bridge", **asked):
    where = {"backend": "ssh", "hosts": 2, "placement": "across", "driver": driver}
    return Spec(workload="flowgen", pairs=2, max_foreign_cpu=1.0, max_skew_s=1.0, **where | asked)


def left():
    """What runs of agents and launchers on the machines."""
    found = []
    for each in psutil.process_iter():
        try:
            words = each.cmdline()
        except psutil.Error:
            continue
        if any("pairlab.testbed.ssh" in word or word == "/run/pairlab/flowgen" for word in words):
            found.append(each)
    return found


def gone(within_s=60.0):
    return not psutil.wait_procs(left(), within_s)[1] and not left()


@pytest.mark.parametrize(
    "driver", ["overlay", *(pytest.param(each, marks=pytest.mark.whole) for each in ("nat", "host", "macvlan", "bgp"))]
)
def test_each_end_of_a_pair_is_on_a_machine_of_its_own_and_each_byte_is_counted(machines, driver, runs_dir):
    run = measured(across(driver, flow_bytes=2_000_000, duration_s=60.0))
    assert run.status in ("ok", "invalid"), run.reasons
    assert list(run.flows["status"]) == ["ok"] * 2, list(run.flows["error"])
    assert list(run.flows["flow_bytes"]) == [2_000_000] * 2
    assert run.checks["interface_bytes"] in (None, 0.0)
    assert run.checks["clock_error_s"] < 0.01
    # They are called what they are here: two names of one kernel.
    hosts = [(each["kind"], each["on"]) for each in run.facts["hosts"]]
    assert hosts == [("namespace", "left"), ("namespace", "right")]
    kernels = run.facts["network"]["kernels"]
    assert [each["kernel"] for each in kernels] == [os.uname().release] * 2
    assert gone()


def test_endpoints_are_in_the_networks_of_the_machines(machines):
    with open_testbed(across("nat")) as bed:
        first = bed.pairs[0]
        assert "dev eth0" in first.client.run(["ip", "route", "get", first.target]).stdout
    assert gone()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"interface": "eth9"}, r"left ended: there is no interface 'eth9'; there are: lo, eth1"),
        ({"python": "python9"}, r"left ended: .*python9.*not found"),
        ({"options": ["-F", "none", "-o", "ProxyCommand=false"]}, "left ended: "),
    ],
)
def test_a_machine_that_cannot_be_a_host_is_named_with_the_reason(machines, changed, said, runs_dir):
    first, second = inventory.machines()
    inventory.file().write_text(
        inventory.yaml.safe_dump(
            {
                "hosts": [
                    json.loads(each.model_dump_json(warnings=False))
                    for each in (first.model_copy(update=changed), second)
                ]
            }
        )
    )
    with pytest.raises(PairlabError, match=said), open_testbed(across("nat")):
        pass
    assert gone()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("hosts: [{name: a, ssh: a}]", r"hosts.0.interface: Field required"),
        ("hosts: [{name: a, ssh: -oProxyCommand=x, interface: eth1}]", r"hosts.0.ssh: String should match"),
        ("hosts: [{name: a, ssh: a, interface: e}, {name: a, ssh: b, interface: e}]", "two hosts have one name"),
        ("hosts: [", "cannot be read"),
    ],
)
def test_an_inventory_that_is_wrong_is_refused_with_the_place(content, said, tmp_path, monkeypatch):
    monkeypatch.setattr(inventory.paths, "STUDY", tmp_path)
    (tmp_path / "hosts.yaml").write_text(content)
    with pytest.raises(BadInput, match=said):
        inventory.machines()


def test_without_an_inventory_the_backend_says_what_to_write(tmp_path, monkeypatch, runs_dir):
    monkeypatch.setattr(inventory.paths, "STUDY", tmp_path)
    with pytest.raises(Unavailable, match=r"hosts.yaml names no machine"):
        measure(across())


def kept(*words):
    (found,) = (each for each in left() if all(any(word in part for part in each.cmdline()) for word in words))
    return found


@pytest.mark.parametrize(
    "who",
    [
        "ssh",
        *(pytest.param(each, marks=pytest.mark.whole) for each in ("coordinator", "keeper", "sandbox", "sshd")),
    ],
)
def test_whatever_is_killed_the_measurement_fails_by_name_and_nothing_is_left(machines, who, runs_dir):
    def kill(*_):
        if who == "coordinator":
            victims = [each for each in left() if "pairlab.testbed.ssh.hosts" in each.cmdline()]
        else:
            name = {"ssh": "ssh", "keeper": "python3", "sandbox": "unshare", "sshd": "sshd"}[who]
            victims = [each for each in psutil.Process().children(recursive=True) if each.name().startswith(name)][-1:]
        assert victims
        for each in victims:
            each.send_signal(signal.SIGKILL)

    with pytest.raises(PairlabError):
        measure(across("nat", duration_s=30.0), watch=kill)
    assert gone()
