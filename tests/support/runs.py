"""Made-up runs for tests of the store, and ways to spoil them."""

import errno
import json
from datetime import UTC, datetime, timedelta

from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table

WHEN = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)


def block_of(repetition):
    """The label of a block: cells of one repetition are measured side by side."""
    return f"{WHEN + repetition * timedelta(hours=1):%Y-%m-%dT%H:%M:%S.%fZ} made up"


def made_up(rate_bps=1e9, *, status="ok", reasons=(), host="a machine", environment=None, at=WHEN, raw=None, **spec):
    """A run with one flow of that rate."""
    spec = Spec(**{"duration_s": 2.0} | spec)
    rows = (
        [] if status in ("failed", "skipped") else [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": rate_bps}]
    )
    times = {"up_s": 0.25}
    facts = {"host": {"fingerprint": host}, "block": block_of(spec.repetition)}
    if environment:
        model = environment.host.removesuffix(", 2 CPUs")
        known = {"cpu_model": model, "cpus": 2, "machine": environment.machine, "kernel": environment.kernel}
        facts |= {
            "host": facts["host"] | known,
            "versions": {spec.workload: environment.tool},
            "code": environment.code,
        }
    return Run(spec, status, reasons, at, 0.001, 0.02, times, facts, flows=table("flows", rows), raw=raw or {})


def rate_of(run):
    return run.flows["throughput_bps"][0]


def files_below(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


class Failing:
    """Stands in for a function; its n-th call fails."""

    def __init__(self, real, error, call=1):
        self.real, self.error, self.call, self.calls = real, error, call, 0

    def __get__(self, instance, owner):
        return lambda *arguments, **named: self(instance, *arguments, **named)

    def __call__(self, *arguments, **named):
        self.calls += 1
        if self.calls == self.call:
            raise self.error
        return self.real(*arguments, **named)


FULL = OSError(errno.ENOSPC, "No space left on device")


def rewrite_head(place, **changes):
    head = json.loads((place / "run.json").read_text())
    (place / "run.json").write_text(json.dumps({**head, **changes}))


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
