"""Hosts that are machines over ssh: real connections to real servers, in network namespaces that play the machines."""

import json

import pytest

from pairlab import measure, open_testbed
from pairlab.errors import BadInput, PairlabError, Unavailable
from pairlab.testbed.ssh import inventory
from tests.support import machines as played
from tests.support.attempts import measured
from tests.support.machines import across, assert_each_byte_was_counted, killed, nothing_left

pytestmark = pytest.mark.whole


@pytest.fixture
def machines(tmp_path, monkeypatch):
    played.need_sshd()
    with played.machines(tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.parametrize("driver", ["overlay", "nat", "host", "macvlan", "bgp"])
def test_each_end_of_a_pair_is_on_a_machine_of_its_own_and_each_byte_is_counted(machines, driver, runs_dir):
    assert_each_byte_was_counted(measured(across(driver, flow_bytes=2_000_000, duration_s=60.0)))
    assert nothing_left()


def test_endpoints_are_in_the_networks_of_the_machines(machines):
    with open_testbed(across("nat")) as bed:
        first = bed.pairs[0]
        assert "dev eth0" in first.client.run(["ip", "route", "get", first.target]).stdout
    assert nothing_left()


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
    assert nothing_left()


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
        measure(across("nat"))


@pytest.mark.parametrize("who", ["coordinator", "keeper", "sandbox", "sshd", "silent"])
def test_whatever_is_killed_the_measurement_fails_by_name_and_nothing_is_left(machines, who, runs_dir):
    with pytest.raises(PairlabError):
        measure(across("nat", duration_s=30.0), watch=lambda sample: killed(who))
    assert nothing_left()
