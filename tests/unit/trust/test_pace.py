"""The bar of `make bench`."""

import io
import json
import re

import pytest
from rich.console import Console

from pairlab.progress import terminal
from tests.bench.pace import paced


@pytest.fixture
def shown(monkeypatch):
    """What the time left is said to be; the clock goes on ten seconds at each part."""
    now, left_s = [0.0], []
    monkeypatch.setattr("tests.bench.pace.time.monotonic", lambda: now[0])
    monkeypatch.setattr(terminal, "expect", lambda bars, task, seconds: left_s.append(seconds))

    def shown(parts, kept, stop=None):
        left_s.clear()
        for part in paced(parts, kept, Console(file=io.StringIO())):
            now[0] += 10
            if part == stop:
                break
        return list(left_s)

    return shown


def test_the_time_left_is_by_the_last_time_and_none_is_told_of_what_is_new(shown, tmp_path):
    kept = tmp_path / "cache" / "took.json"
    assert shown(["a", "b"], kept) == [None, None]
    assert json.loads(kept.read_text()) == {"a": 10, "b": 10}
    assert shown(["a", "b"], kept) == [20, 10]
    assert shown(["b", "new", "a"], kept) == [None, None, 10]


def test_what_took_how_long_is_kept_of_the_parts_that_came_to_an_end(shown, tmp_path):
    kept = tmp_path / "took.json"
    shown(["a", "b", "c"], kept, stop="b")
    assert json.loads(kept.read_text()) == {"a": 10}


@pytest.mark.parametrize("spoilt", ["", "{", "[1]", '{"a": "x"}', "null"])
def test_a_file_that_is_spoilt_is_none(shown, tmp_path, spoilt):
    kept = tmp_path / "took.json"
    kept.write_text(spoilt)
    assert shown(["a"], kept) == [None]
    assert shown(["a"], kept) == [10]


def test_on_a_terminal_the_part_at_work_is_named_and_lines_stand_above_the_bar(tmp_path):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    for part in paced(["growth", "skew"], tmp_path / "took.json", console):
        console.print(f"result of {part}")
    assert "result of growth" in screen.getvalue()
    assert re.search(r"━.* 1 of 2 done: skew", screen.getvalue())
