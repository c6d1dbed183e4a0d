"""The machine's settings as a run records them."""

import base64
import zlib

import pytest

from pairlab.model.conditions import MOST_BYTES, differing, packed, unpacked

SETTINGS = {"net.core.rmem_max": "212992", "governor": "performance, powersave", "command_line": "mitigations=off"}


def test_settings_are_read_back_and_equal_ones_have_equal_texts():
    assert unpacked(packed(SETTINGS)) == SETTINGS
    assert packed(SETTINGS) == packed(dict(reversed(SETTINGS.items())))
    assert unpacked("") == {}


def of(content):
    return base64.b85encode(zlib.compress(content)).decode()


@pytest.mark.parametrize(
    "text",
    ["?", "not compressed", of(b"no json"), of(b"[]"), of(b'{"a": 1}'), of(b'{"a": "' + MOST_BYTES * b" " + b'"}')],
    ids=["no text", "not compressed", "no JSON", "a list", "a number", "too much"],
)
def test_what_holds_no_settings_is_refused(text):
    with pytest.raises(ValueError, match="it holds no conditions"):
        unpacked(text)


def test_what_a_terminal_would_obey_is_shown():
    assert unpacked(of(b'{"a\\u001b": "\\u001b[2J"}')) == {"a\\x1b": "\\x1b[2J"}


def test_settings_that_are_not_alike_are_named_with_both_values():
    first, second = [{"a": "1", "b": "2"}, {"a": "1", "b": "3"}], [{"a": "1", "b": "2", "module.loaded": "Y"}]
    assert differing(first, second) == {"b": ("2 or 3", "2")}
    assert differing(second, second) == {}
