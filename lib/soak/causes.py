"""Attacks at random on measurements that are repeated undisturbed: of those that say ok, how many tell another number?

An attack stops processes of any role for moments, for long, or once, freezes their control group, or takes their CPUs:
by ordinary load, by load of real-time class, by processes too short to be seen, by a quota, or by moving them all to
one CPU; or two of these at once. Undisturbed runs of the same spec are measured in turn with them. *Wrong* is a run
that is ok and whose quantity lies outside the interval that holds 95 % of the undisturbed ones (Student's, for one
further value), by more than 5 %; a quantile of latencies that is an upper bound (others.upper_bounds) is wrong where
it is less than that.
"""

import contextlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from pairlab import Run, Spec
from pairlab.errors import PairlabError
from pairlab.measurement.checks import unmet
from pairlab.model import latencies, others
from pairlab.model.summaries import summaries
from pairlab.testbed.host import cgroups
from tests.support import evidence
from tests.support.disturbances import (
    Disturbance,
    Testbed,
    in_turns,
    measured_under,
    nothing,
    quota,
    stopped_in_turns,
    tools,
)

TIMED = {"interval_s": 0.1, "duration_s": 2.0, "driver": "bridge"}
#: What is measured, with the quantity that must be right. Links of 1 Gbit/s leave the CPUs with little to do.
SPECS: dict[str, tuple[Spec, str]] = {
    "bulk": (Spec(workload="flowgen", pairs=2, **TIMED), "total_bps"),
    "bulk, slow links": (Spec(workload="flowgen", pairs=2, link_rate_bps=1e9, **TIMED), "total_bps"),
    "flows with an end": (Spec(workload="flowgen", pairs=2, flow_bytes=100_000_000, **TIMED), "fct_median_s"),
    "requests": (Spec(workload="rr", pairs=2, **TIMED), "latency_p50_s"),
    "requests, the slowest": (Spec(workload="rr", pairs=2, requests_per_s=1000, **TIMED), "latency_p99_s"),
    "datagrams": (
        Spec(workload="flowgen", pairs=2, udp_share=1.0, udp_rate_bps=5e7, message_bytes=1000, **TIMED),
        "total_bps",
    ),
    "beside a background": (Spec(workload="flowgen", pairs=2, background_pairs=1, **TIMED), "total_bps"),
    "beside busy workers": (Spec(workload="flowgen", pairs=2, interference_workers=1, **TIMED), "total_bps"),
    "iperf3 over a switch": (Spec(workload="iperf3", pairs=2, **TIMED | {"driver": "ovs"}), "total_bps"),
    "sockperf": (Spec(workload="sockperf-ping-pong", pairs=1, **TIMED), "latency_p50_s"),
    "open loop": (
        Spec(workload="traffic", pairs=2, flow_sizes="uniform", offered_load_bps=5e8, **TIMED),
        "fct_median_s",
    ),
}
#: Of so many measurements of a spec one is undisturbed; and how far a wrong number is off at least.
UNDISTURBED_OF, LEAST = 2, 0.05
#: Busy for a share of each period, until its input ends: argv has the number of processes, both, and the class.
LOAD = """
import os, signal, sys, threading, time
count, share, period_s, kind = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
if kind == "real-time":
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
print("busy", flush=True)
for _ in range(count - 1):
    if not os.fork():
        break
threading.Thread(target=sys.stdin.read, daemon=True).start()
while threading.active_count() > 1:
    until = time.monotonic() + share * period_s
    if kind == "unseen":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        if not (pid := os.fork()):
            while time.monotonic() < until:
                pass
            os._exit(0)
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass
    while time.monotonic() < until:
        pass
    time.sleep((1 - share) * period_s)
"""


class Attack(NamedTuple):
    form: str
    disturbance: Disturbance
    begins_s: float
    lasts_s: float


NOTHING = Attack("nothing", nothing, 0.0, 0.1)


def some_stopped(chance: random.Random, spec: Spec) -> Disturbance:
    roles = chance.sample(["clients", "servers", "beside"], chance.choice([1, 1, 2]))
    which = chance.choice([slice(None), slice(1)])
    period_s = 10 ** chance.uniform(-3, math.log10(spec.total_s))
    share = chance.uniform(0.02, 0.95)
    # Where there are none beside, clients are.
    return stopped_in_turns(
        lambda bed: [each for role in roles for each in getattr(bed, role)[which]] or bed.clients,
        share * period_s,
        (1 - share) * period_s,
    )


def load(kind: str) -> Callable[[random.Random, Spec], Disturbance]:
    def chosen(chance: random.Random, spec: Spec) -> Disturbance:
        words = [chance.choice([1, 1, 2, 4]), chance.uniform(0.02, 0.95), 10 ** chance.uniform(-2.5, 0), kind]

        @contextlib.contextmanager
        def beside(bed: Testbed) -> Iterator[None]:
            argv = [sys.executable, "-c", LOAD, *map(str, words)]
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout.readline() == "busy\n"
                yield
                process.stdin.close()

        return beside

    return chosen


def moved(chance: random.Random, spec: Spec) -> Disturbance:
    """All clients and servers may run on one CPU only, from then on."""

    @contextlib.contextmanager
    def on_one_cpu(bed: Testbed) -> Iterator[None]:
        for each in tools([*bed.clients, *bed.servers]):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(each.pid, {min(os.sched_getaffinity(0))})
        yield

    return on_one_cpu


