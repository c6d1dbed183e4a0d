"""The proof that the host is as it was before a test, and how long it took to be.

Where others use pairlab on the host meanwhile, ours is what inherited this session's mark (tests.support.host).
PAIRLAB_SHARED_HOST=1 in the environment: what bears no sign of whose it is does not count, as others have much that
comes and goes, such as a Docker daemon of their own. Without it, it counts if it stays.
"""

import os
import time

from pairlab.testbed.audit import snapshot
from pairlab.testbed.audit.view import OURS
from tests.support import host

assert host.MARK  # the mark is set where that module is imported

SHARED = os.environ.get("PAIRLAB_SHARED_HOST") == "1"


def differences(before):
    """What is held against us now: ours, and what nobody is known to own."""
    return snapshot.counted(snapshot.diff(before, snapshot.take()), ours_only=SHARED)


def wait_clean(before, timeout_s=5.0):
    """Waits until nothing differs from that snapshot; returns how long that took, in seconds.

    Raises AssertionError with the list where something still differs at the end of the time. The time is that at which
    the host was looked at and found clean, so looking itself does not count. Ours must be gone; of what bears no sign
    that is so when it does not stay: on a shared host other people's things come and go.
    """
    begun = time.monotonic()
    stays = None
    while True:
        passed_s = time.monotonic() - begun
        left = differences(before)
        ours = [each for each in left if each.whose == OURS]
        unknown = {each for each in left if each.whose != OURS}
        stays = unknown if stays is None else stays & unknown
        if not ours and not stays:
            return passed_s
        if passed_s > timeout_s:
            listed = "\n".join(f"  {each} [{each.whose}]" for each in [*ours, *stays])
            raise AssertionError(f"not as it was after {passed_s:.1f} s:\n{listed}")
        time.sleep(0.05)  # a look takes longer than that
