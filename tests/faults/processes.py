"""Processes of this session: found by their words, and waited for."""

import os
import time

from pairlab.testbed.cleanup import process_table

#: How long what was killed may take to be dead: flows that fill the CPUs may keep the kernel from it for seconds, see
#: pairlab/base/threads.py. Less than the flows of a test that kills it would last.
DYING_S = 25.0


def ours(*words):
    """Processes of this session with each of these words in their command line."""
    known = process_table.read_processes()
    return [
        each
        for each in known.values()
        if each.session == os.environ[process_table.SESSION]
        and all(any(word in one for one in each.words) for word in words)
    ]


def await_traffic(within_s=60.0):
    """Returns when a client of ours sends."""
    await_process(lambda: ours("flowgen", "client", "--connect"), within_s)


def await_process(find, within_s=60.0):
    deadline = time.monotonic() + within_s
    while not (found := find()):
        assert time.monotonic() < deadline, "it did not come up"
        time.sleep(0.1)  # to look at all processes takes a fifth of that, from what is waited for
    return found[0]
