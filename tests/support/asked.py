"""Small runs for each question, in which one setting is planted to have 0.7 times what another has, and one as much."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pairlab.model.records import Run
from pairlab.model.tables import table
from tests.support import claimed, synthetic
from tests.support.synthetic import client_run
from tests.support.synthetic_flows import run_of_flows

LESS, SAME = 0.7, 1.0
#: In percent, as most changes are.
FELL, STAYED = -30.0, 0.0
#: A multiple of its drift in a repetition, with some noise; and the noise's source.
Level = Callable[[float], float]


class Case(NamedTuple):
    """The runs of a repetition, and what is planted: the estimates `of`, by the values of `factor`, and `also`
    (estimates, factor, values); and keys of its numbers, with what these begin with.
    """

    runs: Callable[[Level, dict, np.random.Generator], Iterator[Run]]
    of: str
    planted: Mapping[object, float]
    factor: str = "driver"
    also: Sequence[tuple[str, str, Mapping[object, float]]] = ()
    keyed: Mapping[str, str] = {}


def runs_of(topic: str, repetitions: int = 5) -> list[Run]:
    """The runs of so many repetitions, with a drift that all of a repetition share; the same at every call."""
    random = np.random.default_rng(12)
    made = []
    for repetition in range(repetitions):
        drift = random.normal(1, 0.03)

        def level(times, drift=drift):
            return float(times * drift * random.normal(1, 0.01))

        made += CASES[topic].runs(level, {"repetition": repetition}, random)
    return made


def failing(run: Run) -> Run:
    """The same, but that every flow, or launch, failed."""

    def failed(name: str):
        frame = getattr(run, name)
        measured = frame.select_dtypes("float").columns
        return frame.assign(status="failed", error="refused", **dict.fromkeys(measured, np.nan))

    empty = {"transactions": run.transactions.iloc[:0]} if len(run.transactions) else {}
    return replace(run, flows=failed("flows"), launches=failed("launches"), **empty)


def _throughput(level, told, random):
    for driver, times in (("bridge", SAME), ("macvlan", LESS), ("ovs", SAME)):
        for pairs in (2, 10):
            rates = level(times) * 20 / pairs * np.linspace(0.9, 1.1, pairs)
            made = synthetic.bulk(rates, busy=0.5 * times * random.normal(1, 0.01), driver=driver, **told)
            cpu = made.cpu.assign(sys=1 - made.cpu["idle"]).fillna(0.0)
            flows = made.flows.assign(flow_bytes=rates * 2.5e8, client_cpu_s=0.1, server_cpu_s=0.2)
            yield replace(made, flows=flows, cpu=cpu)


def _retransmissions(level, told, random):
    for driver in ("bridge", "ovs"):
        rates = level(1) * random.lognormal(0, 0.3, 30)
        counted = np.round(100 * (rates if driver == "ovs" else random.lognormal(0, 0.3, 30)))
        columns = dict.fromkeys(("retransmits", "netns_retransmits", "diag_retransmits"), counted)
        yield client_run(rates, experiment="retransmissions", driver=driver, columns=columns, **told)


def _lengths(level, told, random):
    """Of 40 s, the first ten at 0.7 of the mean; the clients lie as far apart then as over all."""
    rates_gbps = np.linspace(0.8, 1.2, 10)
    made = client_run(rates_gbps, experiment="retransmissions", duration_s=40.0, **told)
    parts = ((0.0, 10.0, 10 * level(LESS)), (10.0, 40.0, 40 - 10 * LESS))
    rows = [
        {"pair": pair, "flow": 0, "start_s": begin_s, "end_s": end_s, "interval_bytes": rate * 1.25e8 * seconds}
        for pair, rate in enumerate(rates_gbps)
        for begin_s, end_s, seconds in parts
    ]
    yield replace(made, intervals=table("intervals", rows))


def _times(level, random, pairs):
    return 0.1 * level * random.lognormal(0, 0.1, pairs)


def _fct(level, told, random):
    for driver, times in (("bridge", SAME), ("macvlan", LESS), ("ovs", SAME)):
        for pairs in (10, 50):
            for tool in ("flowgen", "netcat"):
                took_s = _times(level(times), random, pairs)
                yield run_of_flows(took_s, driver=driver, workload=tool, flow_bytes=5_000_000, **told)


def _elephants(level, told, random):
    roles = ["elephant"] * 4 + ["mouse"] * 16
    for driver, times in (("bridge", SAME), ("ovs", LESS)):
        plain = {"driver": driver, "flow_bytes": 5_000_000, **told}
        yield run_of_flows(_times(level(1), random, 20), **plain)
        mixed = {"experiment": "elephant-mice", "elephant_share": 0.2, "elephant_bytes": 50_000_000}
        yield run_of_flows(_times(level(times), random, 20), roles=roles, **mixed, **plain)


def _core_ratio(level, told, random):
    for driver, times in (("bridge", LESS), ("ovs", SAME)):
        for pairs, factor in ((2, 1.0), (4, times)):
            asked = {"experiment": "core-ratio", "driver": driver, **told}
            yield client_run([level(factor)] * pairs, **asked)
            took_s = {"fct_s": [0.1 / level(factor)] * pairs, "size_bytes": [5e6] * pairs}
            yield client_run([1.0] * pairs, columns=took_s, flow_bytes=5_000_000, **asked)


def _pinning(level, told, random):
    for driver in ("bridge", "ovs"):
        for policy, times in (("none", SAME), ("same-core", LESS), ("different-cores", SAME)):
            asked = {"experiment": "pinning", "driver": driver, "pinning": policy}
            yield synthetic.run([level(times)] * 2, **asked, **told)


def _message_size(level, told, random):
    for size, times in ((64, SAME), (1024, LESS), (4096, SAME)):
        yield synthetic.run([level(times)] * 2, experiment="message-size", message_bytes=size, **told)


def _starting(level, told, random):
    for spacing_s, times in ((0.0, LESS), (0.03, SAME)):
        for pairs, factor in ((10, 1.0), (50, times)):
            asked = {"experiment": "starting", "flow_bytes": 5_000_000, "start_spacing_s": spacing_s}
            yield run_of_flows(_times(level(factor), random, pairs), **asked, **told)


def _causes(level, told, random):
    for driver, times in (("bridge", LESS), ("host", SAME)):
        for pairs, factor in ((1, 1.0), (2, times)):
            yield profiled(driver, pairs, gigabytes=1 / level(factor), **told)


#: What each driver adds to the stacks that all have.
OWN = {"bridge": "br_forward", "macvlan": "macvlan_queue_xmit", "host": "loopback_xmit"}
COUNTERS = {"interrupts": 40_000, "softirqs_net_rx": 20_000, "softnet_time_squeeze": 5}


def profiled(driver="bridge", pairs=2, repetition=0, gigabytes=1.0, **spec):
    """A run that carried 1 GB. Of 100 samples of busy CPUs half are copies, 30 TCP's, and 20 its driver's."""
    each = 4.0 / pairs  # Gbit/s for 2 s
    columns = {
        "flow_bytes": [gigabytes * 1e9 / pairs] * pairs,
        "retransmits": [7.0] * pairs,
        "start_s": [0.0] * pairs,
        **{f"{side}_voluntary_switches": [300.0] * pairs for side in ("client", "server")},
        **{f"{side}_involuntary_switches": [10.0 + repetition] * pairs for side in ("client", "server")},
    }
    asked = {"experiment": "causes", "profile": True, "driver": driver, "repetition": repetition} | spec
    run = client_run([each] * pairs, columns=columns, **asked)
    stacks = {
        "iperf;do_syscall_64;tcp_sendmsg;_copy_from_iter": 50 - repetition,
        "iperf;do_syscall_64;tcp_sendmsg": 30 + repetition,
        f"iperf;do_syscall_64;tcp_sendmsg;{OWN[driver]}": 20,
        "swapper;do_idle;default_idle": 900,
    }
    rows = [{"stack": stack, "samples": samples} for stack, samples in stacks.items()]
    busy = {"usr": 0.2, "sys": 0.6, "softirq": 0.1, "idle": 0.1}  # and so of two CPUs, 3.6 s of 4
    cpu = [{"cpu": number, "start_s": 0.0, "end_s": 2.0, "irq": 0.0, **busy} for number in (0, 1)]
    counted = {**run.facts, "counters": COUNTERS}
    return replace(run, profile=table("profile", rows), cpu=table("cpu", cpu), facts=counted)


def _udp(level, told, random):
    for share, rate_bps, times in ((0.0, 0, SAME), (0.5, 0, LESS), (0.5, 1e8, SAME)):
        protocols = ["udp" if pair < 4 * share else "tcp" for pair in range(4)]
        sent = {"protocol": protocols}
        for name, count in (("sent", 1e5), ("received", 98e3), ("lost", 2e3), ("reordered", 98.0)):
            sent[f"datagrams_{name}"] = [count if each == "udp" else None for each in protocols]
        rates = [1.0 if each == "udp" else level(times) for each in protocols]
        yield client_run(rates, columns=sent, experiment="udp", udp_share=share, udp_rate_bps=rate_bps, **told)


def _beyond(level, told, random):
    for spec, times in (({}, SAME), ({"mtu_bytes": 1400}, LESS), ({"mtu_bytes": 9000}, SAME)):
        yield client_run([level(times)] * 4, **spec, **told)
    yield client_run([level(1)] * 4, congestion_control="bbr", **told)
    yield client_run([level(1)] * 4, cpu_quota=0.2, **told)
    yield client_run([level(1)] * 4, flows_per_pair=2, **told)
    yield from _udp(level, told, random)


def _all_to_all(level, told, random):
    for place, with_driver, times in (({}, "bridge", LESS), (claimed.ACROSS, "overlay", SAME)):
        for pairs in (2, 4):
            for driver, factor in (("process", 1.0), (with_driver, times)):
                yield claimed.exchanging(level(factor), driver=driver, pairs=pairs, **place, **told)


def _placement(level, told, random):
    for driver, times in (("host", SAME), ("bridge", LESS), ("macvlan", SAME)):
        used = {"usr": 0.2, "sys": 0.3, "softirq": 0.1}
        yield claimed.spending(used, level(times), driver=driver, **told)
        for backend in ("netns", "docker"):
            asked = {"experiment": "placement", "driver": driver, "backend": backend, **told}
            yield synthetic.transacting({20e-6 / level(times): 100}, **asked)


def _beside(experiment, drivers=("bridge", "host"), place=(), **beside):
    def make(level, told, random):
        for driver, times in zip(drivers, (LESS, SAME), strict=True):
            alone = {"driver": driver, **dict(place), **told}
            with_others = alone | beside | {"experiment": experiment}
            first = {"experiment": "placement" if experiment == "congestion" or not place else experiment}
            yield claimed.spending({"usr": 0.2, "softirq": 0.1}, level(1), **alone | first)
            yield claimed.spending({"usr": 0.3, "softirq": 0.1}, level(times), **with_others)
            yield synthetic.transacting({20e-6 / level(1): 100}, **alone | first)
            yield synthetic.transacting({20e-6 / level(times): 100}, **with_others)

    return make


def _launches(level, told, random):
    for driver, times in (("none", SAME), ("bridge", LESS)):
        for more in ({}, {"idle_pairs": 4}, {"pairs": 4}):
            yield claimed.launching(level(times), driver=driver, **more, **told)


def _modes(level, told, random):
    for driver, times in (("process", SAME), ("host", SAME), ("bridge", LESS)):
        yield claimed.in_mode(level(times), driver=driver, direction="down", **told)
        for size in (0, 64, 1024):
            for share in (0.0, 1.0)[: 1 + bool(size)]:
                asked = {"driver": driver, "message_bytes": size, "udp_share": share, **told}
                yield claimed.in_mode(level(times), **asked)
        for size in (64, 1024):
            sizes = {"experiment": "single-host-modes", "request_bytes": size, "response_bytes": size}
            yield synthetic.transacting({1e-4 / level(times): 100}, driver=driver, **sizes, **told)
    made = synthetic.run([0.0], driver="none", experiment="single-host-modes", failed=1, **told)
    yield replace(made, facts={**made.facts, "links": {"client-0": ["lo"]}})


def _between(experiment):
    #: One of two CPUs has no time left.
    cpus = [{"usr": 0.2, "softirq": 0.8}, {"usr": 0.1, "idle": 0.9}]
    cpu = [{"cpu": number, "start_s": 0.0, "end_s": 2.0, **parts} for number, parts in enumerate(cpus)]

    def make(level, told, random):
        for driver, times in (("process", SAME), ("nat", SAME), ("overlay", LESS)):
            for size, share in itertools.product((256, 1024), (0.0, 1.0)):
                asked = {"driver": driver, "message_bytes": size, "udp_share": share, **told}
                made = claimed.sending(level(times), experiment=experiment, **asked)
                yield replace(made, cpu=table("cpu", cpu).fillna(0.0))
            if experiment == "multi-host":
                asked = {"experiment": experiment, "request_bytes": 16, "response_bytes": 16, **claimed.ACROSS}
                yield synthetic.transacting({5e-5 / level(times): 100}, driver=driver, **asked, **told)

    return make


def _kinds(level, told, random):
    for driver, times in (("process", SAME), ("overlay", LESS)):
        for backend, kind in (("netns", "namespace"), ("uml", "uml")):
            asked = {"experiment": "virtualization", "backend": backend, "driver": driver}
            made = claimed.sending(level(times), **asked, **told)
            hosts = [{"name": f"host-{number}", "kind": kind} for number in range(2)]
            yield replace(made, facts={**made.facts, "hosts": hosts})


def _contained(level, told, random):
    for driver, times in (("process", SAME), ("host", SAME), ("bridge", LESS)):
        yield claimed.computing(1 / level(times), driver=driver, **told)
        yield synthetic.run([level(times)], driver=driver, experiment="containerization", **told)


def _networks(level, told, random):
    within = (("p2p", SAME), ("bridge", LESS), ("ovs", SAME))
    between = (("process", SAME), ("overlay", LESS), ("nat", SAME))
    for place, networks in (({}, within), ({"hosts": 2, "placement": "across"}, between)):
        for driver, times in networks:
            asked = {"driver": driver, **place, **told}
            for pairs in (1, 4):
                yield synthetic.run([20 * level(times) / pairs] * pairs, experiment="networks", **asked)
            usual_s = 10e-6 / level(times)
            yield synthetic.transacting({usual_s: 98, 10 * usual_s: 2}, experiment="latency", **asked)


def _cost(level, told, random):
    for driver, times in (("process", SAME), ("nat", SAME), ("overlay", LESS)):
        made = claimed.costing(level(times), driver=driver, udp_share=1.0, **told)
        yield made
        tunnel = 15 * (driver == "overlay")
        stacks = {"": 30, ";_copy_from_iter": 30 - tunnel, ";vxlan_xmit": tunnel}
        rows = [{"stack": f"flowgen;do_syscall_64;udp_sendmsg{top}", "samples": n} for top, n in stacks.items() if n]
        rows.append({"stack": "swapper;do_idle;default_idle", "samples": 500})
        yield replace(made, spec=made.spec.replace(profile=True), profile=table("profile", rows))


def _traffic(level, told, random):
    for driver, times in (("process", SAME), ("nat", SAME), ("overlay", LESS)):
        for load_bps in (0.0, 1e9):
            smallest = 0.5 if driver == "overlay" else 1.0
            yield claimed.traffic(level(times), smallest, driver, offered_load_bps=load_bps, **told)


#: By how much longer what has 0.7 times the rate takes, in percent.
ROSE = 100 / LESS - 100
_BESIDE = {"bridge": FELL, "host": STAYED}
_BETWEEN = {"overlay": FELL, "nat": STAYED}


def _disturbed(beside: str) -> list:
    return [
        ("latency to alone", "driver", {"bridge": ROSE, "host": STAYED}),
        ("throughput to host", "beside", {"alone": STAYED, beside: FELL}),
    ]


_MINUS_30, _PLUS_42 = r"\textminus{}30", "+42"
CASES = {
    "throughput": Case(
        *(_throughput, "shape", {"macvlan": LESS, "ovs": SAME}),
        keyed={"e/ovs/10/total": r"71.47\,Gbit/s", "compared": "3"},
    ),
    "fairness": Case(_throughput, "jain", {}, keyed={"c/bridge/ratio": "2.7"}),
    "cpu": Case(
        *(_throughput, "busy", {"macvlan": 0.5 * LESS, "ovs": 0.5}), keyed={"netns-flowgen/ovs/saturated-from": "never"}
    ),
    "retransmissions": Case(
        *(_retransmissions, "correlation", {"bridge": 0.0}),
        keyed={"netns-flowgen/ovs/30/spearman": "1.00", "netns-flowgen/ovs/30/namespace-excess": "+0"},
    ),
    "fct": Case(
        *(_fct, "by driver", {"macvlan": FELL, "ovs": STAYED}),
        keyed={"c/macvlan/10-50/p99": r"+39.8 \%", "netns-flowgen/largest-lead": "1.00 ms"},
    ),
    "elephant-mice": Case(
        *(_elephants, "against", {"ovs": FELL, "bridge": STAYED}), keyed={"share": r"20 \%", "elephant-size": "50 MB"}
    ),
    "core-ratio": Case(
        *(_core_ratio, "client change", {"bridge": FELL, "ovs": STAYED}),
        also=[("fct change", "driver", {"bridge": ROSE, "ovs": STAYED})],
        keyed={
            "netns-flowgen/ratios": "2, 4",
            "netns-flowgen/bridge/4-4p-2c/client-change": _MINUS_30,
            "netns-flowgen/bridge/4-4p-2c/fct-change": _PLUS_42,
        },
    ),
    "pinning": Case(
        *(_pinning, "change", {"same-core": FELL, "different-cores": STAYED}, "pinning"),
        keyed={"c/ovs/different-cores/change": r"+21.2 \%", "netns-flowgen/ovs/same-core/change": _MINUS_30},
    ),
    "message-size": Case(
        *(_message_size, "change", {1024: FELL, 4096: STAYED}, "message_bytes"),
        keyed={"netns-flowgen/sizes": "64 B, 1 KiB, 4 KiB", "netns-flowgen/bridge/2/trend-p": "0.859"},
    ),
    "starting": Case(
        *(_starting, "change", {0.0: FELL, 0.03: STAYED}, "start_spacing_s"),
        keyed={"netns-flowgen/spacings": "0 ms, 30 ms", "c/bridge/p99-change": r"+31.3 \%"},
    ),
    "causes": Case(
        *(_causes, "change", {"bridge": FELL, "host": STAYED}),
        keyed={
            "netns-flowgen/bridge/cubic/2/bridge": r"20.0\,\%",
            "netns-flowgen/host/cubic/2/voluntary-switches": "1213",
        },
    ),
    "length": Case(
        *(_lengths, "total_bps change", {10.0: FELL}, "length_s"),
        also=[("least_over_most", "length_s", dict.fromkeys((10.0, 30.0, 40.0), 2 / 3))],
        keyed={"netns-flowgen/bridge/10/10-s/min-max": "0.67"},
    ),
    "udp": Case(_udp, "change", {"50 % UDP at full rate": FELL, "50 % UDP at 100 Mbit/s": STAYED}, "load"),
    "beyond": Case(
        *(_beyond, "mtu total_bps change", {"1,400 B": FELL, "9,000 B": STAYED}, "setting"),
        keyed={
            "congestion-control/default": "cubic",
            "mtu/netns-flowgen/bridge/4/1-400-b/total-change": _MINUS_30,
            "udp/netns-flowgen/bridge/4/50-0/udp/lost": r"2.00\,\%",
            "cpu-limits/netns-flowgen/quota-0.2/told": "fairer in 0 of 1 cells",
        },
    ),
    "all-to-all": Case(
        *(_all_to_all, "against without", {"one host": FELL, "two hosts, halves": STAYED}, "place"),
        also=[("times", "kind", {"with containers": 1 / LESS, "without containers": SAME})],
    ),
    "placement": Case(
        *(_placement, "throughput to host", {"bridge": FELL, "macvlan": STAYED}),
        also=[("latency to host", "driver", {"bridge": ROSE, "macvlan": STAYED}), ("usr", "driver", {"bridge": 0.2})],
        keyed={"netns-flowgen/bridge/1/alone/against-host": r"\textminus{}29.9"},
    ),
    "interference": Case(
        *(_beside("interference", interference_workers=2), "throughput to alone", _BESIDE),
        also=_disturbed("2 busy loops"),
        keyed={"netns-flowgen/bridge/1/2-busy-loops/against-alone": _MINUS_30},
    ),
    "congestion": Case(
        *(_beside("congestion", background_pairs=1), "throughput to alone", _BESIDE),
        also=_disturbed("1 background pair"),
    ),
    "by-network": Case(
        _beside(
            *("interference", ("overlay", "process"), claimed.ACROSS.items()),
            interference_workers=5,
            interference_where="server",
        ),
        *("throughput to alone", {"overlay": FELL, "process": STAYED}),
        keyed={"netns-flowgen/overlay/2/5-busy-loops-by-the-servers/against-alone": _MINUS_30},
    ),
    "launch-time": Case(_launches, "launch", {"none": 0.2, "bridge": 0.2 * LESS}),
    "single-host-modes": Case(
        *(_modes, "throughput change", _BESIDE),
        also=[("latency change", "driver", {"bridge": ROSE, "host": STAYED})],
        keyed={"netns-flowgen/bridge/download/0/against-process": r"\textminus{}", "isolated/reached": "0"},
    ),
    "multi-host": Case(
        *(_between("multi-host"), "throughput change", _BETWEEN),
        also=[("latency change", "driver", {"overlay": ROSE, "nat": STAYED})],
    ),
    "packet-size": Case(
        *(_between("packet-size"), "throughput change", _BETWEEN),
        also=[
            (f"{name}_share", "driver", dict.fromkeys(_BETWEEN, share))
            for name, share in (("busiest", 1.0), ("others", 0.1), ("softirq", 0.8))
        ],
    ),
    "virtualization": Case(
        *(_kinds, "change", {"overlay, user-mode Linux": FELL, "process, user-mode Linux": STAYED}, "network"),
        also=[("throughput change", "kind", {"namespaces": FELL, "user-mode Linux": FELL})],
        keyed={"uml-sockperf/overlay/tcp/256/against-namespaces": _MINUS_30},
    ),
    "containerization": Case(
        *(_contained, "change", _BESIDE),
        keyed={
            "netns-stress-ng-cpu/bridge/one-host/cpu/cpu": "2.",
            "netns-stress-ng-cpu/bridge/one-host/cpu/against-process": _MINUS_30,
        },
    ),
    "networks": Case(
        *(_networks, "change", {"bridge": FELL, "ovs": STAYED, "overlay": FELL, "nat": STAYED}),
        also=[
            ("latency_p50_s", "driver", {"p2p": 10e-6, "overlay": 10e-6 / LESS}),
            ("latency_p99_s", "driver", {"p2p": 100e-6, "overlay": 100e-6 / LESS}),
        ],
        keyed={"netns-flowgen/overlay/2/4/change": _MINUS_30, "netns-rr/overlay/2/1/p50": "14."},
    ),
    "cost": Case(
        *(_cost, "change", _BETWEEN),
        keyed={"netns-flowgen/overlay/2/1/change": _MINUS_30, "netns-flowgen/overlay/2/1/udp-demand": r"35.3\,µs"},
    ),
    "dc-simulation": Case(
        *(_traffic, "to host", _BETWEEN),
        keyed={"netns-traffic/overlay/closed-loop/against-host": _MINUS_30, "m/heavy/overlay/over-host": r"+20.1 \%"},
    ),
}
