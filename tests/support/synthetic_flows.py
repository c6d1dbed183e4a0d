"""Small runs of flows that end, with known times, and of CPU use, made without measuring anything."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from tests.support.synthetic import FACTS

#: Completion times relative to bridge's.
SLOWNESS = {"bridge": 1.0, "macvlan": 0.8, "ovs": 0.7, "host": 0.5}
#: Of a flow's time in the tests: until its connection stood, and until its server had the first byte.
CONNECTED, FIRST_BYTE = 0.02, 0.1


def run_of_flows(fct_s, *, roles=None, failed=0, late_s=0.001, **spec) -> Run:
    """A run whose flows took fct_s from their actual start, which was late_s after the intended one."""
    spec = Spec(**{"experiment": "fct", "workload": "flowgen", "pairs": len(fct_s), "duration_s": 30.0} | spec)
    rows = []
    for pair, took in enumerate(fct_s):
        row = {"pair": pair, "flow": 0, "protocol": "tcp", "size_bytes": spec.flow_bytes, "intended_start_s": 0.0}
        if roles is not None:
            row |= {"role": roles[pair]}
            row["size_bytes"] = spec.elephant_bytes if roles[pair] == "elephant" else spec.flow_bytes
        if pair >= len(fct_s) - failed:
            rows.append(row | {"status": "failed", "error": "connection refused"})
            continue
        row |= {"status": "ok", "start_s": late_s, "completed_s": late_s + took, "fct_s": took}
        row |= {"intended_fct_s": late_s + took, "duration_s": took, "flow_bytes": row["size_bytes"]}
        row["throughput_bps"] = row["size_bytes"] * 8 / took
        if spec.workload == "flowgen":
            row |= {"connected_s": late_s + CONNECTED * took, "first_byte_s": late_s + FIRST_BYTE * took}
        rows.append(row)
    when = datetime(2024, 5, 1, 12, spec.repetition, tzinfo=UTC)
    return Run(spec, "ok", (), when, late_s, facts=FACTS, flows=table("flows", rows))


def write_fct(
    root: Path,
    *,
    backends=("netns", "docker"),
    workloads=("flowgen", "netcat"),
    drivers=("bridge", "macvlan", "ovs", "host"),
    pairs=(10, 50),
    repetitions=5,
    failed=True,
) -> Path:
    """E4: times grow by 1.3 from 10 to 50 pairs; netcat's are 5 % longer; one flow of ovs failed. Always the same."""
    random = np.random.default_rng(5)
    for backend in backends:
        for repetition in range(repetitions):
            drift = random.normal(1, 0.02)
            for workload in workloads:
                for driver in drivers:
                    for count in pairs:
                        middle = 0.1 * SLOWNESS[driver] * (1.3 if count >= 50 else 1) * drift
                        middle *= 1.05 if workload == "netcat" else 1
                        times = middle * random.lognormal(0, 0.3, count)
                        store.write(
                            run_of_flows(
                                times,
                                failed=int(failed and (driver, count, repetition) == ("ovs", pairs[-1], 0)),
                                backend=backend,
                                workload=workload,
                                driver=driver,
                                repetition=repetition,
                                flow_bytes=5_000_000,
                            ),
                            root,
                        )
    return root


