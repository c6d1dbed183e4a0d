"""Processes that have a CPU when they want one, whatever else runs, where the kernel lets us."""

import functools

from pairlab.base.threads import run_before_flows

#: Options of subprocess.Popen.
PUNCTUAL = {"preexec_fn": functools.partial(run_before_flows, with_children=True)}
