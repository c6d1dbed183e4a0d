"""Small runs of flows that end, with known times, and of CPU use, made without measuring anything."""

from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from tests.support.synthetic import facts_of, measured_at

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
    return Run(spec, "ok", (), measured_at(spec), late_s, facts=facts_of(spec), flows=table("flows", rows))


def fct(
    *,
    backends=("netns", "docker"),
    workloads=("flowgen", "netcat"),
    drivers=("bridge", "macvlan", "ovs", "host"),
    pairs=(10, 50),
    repetitions=5,
    failed=True,
) -> Iterator[Run]:
    """`fct`: times grow by 1.3 from 10 to 50 pairs; netcat's are 5 % longer; one of ovs failed. Always the same."""
    random = np.random.default_rng(5)
    for backend, repetition in product(backends, range(repetitions)):
        drift = random.normal(1, 0.02)
        for workload, driver, count in product(workloads, drivers, pairs):
            middle = 0.1 * SLOWNESS[driver] * (1.3 if count >= 50 else 1) * drift
            middle *= 1.05 if workload == "netcat" else 1
            cell = {"backend": backend, "workload": workload, "driver": driver, "repetition": repetition}
            fails = int(failed and (driver, count, repetition) == ("ovs", pairs[-1], 0))
            times = middle * random.lognormal(0, 0.3, count)
            yield run_of_flows(times, failed=fails, flow_bytes=5_000_000, **cell)


def write_fct(root: Path, **how) -> Path:
    return write(root, fct(**how))


def write(root: Path, runs: Iterable[Run]) -> Path:
    for run in runs:
        store.write(run, root)
    return root


def elephants(
    *, backends=("netns", "docker"), drivers=("bridge", "macvlan", "ovs"), pairs=(10, 50), repetitions=5
) -> Iterator[Run]:
    """`elephant-mice`: mice take twice those times and hardly differ by driver; elephants take ten times, and do."""
    random = np.random.default_rng(6)
    sizes = {"flow_bytes": 5_000_000, "elephant_share": 0.2, "elephant_bytes": 50_000_000}
    for backend, repetition, driver, count in product(backends, range(repetitions), drivers, pairs):
        roles = ["elephant" if pair < count // 5 else "mouse" for pair in range(count)]
        slow = [SLOWNESS[driver] if role == "elephant" else SLOWNESS[driver] ** 0.25 for role in roles]
        size = np.array([1.0 if role == "elephant" else 0.2 for role in roles])
        times = size * slow * random.lognormal(0, 0.2, count) * (1.3 if count >= 50 else 1)
        cell = {"experiment": "elephant-mice", "backend": backend, "driver": driver, "repetition": repetition}
        yield run_of_flows(times, roles=roles, **cell, **sizes)


def cpu(
    *,
    backends=("netns",),
    drivers=("bridge", "ovs"),
    pairs=(1, 2, 5, 10),
    repetitions=4,
    idle=(0.5, 0.2, 0.01, 0.01),
    workload="flowgen",
) -> Iterator[Run]:
    """Throughput by pairs on two CPUs: idle by pair count, the rest half system time; 10 Gbit/s times what is busy."""
    random = np.random.default_rng(8)
    asked = {"workload": workload, "duration_s": 2.0, "warmup_s": 0.5}
    parts = {"usr": 0.1, "sys": 0.5, "softirq": 0.35, "irq": 0.0, "steal": 0.05}
    for backend, repetition, driver in product(backends, range(repetitions), drivers):
        for count, free in zip(pairs, idle, strict=True):
            spec = Spec(backend=backend, driver=driver, pairs=count, repetition=repetition, **asked)
            still = float(np.clip(free + random.normal(0, 0.002), 0, 1))
            rate = 10e9 * (1 - still) * (1.2 if driver == "ovs" else 1) / count
            flow = {"flow": 0, "status": "ok", "start_s": 0.0, "duration_s": 2.0, "throughput_bps": rate}
            flow |= {"flow_bytes": rate * 2.0 / 8, "client_cpu_s": 0.2 / count, "server_cpu_s": 0.4 / count}
            intervals = [
                {"pair": pair, "flow": 0, "start_s": begin, "end_s": end, "warmup": end <= 0.5}
                | {"interval_bytes": rate * (end - begin) / 8}
                for pair in range(count)
                for begin, end in ((0.0, 0.5), (0.5, 2.5))
            ]
            samples = ((-0.5, 0.0, 1.0), (0.0, 0.5, 1.0), (0.5, 1.5, still), (1.5, 2.5, still), (2.5, 3.5, 1.0))
            cpu = [
                {"cpu": number, "start_s": begin, "end_s": end, "iowait": 0.0, "idle": free_now}
                | {part: share * (1 - free_now) for part, share in parts.items()}
                for number in range(2)
                for begin, end, free_now in samples
            ]
            tables = {"flows": [{"pair": pair} | flow for pair in range(count)], "intervals": intervals, "cpu": cpu}
            tables = {name: table(name, rows) for name, rows in tables.items()}
            yield Run(spec, "ok", (), measured_at(spec), 0.001, facts=facts_of(spec), **tables)


def starting(
    *,
    explained: float,
    backends=("netns",),
    drivers=("bridge", "ovs"),
    pairs=(10, 50),
    spacings_s=(0.0, 0.03, 0.057),
    repetitions=10,
    growth=4.0,
    stated=1.31,
) -> Iterator[Run]:
    """Starting: from 10 to 50 pairs times grow by `growth` together, and apart by so much less.

    explained: the part of the difference to the stated growth, as logarithms, that goes with a spacing of 57 ms; with
    30 ms it is half of that.
    """
    random = np.random.default_rng(9)
    for backend, repetition in product(backends, range(repetitions)):
        drift = random.normal(1, 0.02)
        for driver, count, spacing_s in product(drivers, pairs, spacings_s):
            gone = explained * (0 if not spacing_s else 1 if spacing_s > 0.05 else 0.5)
            grown = growth * (stated / growth) ** gone if count == pairs[-1] else 1.0
            times = 0.1 * SLOWNESS[driver] * grown * drift * random.lognormal(0, 0.1, count)
            how = {"backend": backend, "driver": driver, "repetition": repetition}
            asked = {"experiment": "starting", "flow_bytes": 5_000_000, "start_spacing_s": spacing_s}
            yield run_of_flows(times, **how, **asked)
