"""Random disturbances of measurements: either the number is what the kernel counted, or the run does not say ok.

Nor does it where the background or the interference, beside which it was measured, stood still.
"""

import tempfile
from pathlib import Path

from pairlab.errors import PairlabError
from tests.support.disturbances import (
    DISTURBANCES,
    KINDS,
    measured_under,
    random_case,
    reported_and_true_bps,
    stood_still,
)

#: How far a total may be from what the kernel counted in its window.
BOUND = 0.03


def run(record, *, quick: bool = False, first: int = 0) -> None:
    """500 measurements, each with a disturbance of a random kind, moment and length: no wrong number with status ok."""
    least, tried = 2 * len(DISTURBANCES) if quick else 500, 0
    by_kind = dict.fromkeys(KINDS, 0)
    wrong, statuses, apart = [], dict.fromkeys(("ok", "invalid", "failed", "refused"), 0), []
    for seed in range(first, first + 4 * least):
        if tried >= least and apart:  # on a busy machine it takes more until one is ok
            break
        tried += 1
        spec, name, begins_s, lasts_s = random_case(seed)
        with tempfile.TemporaryDirectory() as root:
            try:
                found, counted = measured_under(
                    spec, DISTURBANCES[name], begins_s=begins_s, lasts_s=lasts_s, seed=seed, root=Path(root)
                )
            except PairlabError:
                statuses["refused"] += 1
                continue
            statuses[found.status] += 1
            if found.status != "ok" or found.failed_flows:
                continue
            by_kind[KINDS[seed // len(DISTURBANCES) % len(KINDS)]] += 1
            when = f"{name} from {begins_s:.2f} s for {lasts_s:.2f} s"
            if stood_still(found, counted):
                wrong.append(f"seed {seed}: {when}: what is beside stood still: {spec}")
                print(wrong[-1], flush=True)
            reported_bps, true_bps = reported_and_true_bps(found, counted)
        apart.append(reported_bps / true_bps - 1 if true_bps else float(reported_bps > 0))
        if abs(apart[-1]) > BOUND:
            wrong.append(f"seed {seed}: {when}: {apart[-1]:+.1%}: {spec}")
            print(wrong[-1], flush=True)
    record("disturbances", tried)
    for status, number in statuses.items():
        record(status, number)
    for kind, number in by_kind.items():
        record(f"ok {kind}", number)
    record("furthest_apart", max(map(abs, apart), default=0.0))
    assert not wrong, "\n".join(wrong)
    assert apart, "no run was ok: nothing was compared"
