"""Small runs with known numbers, made without measuring anything."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table

FACTS = {
    "host": {
        "fingerprint": "made-up",
        "kernel": "6.1.0-test_1",
        "cpu_model": "Model & Maker 100% #1",
        "cpus": 2,
        "memory_bytes": 4 * 2**30,
        "virtualization": "none",
    },
    "network": {"tcp_congestion_control": "cubic"},
}


def measured_at(spec):
    """When a made-up run was measured."""
    return datetime(2024, 5, 1, 12, spec.repetition, tzinfo=UTC)


def facts_of(spec):
    """What a made-up run records: cells of one repetition are measured side by side."""
    return FACTS | {"block": f"{measured_at(spec):%Y-%m-%dT%H:%M:%S.%fZ} made up"}


def run(rates_gbps, *, status="ok", reasons=(), failed=0, **spec) -> Run:
    """A run whose flows carry these rates; the last `failed` of them failed."""
    spec = Spec.stored({"workload": "flowgen", "pairs": len(rates_gbps), "duration_s": 2.0} | spec)
    good = {"status": "ok", "duration_s": spec.duration_s}
    rows = [{"pair": pair, "flow": 0, "throughput_bps": rate * 1e9} | good for pair, rate in enumerate(rates_gbps)]
    for pair in range(len(rows) - failed, len(rows)):
        rows[pair] = {"pair": pair, "flow": 0, "status": "failed", "error": "connection refused"}
    return Run(spec, status, reasons, measured_at(spec), 0.001, facts=facts_of(spec), flows=table("flows", rows))


def client_run(rates_gbps, *, failed=0, columns=None, **spec) -> Run:
    """A run in which each client's flows carry these rates; the last `failed` flows failed.

    columns: more columns of the table flows, each with a value per client, on each of its flows.
    """
    spec = Spec(**{"workload": "flowgen", "pairs": len(rates_gbps), "duration_s": 2.0} | spec)
    rows = []
    for pair, rate in enumerate(rates_gbps):
        for flow in range(spec.flows_per_pair):
            row = {"pair": pair, "flow": flow, "status": "ok", "protocol": "tcp", "duration_s": spec.duration_s}
            row["throughput_bps"] = rate * 1e9 / spec.flows_per_pair
            rows.append(row | {name: values[pair] for name, values in (columns or {}).items()})
    for number in range(len(rows) - failed, len(rows)):
        pair, flow = divmod(number, spec.flows_per_pair)
        rows[number] = {"pair": pair, "flow": flow, "status": "failed", "error": "connection refused"}
    return Run(spec, "ok", (), measured_at(spec), 0.001, facts=facts_of(spec), flows=table("flows", rows))


def bulk(rates_gbps, *, retransmits=None, busy=None, iowait=0.0, **spec) -> Run:
    """A run of flows without an end, with their retransmits and the share of time that both CPUs were busy."""
    made = run(rates_gbps, **spec)
    made.flows["start_s"] = 0.0
    if retransmits is not None:
        made.flows["retransmits"] = np.asarray(retransmits, dtype=float)
    rest = [] if busy is None else [(0.0, 1.0, busy), (1.0, 2.0, busy), (5.0, 6.0, 0.0)]  # the last one: afterwards
    samples = [
        {"cpu": cpu, "start_s": begin, "end_s": end, "idle": 1 - share - iowait, "iowait": iowait}
        for begin, end, share in rest
        for cpu in (0, 1)
    ]
    return replace(made, cpu=table("cpu", samples))


def ending(fcts_s, *, roles=None, failed=0, **spec) -> Run:
    """A run of flows that end after these times; the last `failed` of them failed."""
    asked = {"workload": "flowgen", "pairs": len(fcts_s), "flow_bytes": 5_000_000, "experiment": "fct"}
    if roles is not None:
        asked |= {"elephant_share": 0.2, "elephant_bytes": 50_000_000, "experiment": "elephant-mice"}
    spec = Spec(**{**asked, **spec})
    rows = []
    for pair, fct in enumerate(fcts_s):
        row = {"pair": pair, "flow": 0, "role": roles[pair] if roles is not None else "", "status": "ok"}
        if pair < len(fcts_s) - failed:
            row |= {"fct_s": fct, "start_s": 0.0, "completed_s": fct, "throughput_bps": spec.flow_bytes * 8 / fct}
        else:
            row |= {"status": "failed", "error": "not complete in time"}
        rows.append(row)
    return Run(spec, "ok", (), measured_at(spec), 0.001, facts=facts_of(spec), flows=table("flows", rows))


def transacting(latencies_s, *, lost=0, failed=0, **spec) -> Run:
    """A run of one client's transactions: how many took how long, and how many were lost; failed: flows besides."""
    spec = Spec.stored({"workload": "rr", "pairs": 1 + failed, "duration_s": 1.0} | spec)
    answered = {"transactions": sum(latencies_s.values()), "transactions_lost": lost, "transactions_failed": 0}
    rows = [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 2e9, "duration_s": spec.duration_s, **answered}]
    rows += [{"pair": 1 + each, "flow": 0, "status": "failed", "error": "broke"} for each in range(failed)]
    buckets = [{"pair": 0, "flow": 0, "latency_s": each, "count": count} for each, count in latencies_s.items()]
    tables = {"flows": table("flows", rows), "transactions": table("transactions", buckets)}
    return Run(spec, "ok", (), measured_at(spec), 0.001, facts=facts_of(spec), **tables)


def write_campaign(
    root: Path,
    *,
    backends=("netns", "docker"),
    drivers=("bridge", "macvlan", "ovs"),
    pairs=(1, 2, 5, 10),
    repetitions=3,
) -> Path:
    """A whole campaign with some drift, one failed flow and one invalid run; the same at every call."""
    random = np.random.default_rng(7)
    lead = {"bridge": 1.0, "macvlan": 1.13, "ovs": 1.22}
    odd = {
        ("ovs", pairs[-1], 0): {"failed": 1},
        ("macvlan", pairs[0], 1): {
            "status": "invalid",
            "reasons": ("the clients started within 0.200 s, not 0.100 s",),
        },
    }
    for backend, repetition in product(backends, range(repetitions)):
        drift = random.normal(1, 0.03)
        for driver, count in product(drivers, pairs):
            level = 20 * (1 - np.exp(-count / 1.5)) * (1.06 if count == 5 else 1)
            total = level * lead.get(driver, 1.3) * drift * random.normal(1, 0.02)
            total *= 0.8 if backend == "docker" else 1
            rates = total * random.dirichlet([30] * count)
            cell = {"backend": backend, "driver": driver, "repetition": repetition, "duration_s": 10.0}
            store.write(run(rates, **cell, **odd.get((driver, count, repetition), {})), root)
    return root
