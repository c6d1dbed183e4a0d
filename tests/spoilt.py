"""What a machine that does other things, too, may spoil, whatever we do: such a run is measured again."""

from pairlab import measure
from pairlab.verdict import CHECKS

UP_TO_THE_MACHINE = {"skew_s", "overlap", "foreign_cpu", "steal", "clock_step_s", "throttled", "frequency_change"}
UP_TO_THE_MACHINE |= {"telemetry_missed", "settled"}
ATTEMPTS = 3


def spoilt_by_the_machine(run):
    """Whether it is invalid for nothing else."""
    why = [name for name, check in CHECKS.items() if check.reason(run.checks.get(name), run.spec)]
    return run.status == "invalid" and len(why) == len(run.reasons) and UP_TO_THE_MACHINE.issuperset(why)


def measured(spec, **options):
    """The run of measure(spec, ...): of those that the machine did not spoil the first, of others the last."""
    for _ in range(ATTEMPTS):
        run = measure(spec, fresh=True, **options)
        if not spoilt_by_the_machine(run):
            break
    return run