def frozen(chance: random.Random, spec: Spec) -> Disturbance:
    """Of version 1, as Docker's; nothing where there is none."""
    freezers = [each for each in cgroups.mounts() if each.kind == "cgroup" and "freezer" in each.options]
    role = chance.choice(["clients", "servers"])
    halted_s = chance.choice([None, 10 ** chance.uniform(-2, -0.3)])

    @contextlib.contextmanager
    def disturbance(bed: Testbed) -> Iterator[None]:
        if not freezers:
            yield
            return
        home = Path(freezers[0].where)
        group = home / f"pairlab-soak-{os.getpid()}"
        group.mkdir()
        state = group / "freezer.state"
        found = tools(getattr(bed, role)[:1])

        for each in found:
            _put(each.pid, group)
        try:
            with in_turns(
                lambda: state.write_text("FROZEN"), lambda: state.write_text("THAWED"), halted_s, halted_s or 0.0
            ):
                yield
        finally:
            for each in found:
                _put(each.pid, home)
            group.rmdir()

    return disturbance


def _put(pid: int, group: Path) -> None:
    with contextlib.suppress(OSError):  # it has ended
        (group / "cgroup.procs").write_text(str(pid))


FORMS: dict[str, Callable[[random.Random, Spec], Disturbance]] = {
    "stopped": some_stopped,
    "load": load("ordinary"),
    "unseen load": load("unseen"),
    "real-time load": load("real-time"),
    "moved": moved,
    "quota": lambda chance, spec: quota,
    "frozen": frozen,
}


def random_attack(chance: random.Random, spec: Spec) -> Attack:
    """One form, or two at once; from the release on or later, to the end or not."""
    forms = chance.sample(list(FORMS), chance.choice([1, 1, 1, 2]))
    each = [FORMS[form](chance, spec) for form in forms]

    @contextlib.contextmanager
    def together(bed: Testbed) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for one in each:
                stack.enter_context(one(bed))
            yield

    begins_s = chance.choice([0.0, chance.uniform(0, 0.8) * spec.total_s])
    lasts_s = chance.choice([spec.total_s, chance.uniform(0.02, 1) * spec.total_s])
    return Attack(" and ".join(sorted(forms)), together, begins_s, lasts_s)


def measured(spec: Spec, attack: Attack, seed: int) -> Run | None:
    """None where it could not be measured, which is said by an error."""
    with tempfile.TemporaryDirectory() as root:
        try:
            run, _ = measured_under(
                spec, attack.disturbance, begins_s=attack.begins_s, lasts_s=attack.lasts_s, seed=seed, root=Path(root)
            )
        except PairlabError:
            return None
        summaries(run)  # reads its tables while they are there
        return run


def bounds(values: list[float]) -> tuple[float, float]:
    """The interval that holds a further value, at 95 %, by the logarithms."""
    logs = np.log(values)
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean() + half)


def run(record, *, quick: bool = False, first: int = 0, attacks: int = 600) -> None:
    """So many attacks; .cache/soak/causes.jsonl has each, to be looked at."""
    attacks = 2 * len(SPECS) if quick else attacks
    rows = []
    kept = evidence.CACHE / "soak" / "causes.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("w") as file:
        for seed in range(first, first + attacks):
            name = list(SPECS)[seed % len(SPECS)]
            todo = [random_attack(random.Random(seed), SPECS[name][0])]
            if seed // len(SPECS) % UNDISTURBED_OF == 0:
                todo.append(NOTHING)
            for attack in todo:
                rows.append(_row(name, attack, seed))
                file.write(json.dumps(rows[-1]) + "\n")
                file.flush()
    frame = pd.DataFrame(rows)
    quiet = frame[frame["form"] == NOTHING.form]
    attacked = frame[frame["form"] != NOTHING.form]
    wrong = [text for row in attacked[attacked["status"] == "ok"].itertuples() if (text := _how_wrong(row, quiet))]
    record("attacks", len(attacked))
    record("wrong", len(wrong))
    record("undisturbed", len(quiet))
    record("undisturbed_not_ok", int((quiet["status"] != "ok").sum()))
    for (form, status), number in attacked.groupby(["form", "status"]).size().items():
        record(f"{form}: {status}", int(number))
    for check, number in attacked["unmet"].explode().value_counts().items():
        record(f"by {check}", int(number))
    print(*wrong, sep="\n", flush=True)
    assert len(wrong) <= max(1, 0.01 * attacks), "\n".join(wrong)


def _row(name: str, attack: Attack, seed: int) -> dict[str, Any]:
    spec, quantity = SPECS[name]
    run = measured(spec, attack, seed)
    if not run:
        return {
            "spec": name,
            "form": attack.form,
            "seed": seed,
            "status": "refused",
            "value": None,
            "unmet": [],
            "at_most": False,
        }
    value = summaries(run).get(quantity)
    unmet_checks = [*unmet(run.checks, spec)]
    return {
        "spec": name,
        "form": attack.form,
        "seed": seed,
        "status": run.status,
        "value": value,
        "unmet": unmet_checks,
        "at_most": quantity in map(latencies.measure, others.upper_bounds(run)),
    }


def _how_wrong(row, quiet: pd.DataFrame) -> str:
    """How far an attacked run's number is from those of the undisturbed, in words; empty where it is right."""
    usual = quiet[(quiet["spec"] == row.spec) & (quiet["status"] == "ok")]["value"].astype(float)
    if len(usual) < 3:
        return ""
    low, high = bounds(list(usual))
    off = row.value / math.exp(np.log(usual).mean()) - 1
    right = low <= row.value <= high or abs(off) <= LEAST or (row.at_most and off > 0)
    return "" if right else f"seed {row.seed}: {row.spec}, {row.form}: {off:+.0%}"
