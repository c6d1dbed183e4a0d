"""Small runs of the experiments beside plain throughput, with known effects, made without measuring anything."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pairlab import store
from pairlab.records import Run, table
from pairlab.spec import Spec

from .synthetic import FACTS

LEAD = {"bridge": 1.0, "macvlan": 1.13, "ovs": 1.22}
DRIVERS = tuple(LEAD)
BACKENDS = ("netns", "docker")


def client_run(rates_gbps, *, failed=0, columns=None, **spec) -> Run:
    """A run in which each client's flows carry these rates; the last `failed` flows failed.

    columns: more columns of the table flows, each with a value per client.
    """
    spec = Spec(**{"workload": "flowgen", "pairs": len(rates_gbps), "duration_s": 2.0} | spec)
    rows = []
    for pair, rate in enumerate(rates_gbps):
        for flow in range(spec.flows_per_pair):
            row = {"pair": pair, "flow": flow, "status": "ok", "protocol": "tcp", "duration_s": spec.duration_s}
            row["throughput_bps"] = rate * 1e9 / spec.flows_per_pair
            rows.append(row | {name: values[pair] for name, values in (columns or {}).items()})
    for row in rows[len(rows) - failed :]:
        row.clear()
    for number, row in enumerate(rows):
        if not row:
            pair, flow = divmod(number, spec.flows_per_pair)
            row.update({"pair": pair, "flow": flow, "status": "failed", "error": "connection refused"})
    when = datetime(2024, 5, 1, 12, spec.repetition, tzinfo=UTC)
    return Run(spec, "ok", (), when, 0.001, facts=FACTS, flows=table("flows", rows))


def _write(root: Path, cells, *, backends=BACKENDS, drivers=DRIVERS, repetitions=3, columns=None, seed=7) -> Path:
    """cells: each (what it multiplies the total by, concentration of the shares, spec), visited once per repetition."""
    random = np.random.default_rng(seed)
    for backend in backends:
        for repetition in range(repetitions):
            drift = random.normal(1, 0.03)
            for driver in drivers:
                for factor, evenness, spec in cells(driver):
                    spec = dict(spec)
                    failed = spec.pop("failed", 0) if repetition == 0 else spec.pop("failed", 0) * 0
                    total = 20 * LEAD.get(driver, 1.3) * drift * random.normal(1, 0.01) * factor
                    total *= 0.8 if backend == "docker" else 1
                    rates = total * random.dirichlet([evenness] * spec["pairs"])
                    more = columns(random, rates) if columns else None
                    told = {"backend": backend, "driver": driver, "repetition": repetition} | spec
                    store.write(client_run(rates, failed=failed, columns=more, **told), root)
    return root


def write_pinning(root: Path, *, policies=("none", "same-core", "different-cores"), **how) -> Path:
    """Bridge loses 13 % on the same core, Open vSwitch gains 21 % on different ones; one flow of macvlan failed."""
    gain = {("bridge", "same-core"): 0.87, ("ovs", "different-cores"): 1.21}

    def cells(driver):
        for policy in policies:
            odd = {"failed": 1} if (driver, policy) == ("macvlan", "same-core") else {}
            yield gain.get((driver, policy), 1.0), 30, {"experiment": "pinning", "pairs": 4, "pinning": policy} | odd

    return _write(root, cells, **how)
