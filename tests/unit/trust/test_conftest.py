"""What conftest.py has all tests do."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.booleans())
@settings(max_examples=2)
def test_a_slow_machine_breaks_no_property(example):
    time.sleep(0.3)  # by itself, hypothesis allows 0.2 s
