"""The results of chosen runs: drawn, named where one points, and saved, whatever their verdict."""

import base64
import re
from dataclasses import replace

import pytest

from pairlab.widgets.results import PICTURES, Results
from tests.support.synthetic import bulk


@pytest.mark.parametrize("tab", PICTURES)
def test_a_run_that_is_not_ok_is_drawn_and_saved_with_its_verdict(tab):
    made = replace(bulk([1.0, 2.0], retransmits=[3, 5]), status="invalid", reasons=("others used the CPU",))
    results = Results()
    results.show([made], tab)
    assert f"<img alt='{tab} of " in results.view.value
    assert "data:image/svg+xml" in results.view.value
    (table,) = re.findall("href='data:text/csv;base64,([^']+)'", results.view.value)
    heads, *rows = base64.b64decode(table).decode().splitlines()
    assert heads.startswith("key,verdict,experiment,")
    assert [row.split(",")[0] for row in rows] == [made.key] * 2
    assert all(",invalid," in row for row in rows)


def test_places_of_a_figure_are_named_for_who_points_at_them():
    results = Results()
    results.show([bulk([1.0, 2.0]), bulk([3.0, 4.0], repetition=1)], "Measures")
    titles = re.findall("<title>([^<]+)</title>", results.view.value)
    assert "bridge, repetition 1: 7 Gbit/s" in titles
