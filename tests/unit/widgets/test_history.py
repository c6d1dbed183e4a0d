"""The history: runs to filter and to choose from, and what the chosen ones show."""

import dataclasses
from datetime import UTC, datetime

import pytest

from pairlab import store, widgets
from pairlab.widgets.history import MAX_LISTED, History
from pairlab.widgets.results import DIFFERENCE, PICTURES, SUMMARY, Results
from pairlab.widgets.run_list import Filter, RunList
from tests.support.runs import made_up, truncate
from tests.support.synthetic import ending
from tests.unit.widgets.fakes import html


def at(minute, **spec):
    return dataclasses.replace(made_up(**spec), measured_at=datetime(2024, 5, 1, 12, minute, tzinfo=UTC))


@pytest.fixture
def runs():
    return [
        at(1, driver="bridge", pairs=5),
        at(2, driver="macvlan", pairs=5, backend="docker"),
        at(3, experiment="fct", flow_bytes=5_000_000, driver="bridge", workload="flowgen"),
        at(4, driver="bridge", pairs=9, status="failed", reasons=("out of <memory>",)),
    ]


def test_the_newest_run_comes_first(runs):
    assert [run.measured_at.minute for run in RunList(runs).refresh()] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("wanted", "minutes"),
    [
        (Filter(), [1, 2, 3, 4]),
        (Filter(driver="bridge"), [1, 3, 4]),
        (Filter(backend="docker"), [2]),
        (Filter(status="failed"), [4]),
        (Filter(experiment="fct"), [3]),
        (Filter(text="macvlan 5"), [2]),
        (Filter(text="MEMORY"), [4]),
        (Filter(driver="bridge", status="ok"), [1, 3]),
        (Filter(text="nowhere"), []),
    ],
)
def test_a_filter_lets_through_what_has_all_that_is_asked(runs, wanted, minutes):
    assert [run.measured_at.minute for run in runs if wanted.accepts(run)] == minutes


def test_a_run_is_found_by_its_key(runs):
    assert [run for run in runs if Filter(text=runs[2].key[:8]).accepts(run)] == [runs[2]]


def test_a_line_tells_what_was_measured_and_what_came_of_it(runs):
    line = RunList(runs).line(runs[0])
    for word in ("throughput", "netns", "bridge", "5 pairs", "2 s", "ok", "1 Gbit/s", "#0"):
        assert word in line


def test_a_line_tells_the_median_of_all_flows_as_far_as_it_is_known():
    cut = [ending([0.1, 0.2, 0.3, 9.0, 9.0, 9.0], failed=failed) for failed in (0, 2, 3)]
    outcomes = [RunList(cut).line(run).split("ok ")[1] for run in cut]
    assert [line.strip().split("#")[0].strip() for line in outcomes] == ["FCT 4.65 s", "FCT 4.65 s", "FCT unknown"]


def test_a_stored_run_is_read_again_only_when_it_changes(tmp_path, monkeypatch):
    store.write(made_up(pairs=3, status="invalid"), tmp_path)
    run_list, reads = RunList(root=tmp_path), []
    read = store.read
    monkeypatch.setattr(store, "read", lambda place: reads.append(place) or read(place))
    run_list.refresh()
    run_list.refresh()
    assert len(reads) == 1
    store.write(made_up(2e9, pairs=3), tmp_path)
    assert run_list.refresh()[0].total_throughput_bps == 2e9


def test_a_damaged_run_is_named_and_the_others_are_listed(tmp_path):
    store.write(made_up(pairs=3), tmp_path)
    truncate(store.write(made_up(pairs=4), tmp_path).path / "run.json")
    history = History(RunList(root=tmp_path))
    assert len(history.list.options) == 1
    assert "1 cannot be read, the first:" in history._note.value


def test_filters_narrow_the_list_and_say_how_many_there_are(runs):
    history = History(RunList(runs))
    history.filters["driver"].value = "bridge"
    history.text.value = "throughput"
    assert len(history.list.options) == 2
    assert "2 of 4 runs" in history._note.value


def test_choosing_calls_with_the_runs_and_a_filter_drops_those_it_hides(runs):
    chosen = []
    history = History(RunList(runs), on_choice=lambda found: chosen.append([run.spec.driver for run in found]))
    history.list.value = [runs[0].key, runs[1].key]
    history.filters["driver"].value = "macvlan"
    assert chosen[0] == ["bridge", "macvlan"]
    assert chosen[-1] == ["macvlan"]


@pytest.mark.ci
def test_of_very_many_runs_the_newest_are_listed():
    history = History(RunList([at(1, repetition=number) for number in range(MAX_LISTED + 5)]))
    assert len(history.list.options) == MAX_LISTED
    assert f"{MAX_LISTED + 5} of {MAX_LISTED + 5} runs; only the newest {MAX_LISTED} are listed" in history._note.value


def test_without_runs_the_history_says_where_they_come_from():
    assert "No runs yet" in History(RunList([]))._note.value


def test_nothing_is_drawn_before_it_is_looked_at(runs, monkeypatch):
    drawn = []
    monkeypatch.setitem(PICTURES, "CDF", lambda chosen: drawn.append(chosen) or 1 / 0)
    results = Results()
    results.show(runs[:1])
    assert drawn == []


@pytest.mark.parametrize("tab", PICTURES)
def test_each_picture_is_an_image_with_words(runs, tab):
    results = Results()
    results.show(runs[:2], tab)
    assert "<img alt=" in results.view.value
    assert "bridge" in results.view.value


def test_the_summary_escapes_what_runs_say(runs):
    results = Results()
    results.show([runs[3]], SUMMARY)
    assert "out of &lt;memory&gt;" in results.view.value


def test_the_difference_is_put_in_words_and_by_what_differs():
    runs = [
        at(number, driver=driver, repetition=number, pairs=2, rate_bps=rate * (1 + number / 100))
        for driver, rate in (("bridge", 1e9), ("macvlan", 1.2e9))
        for number in range(5)
    ]
    results = Results()
    results.show(runs, DIFFERENCE)
    assert results.by.options[0] == "driver"
    assert "macvlan" in results.view.value
    assert "95 % interval" in results.view.value


def test_of_one_run_the_difference_says_what_to_do(runs):
    results = Results()
    results.show(runs[:1], DIFFERENCE)
    assert "Choose at least two runs" in results.view.value


def test_runs_that_cannot_be_compared_show_why(runs):
    results = Results()
    results.show([runs[0], runs[2]], DIFFERENCE)
    assert "pairlab-message" in results.view.value


def test_compare_takes_runs_and_shows_the_chosen_ones_below(runs):
    shown = widgets.compare(runs)
    history = next(child for child in shown.children if isinstance(child, History))
    history.list.value = [runs[0].key]
    assert "bridge" in html(shown.children[-1])
