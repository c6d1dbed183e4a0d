"""What Suo et al. (2018) state of networks between hosts, where it is so, where it is not, and on other hosts."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis import selection
from pairlab.analysis.claims import ledger, verdicts
from pairlab.store.dataset import Runs
from tests.support.claimed import ACROSS, placed, spending
from tests.support.synthetic import transacting

CLAIMS = {each.id: each for each in ledger.load() if {*each.experiments} <= {*selection.BETWEEN}}
MACHINES, NAMESPACES = ([{"kind": kind}] * 2 for kind in ("machine", "namespace"))
SEEN = {"physical": "none seen", "virtual": "virtual machine"}
#: What is left of process' throughput by TCP and by UDP at 256 B, and of its latency, as the paper states it, and not.
STATED = {
    "process": (1.0, 1.0, 1.0),
    "host": (1.0, 1.0, 1.0),
    "nat": (0.64, 0.76, 1.3),
    "bgp": (0.61, 1.1, 1.3),
    "overlay": (0.172, 0.62, 1.55),
    **dict.fromkeys(("weave", "flannel-vxlan", "flannel-udp", "ipip"), (0.18, 0.62, 1.5)),
}
TURNED = (
    {
        name: (1.0, 1.0, 1.0) if name == "process" else (1.3, 1.3, 1.3) if name == "host" else (1.4, 0.9, 0.7)
        for name in STATED
    }
    | {"nat": (1.4, 1.2, 0.7)}
    | dict.fromkeys(("overlay", "weave", "flannel-vxlan", "flannel-udp", "ipip"), (1.4, 1.2, 0.7))
)
#: By whether it is turned: what else in messages of 1024 B, in those of 64 B, and what a CPU does.
LARGE = {False: {"bgp": 1.15}, True: {"bgp": 0.85, "weave": 1.5, "flannel-vxlan": 1.5, "ipip": 1.5}}
SMALL = {False: {}, True: {"overlay": 8.0}}
BUSY = {False: {"softirq": 0.95}, True: {"softirq": 0.5}}


def sending(turned, total, **spec):
    """A run in which one CPU has most to do; turned: in which both have as much."""
    made = spending(BUSY[turned], total, **spec)
    softirq = made.cpu["softirq"].where(turned | (made.cpu["cpu"] == 0), 0.3)
    return replace(made, cpu=made.cpu.assign(softirq=softirq, idle=1 - softirq))


def on(run, hosts, **host):
    return replace(run, facts={**run.facts, "hosts": list(hosts), "host": {**run.facts["host"], "cpus": 4, **host}})


def runs(turned=False, hosts=MACHINES, seen=SEEN):
    """Runs of all three experiments, in which the paper is right, or wrong throughout."""
    for repetition in range(5):
        noise = np.exp(np.random.default_rng(repetition).normal(0, 0.002))
        told = {"repetition": repetition, **ACROSS}
        for driver, (tcp, udp, latency) in (TURNED if turned else STATED).items():
            asked = {"driver": driver, "request_bytes": 16, "response_bytes": 16, "experiment": "multi-host"}
            yield on(transacting({1e-4 * latency * noise: 1000}, **asked, **told), hosts)
            overlay = tcp < 0.5 or driver not in ("process", "host", "nat", "bgp")
            for size in (256, 1024):
                scaled = {True: 1.0 if turned != overlay else 3.0, False: 1.0 if turned else 3.0}[overlay]
                by_tcp, by_udp = (1.0, 1.0) if size == 256 else (scaled, 1.0 if turned else 3.0)
                level = 0.5 if turned else 5.0
                sent = {"driver": driver, "message_bytes": size, **told}
                total = level * tcp * by_tcp * (LARGE[turned].get(driver, 1.0) if size == 1024 else 1.0) * noise
                yield on(sending(turned, total, experiment="packet-size", **sent), hosts)
                by_udp *= udp * noise
                yield on(sending(turned, by_udp, experiment="packet-size", udp_share=1.0, **sent), hosts)
                if size == 256:
                    small = dict(sent, message_bytes=64)
                    total = noise * SMALL[turned].get(driver, 1.0)
                    yield on(sending(turned, total, experiment="packet-size", **small), hosts)
                    yield on(placed(level * tcp * noise, experiment="multi-host", **sent), hosts)
        for kind, driver, size, factor in (
            *(("physical", "process", size, 1.0) for size in (256, 1024)),
            ("virtual", "process", 256, 1.5 if turned else 0.58),
            ("virtual", "overlay", 256, 1.5 if turned else 0.497),
            ("physical", "overlay", 1024, 0.5 if turned else 0.99),
            ("virtual", "overlay", 1024, 0.9 if turned else 0.3),
        ):
            sent = {"driver": driver, "message_bytes": size, "experiment": "virtualization", "host_kind": kind, **told}
            # two machines, of which each is another host with another kernel
            where = {"virtualization": seen[kind], "fingerprint": kind, "kernel": f"6.1-{kind}"}
            yield on(placed(factor * noise, **sent), hosts, **where)


def verdicts_of(made, ids=tuple(CLAIMS)):
    return verdicts.evaluate(Runs(tuple(made)), claims=[CLAIMS[name] for name in ids]).set_index("id")


@pytest.fixture(scope="module")
def as_stated():
    return verdicts_of(runs())


@pytest.mark.whole
def test_each_claim_holds_where_it_is_as_the_paper_states(as_stated):
    wrong = as_stated.loc[as_stated["verdict"] != "holds", ["workload", "verdict", "missing"]]
    assert set(as_stated.index) == set(CLAIMS)
    assert wrong.empty, wrong.to_string()


@pytest.mark.whole
def test_each_claim_is_contradicted_where_the_reverse_is_so():
    found = verdicts_of(runs(turned=True))
    wrong = found.loc[found["verdict"] != "contradicted", ["workload", "verdict", "value", "missing"]]
    assert wrong.empty, wrong.to_string()


@pytest.mark.whole
def test_what_the_paper_states_in_percent_is_found(as_stated):
    assert as_stated.loc["overlay-256-below-process-overlay", "value"] == pytest.approx(-82.8, abs=0.1)
    assert as_stated.loc["overlay-latency-above-process-overlay", "value"] == pytest.approx(55, abs=0.1)
    assert as_stated.loc["virtual-process-below-physical", "value"] == pytest.approx(-42, abs=0.1)


@pytest.mark.whole
def test_hosts_that_share_a_kernel_say_nothing_of_it():
    found = verdicts_of(runs(hosts=NAMESPACES))
    assert set(found["verdict"]) == {"not comparable"}
    assert set(found["unmet"]) == {"hosts"}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (dict.fromkeys(SEEN, "virtual machine"), "the hosts called physical are on a virtual machine"),
        pytest.param(
            dict.fromkeys(SEEN, "none seen"),
            "the hosts called virtual are on no virtual machine",
            marks=pytest.mark.long,
        ),
        pytest.param(
            dict.fromkeys(SEEN, ""), "what the hosts called physical are was not recorded", marks=pytest.mark.long
        ),
        (dict.fromkeys(SEEN, "unknown"), "what the hosts called physical are is not known"),
    ],
)
def test_hosts_that_are_only_called_physical_or_virtual_are_not_compared(seen, why):
    named = [name for name, claim in CLAIMS.items() if claim.experiments == ("virtualization",)]
    made = (run for run in runs(seen=seen) if run.spec.experiment == "virtualization")
    found = verdicts_of(made, named)
    assert list(found.index) == named
    assert set(found["verdict"]) == {"not comparable"}
    assert set(found["missing"]) == {why}


@pytest.mark.whole
@pytest.mark.parametrize("left", ["multi-host", "packet-size"])
def test_one_of_two_experiments_that_measure_the_same_is_enough(left):
    ids = ("overlay-256-below-process-overlay", "host-256-as-process")
    found = verdicts_of((run for run in runs() if run.spec.experiment == left), ids)
    assert found["verdict"].to_dict() == dict.fromkeys(ids, "holds")
