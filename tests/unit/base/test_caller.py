"""What a process asks of those that it starts."""

import pytest

from pairlab.base.caller import VARIABLE, Caller, caller, caller_with
from pairlab.errors import BadInput


def test_who_is_in_the_block_is_asked_what_was_before_and_more():
    with caller_with(attempts=3), caller_with(wait=False):
        assert caller() == Caller(attempts=3, wait=False)
    assert caller() == Caller()


@pytest.mark.parametrize("value", ["", "x", "3", '{"tries": 3}'])
def test_a_variable_that_a_user_has_set_is_refused_and_named(monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(
        BadInput, match=f"{VARIABLE} is set by pairlab for its own processes, and is damaged .*unset it"
    ):
        caller()