def write_elephants(
    root: Path, *, backends=("netns", "docker"), drivers=("bridge", "macvlan", "ovs"), pairs=(10, 50), repetitions=5
) -> Path:
    """E5: mice take twice E4's times and differ little between drivers; elephants ten times, and differ as E4's do."""
    random = np.random.default_rng(6)
    for backend in backends:
        for repetition in range(repetitions):
            for driver in drivers:
                for count in pairs:
                    roles = ["elephant" if pair < count // 5 else "mouse" for pair in range(count)]
                    slow = [SLOWNESS[driver] if role == "elephant" else SLOWNESS[driver] ** 0.25 for role in roles]
                    size = np.array([1.0 if role == "elephant" else 0.2 for role in roles])
                    times = size * slow * random.lognormal(0, 0.2, count) * (1.3 if count >= 50 else 1)
                    store.write(
                        run_of_flows(
                            times,
                            roles=roles,
                            experiment="elephant-mice",
                            backend=backend,
                            driver=driver,
                            repetition=repetition,
                            flow_bytes=5_000_000,
                            elephant_share=0.2,
                            elephant_bytes=50_000_000,
                        ),
                        root,
                    )
    return root


def write_cpu(
    root: Path,
    *,
    backends=("netns",),
    drivers=("bridge", "ovs"),
    pairs=(1, 2, 5, 10),
    repetitions=4,
    idle=(0.5, 0.2, 0.01, 0.01),
    workload="flowgen",
) -> Path:
    """E1 with CPU use on two CPUs: idle by pair count, the rest half system time; 10 Gbit/s times what is busy."""
    random = np.random.default_rng(8)
    for backend in backends:
        for repetition in range(repetitions):
            for driver in drivers:
                for count, free in zip(pairs, idle, strict=True):
                    spec = Spec(
                        backend=backend,
                        driver=driver,
                        pairs=count,
                        workload=workload,
                        duration_s=2.0,
                        warmup_s=0.5,
                        repetition=repetition,
                    )
                    still = float(np.clip(free + random.normal(0, 0.002), 0, 1))
                    rate = 10e9 * (1 - still) * (1.2 if driver == "ovs" else 1) / count
                    flows = [
                        {
                            "pair": pair,
                            "flow": 0,
                            "status": "ok",
                            "start_s": 0.0,
                            "duration_s": 2.0,
                            "throughput_bps": rate,
                            "flow_bytes": rate * 2.0 / 8,
                            "client_cpu_s": 0.2 / count,
                            "server_cpu_s": 0.4 / count,
                        }
                        for pair in range(count)
                    ]
                    intervals = [
                        {
                            "pair": pair,
                            "flow": 0,
                            "start_s": begin,
                            "end_s": end,
                            "interval_bytes": rate * (end - begin) / 8,
                            "warmup": end <= 0.5,
                        }
                        for pair in range(count)
                        for begin, end in ((0.0, 0.5), (0.5, 2.5))
                    ]
                    cpu = []
                    for number in range(2):
                        for begin, free_now in ((-0.5, 1.0), (0.0, 1.0), (0.5, still), (1.5, still), (2.5, 1.0)):
                            busy = 1 - free_now
                            sample = {"cpu": number, "start_s": begin, "end_s": begin + (0.5 if begin < 0.5 else 1.0)}
                            shares = {"usr": 0.1, "sys": 0.5, "softirq": 0.35, "irq": 0.0, "steal": 0.05}
                            sample |= {part: share * busy for part, share in shares.items()}
                            cpu.append(sample | {"iowait": 0.0, "idle": free_now})
                    when = datetime(2024, 5, 1, 12, repetition, tzinfo=UTC)
                    store.write(
                        Run(
                            spec,
                            "ok",
                            (),
                            when,
                            0.001,
                            facts=FACTS,
                            flows=table("flows", flows),
                            intervals=table("intervals", intervals),
                            cpu=table("cpu", cpu),
                        ),
                        root,
                    )
    return root


def write_starting(
    root: Path,
    *,
    explained: float,
    backends=("netns",),
    drivers=("bridge", "ovs"),
    pairs=(10, 50),
    spacings_s=(0.0, 0.03, 0.057),
    repetitions=10,
    growth=4.0,
    stated=1.31,
) -> Path:
    """Starting: from 10 to 50 pairs times grow by `growth` together, and apart by so much less.

    explained: the part of the difference to the stated growth, as logarithms, that goes with a spacing of 57 ms; with
    30 ms it is half of that.
    """
    random = np.random.default_rng(9)
    for backend in backends:
        for repetition in range(repetitions):
            drift = random.normal(1, 0.02)
            for driver in drivers:
                for count in pairs:
                    for spacing_s in spacings_s:
                        gone = explained * (0 if not spacing_s else 1 if spacing_s > 0.05 else 0.5)
                        grown = growth * (stated / growth) ** gone if count == pairs[-1] else 1.0
                        times = 0.1 * SLOWNESS[driver] * grown * drift * random.lognormal(0, 0.1, count)
                        how = {"backend": backend, "driver": driver, "repetition": repetition}
                        asked = {"experiment": "starting", "flow_bytes": 5_000_000, "start_spacing_s": spacing_s}
                        store.write(run_of_flows(times, **how, **asked), root)
    return root
