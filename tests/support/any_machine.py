"""What is measured in this process counts unless it failed: for tests of what becomes of a run, not of its numbers."""

from pairlab.measurement import measure

_judge = measure.judge


def count_disturbed_runs() -> None:
    """That this machine is busy is no fault of what is tested."""
    measure.judge = _unless_failed


def _unless_failed(*measured):
    status, reasons = _judge(*measured)
    return ("ok", []) if status == "invalid" else (status, reasons)
