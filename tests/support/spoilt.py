"""Measurements by tests, on a machine that does other things, too: made again where only that spoilt them."""

from functools import partial

from pairlab import measure

#: As many as a sweep makes.
ATTEMPTS = 3

measured = partial(measure, fresh=True, attempts=ATTEMPTS)
