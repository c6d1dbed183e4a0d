"""Small runs of the experiments beside plain throughput, with known effects, made without measuring anything."""

from itertools import product
from pathlib import Path

import numpy as np

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from tests.support.synthetic import facts_of, measured_at

LEAD = {"bridge": 1.0, "macvlan": 1.13, "ovs": 1.22}
DRIVERS = tuple(LEAD)
BACKENDS = ("netns", "docker")


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


def _write(root: Path, cells, *, backends=BACKENDS, drivers=DRIVERS, repetitions=3, columns=None, seed=7) -> Path:
    """cells: each (what it multiplies the total by, concentration of the shares, spec), visited once per repetition."""
    random = np.random.default_rng(seed)
    for backend, repetition in product(backends, range(repetitions)):
        drift = random.normal(1, 0.03)
        for driver in drivers:
            for factor, evenness, spec in cells(driver):
                spec = dict(spec)
                failed = spec.pop("failed", 0) * (repetition == 0)
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


def write_retransmissions(root: Path, *, pairs=12, none_at=("docker",), **how) -> Path:
    """The more a client sends the more it retransmits, but in the backends of `none_at` nothing is.

    The namespace counts 2 segments more than the tool of every client, the sockets as many.
    """
    backends = how.pop("backends", BACKENDS)

    def cells(driver):
        yield 1.0, 8, {"experiment": "retransmissions", "pairs": pairs}

    def counts(random, rates):
        told = np.round(200 * rates / rates.mean() * random.normal(1, 0.2, len(rates)))
        return {"retransmits": told, "netns_retransmits": told + 2, "diag_retransmits": told}

    def nothing(random, rates):
        return dict.fromkeys(("retransmits", "netns_retransmits", "diag_retransmits"), np.zeros(len(rates)))

    for backend in backends:
        _write(root, cells, backends=(backend,), columns=nothing if backend in none_at else counts, **how)
    return root


def write_core_ratio(root: Path, *, fct=True, **how) -> Path:
    """On 2 cores 4, 8 and 16 containers, and 8 on one core: throughput halves and FCT doubles with the ratio.

    The drivers lie further apart the larger the ratio; cores=0 is asked for where both of the host's are meant.
    """
    spread = {"bridge": 0.0, "macvlan": 0.5, "ovs": 1.0}

    def throughput(driver):
        for pairs, cores in ((2, 0), (4, 0), (8, 0), (4, 1)):
            ratio = 2 * pairs / (cores or 2)
            factor = (1 + spread[driver] * ratio / 20) / (ratio / 2) * pairs / 2
            yield factor, 50, {"experiment": "core-ratio", "pairs": pairs, "cores": cores}

    _write(root, throughput, **how)
    if not fct:
        return root

    def completion(driver):
        for factor, evenness, spec in throughput(driver):
            yield factor, evenness, spec | {"flow_bytes": 5_000_000, "duration_s": 30.0}

    def times(random, rates):
        return {"fct_s": 0.04 / rates, "size_bytes": np.full(len(rates), 5e6)}

    return _write(root, completion, columns=times, **how)


def write_message_size(root: Path, *, sizes=(64, 1024, 16384, 65536), workloads=("sockperf", "flowgen"), **how) -> Path:
    """The total grows with the square root of the message size; one flow of macvlan failed."""

    def cells(driver):
        for workload in workloads:
            for size in sizes:
                odd = {"failed": 1} if (driver, size) == ("macvlan", sizes[0]) else {}
                told = {"experiment": "message-size", "pairs": 4, "workload": workload, "message_bytes": size}
                yield (size / 65536) ** 0.5, 40, told | odd

    return _write(root, cells, **how)


#: A quota evens out what the clients get and costs a fifth of the total; shares do nothing.
REMEDIES = ({}, {"cpu_quota": 0.2}, {"cpu_shares": 512})


def write_beyond(root: Path, *, remedies=REMEDIES, controls=("", "bbr"), flows=(1, 4), mtus=(9000,), **how) -> Path:
    """Throughput runs that go beyond plain ones: remedies, congestion controls, several flows per pair, and MTUs."""

    def cells(driver):
        special = [*remedies, *({"congestion_control": name} for name in controls if name)]
        special += [{"flows_per_pair": count} for count in flows if count > 1]
        special += [{"mtu_bytes": size} for size in mtus]
        for spec in special:
            quota = "cpu_quota" in spec
            yield 0.8 if quota else 1.0, 4000 if quota else 20, {"pairs": 6} | spec

    return _write(root, cells, **how)


def write_udp(root: Path, *, shares=(0.0, 0.5), **how) -> Path:
    """Half of the clients send UDP and take a third from TCP; 2 % of it is lost and 0.1 % overtaken."""
    backends, drivers = how.pop("backends", BACKENDS), how.pop("drivers", DRIVERS)
    random = np.random.default_rng(3)
    datagrams = {"sent": 1e5, "received": 98e3, "lost": 2e3, "reordered": 98.0}
    for backend, repetition, driver, share in product(backends, range(how.get("repetitions", 3)), drivers, shares):
        protocols = ["udp" if pair < 4 * share else "tcp" for pair in range(4)]
        rates = [1.0 if name == "udp" else 3.0 * (2 / 3 if share else 1) for name in protocols]
        counts = {
            f"datagrams_{what}": [count if name == "udp" else None for name in protocols]
            for what, count in datagrams.items()
        }
        rates = [rate * random.normal(1, 0.02) for rate in rates]
        cell = {"backend": backend, "driver": driver, "repetition": repetition, "udp_share": share}
        made = client_run(rates, columns={"protocol": protocols, **counts}, experiment="udp", **cell)
        store.write(made, root)
    return root
