"""Whether processes that have begun to send do so at full rate."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing

from pairlab.testbed.host.link_telemetry import LinkCounter, may_open

#: How often links are read.
EVERY_S = 0.1
#: A rate is that of so long, and steady if it is at most so much more than that of as long before.
OVER_S, MOST_RISE = 0.5, 0.1


def await_steady_rate(counters: Sequence[LinkCounter], most_s: float, pause: Callable[[float], None]) -> bool:
    """Waits until all of these links carry something, and all together no longer more and more.

    most_s: how long at most. pause: waits so many seconds. Returns whether they do; False also where a link cannot be
    seen.
    """
    if not may_open(len(counters)):
        return False
    seen: deque[tuple[float, list[int]]] = deque(maxlen=2 * round(OVER_S / EVERY_S) + 1)
    with ExitStack() as stack:
        for each in counters:
            stack.enter_context(closing(each))
            each.open()
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < most_s:
            sent_bytes = [each.sent_bytes() for each in counters]
            if None in sent_bytes:
                return False
            seen.append((time.monotonic(), [each or 0 for each in sent_bytes]))
            if len(seen) == seen.maxlen and is_steady(seen):
                return True
            pause(EVERY_S)
    return False


def is_steady(seen: Sequence[tuple[float, Sequence[int]]]) -> bool:
    """Whether all links carried something in the later half of these samples, and all together hardly more than before.

    seen: moments in s, each with the bytes that each link had sent by then; an odd number of them.
    """
    (begun_s, first), (middle_s, middle), (end_s, last) = (seen[place] for place in (0, len(seen) // 2, -1))
    if not all(now > before for before, now in zip(middle, last, strict=True)):
        return False
    earlier_bps, later_bps = (
        8 * (sum(after) - sum(before)) / took_s
        for before, after, took_s in ((first, middle, middle_s - begun_s), (middle, last, end_s - middle_s))
    )
    return later_bps <= (1 + MOST_RISE) * earlier_bps
