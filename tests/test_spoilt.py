"""Which runs of the tests are measured again."""

import pytest

from pairlab.records import Run
from pairlab.spec import Spec
from tests import spoilt

SPEC = Spec(duration_s=1)
OK = Run(SPEC, "ok")
BUSY = Run(SPEC, "invalid", ("CPU use was not sampled",), checks={"telemetry_missed": 0.3, "interface_bytes": 0.0})
WRONG = Run(SPEC, "invalid", ("late", "links carried more"), checks={"telemetry_missed": 0.3, "interface_bytes": 0.05})
LATE = Run(SPEC, "invalid", ("CPU use was not sampled", "1 connection stood late"), checks={"telemetry_missed": 0.3})
FAILED = Run(SPEC, "failed", ("all flows failed",))


@pytest.mark.parametrize(
    ("ends", "tries"),
    [([OK], 1), ([BUSY, OK], 2), ([BUSY] * 9, 3), ([WRONG, OK], 1), ([LATE, OK], 1), ([FAILED, OK], 1)],
)
def test_only_what_the_machine_alone_spoilt_is_measured_again_and_not_for_ever(ends, tries, monkeypatch):
    asked = []
    monkeypatch.setattr(spoilt, "measure", lambda spec, fresh: asked.append(spec) or ends[len(asked) - 1])
    assert spoilt.measured(SPEC) is ends[tries - 1]
    assert asked == [SPEC] * tries
