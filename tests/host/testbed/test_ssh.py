"""Hosts that are machines over ssh: real connections to real servers, in network namespaces that play the machines."""

import json
import os

import pytest

from pairlab import Spec, measure, open_testbed
from pairlab.batch import runner, sweep_file
from pairlab.batch.executors.workers import WorkerPool
from pairlab.errors import BadInput, PairlabError, Unavailable
from pairlab.store.dataset import load_runs
from pairlab.testbed import capture
from pairlab.testbed.capture import TCPDUMP
from pairlab.testbed.host import cgroups
from pairlab.testbed.requirements import Program, missing_programs
from pairlab.testbed.ssh import backend, inventory
from tests.support import machines as played
from tests.support import pcap
from tests.support.attempts import measured
from tests.support.dask_workers import Processes, free_port
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


def groups_of_hosts():
    return [group for group, _, run in cgroups.of_testbeds() if run == "ssh"]


def test_limits_are_in_force_on_the_machines_and_gone_with_the_hosts(machines, runs_dir):
    if lack := cgroups.missing():
        pytest.skip(str(lack))
    groups = []
    spec = across("nat", cores=1, cpu_quota=0.25, cpu_shares=512, duration_s=1.5)
    run = measured(spec, watch=lambda sample: groups.extend(groups_of_hosts()))
    in_force = run.facts["pinning"]
    assert in_force["cpus"] == {str(min(os.sched_getaffinity(0))): 4}
    assert in_force["cpu_quota"] == {"0.25": 4}
    weights = {name: in_force[name] for name in ("cpu_shares", "cpu_weight") if name in in_force}
    assert weights in ({"cpu_shares": {"512": 4}}, {"cpu_weight": {"20": 4}})
    assert nothing_left()
    assert groups
    assert not any(each.exists() for each in groups)


def launching(driver, **values):
    return Spec(backend="ssh", experiment="launch-time", driver=driver, workload="flowgen", launches=2, **values)


@pytest.mark.parametrize(("driver", "hosts"), [("bridge", 1), ("overlay", 2)])
def test_launches_are_on_the_machine_of_their_partner(machines, driver, hosts, runs_dir):
    run = measured(launching(driver, hosts=hosts, pairs=2))
    found = run.launches
    assert (found["status"] == "ok").all(), found["error"].to_list()
    assert sorted(zip(found["launch"], found["pair"], strict=True)) == [(n, pair) for n in (0, 1) for pair in (0, 1)]
    assert set(found["host"]) == ({"host-0", "host-1"} if hosts > 1 else {""})
    assert (found["first_ping_s"] >= found["link_up_s"]).all()
    assert run.checks["foreign_cpu"] is not None
    assert nothing_left()


def test_a_launch_that_is_pinged_from_another_machine_is_refused(machines, runs_dir):
    with pytest.raises(Unavailable, match="machines over ssh launch what is pinged on the same host only"):
        measure(launching("overlay", hosts=2, placement="across"))


def test_packets_are_captured_at_both_ends_each_on_its_machine(machines, runs_dir):
    if lack := missing_programs([TCPDUMP]):
        pytest.skip(str(lack[0]))
    flow_bytes = 1_000_000
    run = measured(across("nat", flow_bytes=flow_bytes, duration_s=60.0, capture="client-0,server-0"))
    for end in ("client-0", "server-0"):
        packets, of_run = pcap.records(run.raw[f"{end}.pcap"]), run.facts["capture"][end]
        assert (of_run["packets"], of_run["missed"]) == (len(packets), 0)
        assert flow_bytes < pcap.most_sent_bytes(packets) < 1.1 * flow_bytes
    assert {*pcap.by_tcp(pcap.records(run.raw["client-0.pcap"]))} != {
        *pcap.by_tcp(pcap.records(run.raw["server-0.pcap"]))
    }
    assert nothing_left()


def test_what_cannot_capture_there_is_named(machines, runs_dir, monkeypatch):
    monkeypatch.setattr(capture, "TCPDUMP", Program("no-such-tcpdump", "tcpdump"))
    with pytest.raises(Unavailable, match=r"left has no no-such-tcpdump.*apt-get install tcpdump there"):
        measure(across("nat", capture="client-0"))


def test_interference_is_on_the_machines_that_it_was_asked_for(machines, runs_dir):
    spec = across("nat", interference_workers=1, interference_where="server", interference_load=0.2, duration_s=1.5)
    run = measured(spec)
    assert run.checks["interference_running"], run.reasons
    (worker,) = run.facts["interference"]
    assert worker["host"] == "host-1"
    assert worker["cpus_used"] > 0.05
    assert nothing_left()


@pytest.mark.parametrize("who", ["coordinator", "keeper", "sandbox", "sshd", "silent"])
def test_whatever_is_killed_the_measurement_fails_by_name_and_nothing_is_left(machines, who, runs_dir):
    groups, limits = [], {} if cgroups.missing() else {"cpu_quota": 0.5}

    def watch(sample):
        groups.extend(groups_of_hosts())
        killed(who)

    with pytest.raises(PairlabError):
        measure(across("nat", duration_s=30.0, **limits), watch=watch)
    assert nothing_left()
    assert bool(groups) == bool(limits)
    assert not any(each.exists() for each in groups)


def test_a_worker_of_a_shared_sweep_measures_between_the_machines_of_its_own_study(
    machines, tmp_path, monkeypatch, runs_dir
):
    file = tmp_path / "shared.yaml"
    traffic = "workload: flowgen, duration_s: 1.5, max_foreign_cpu: 1.0, max_skew_s: 1.0"
    file.write_text(
        "name: shared\nexperiments:\n  networks:\n"
        f"    - {{backend: ssh, driver: nat, hosts: 2, placement: across, pairs: 2, {traffic}}}\n"
    )
    with Processes(tmp_path, free_port()) as made:
        made.scheduler(), made.worker()
        monkeypatch.setattr(inventory.paths, "STUDY", tmp_path / "another")  # the sweep's names no machine
        monkeypatch.setenv("PAIRLAB_RUNS", str(made.runs))
        with WorkerPool(made.address, wait_s=30) as pool:
            tally = runner.run(sweep_file.load(file), pool=pool)
        assert (tally.done, tally.good) == (1, True), tally
        (run,) = load_runs(made.runs, environment="all")
    assert [each["on"] for each in run.facts["hosts"]] == [*played.NAMES]
    assert run.flows["throughput_bps"].gt(0).all()
    assert nothing_left()


def test_a_machine_that_was_started_anew_is_looked_at_again_and_the_run_has_what_it_is(machines, runs_dir):
    spec = across("nat", flow_bytes=2_000_000, duration_s=60.0)
    backend.looked_at(inventory.machines())
    left = inventory.machines()[0]
    before = backend._known[left]
    backend._known[left] = before._replace(facts=before.facts | {"boot_id": "before", "kernel": "5.10.0"})
    assert_each_byte_was_counted(measured(spec))
    assert left not in backend._known
    assert backend.looked_at([left])[0]["kernel"] == os.uname().release


def test_what_a_machine_lacks_is_soon_asked_again_as_it_may_have_been_installed(machines, monkeypatch):
    backend.looked_at(inventory.machines())
    for machine, look in backend._known.items():
        backend._known[machine] = look._replace(facts=look.facts | {"absent": [backend.SSH.command]})
    assert len(backend.Ssh(2).missing_programs([backend.SSH])) == 2  # what has just been seen is believed
    monkeypatch.setattr(backend, "BELIEVED_S", 0.0)
    assert backend.Ssh(2).missing_programs([backend.SSH]) == []
