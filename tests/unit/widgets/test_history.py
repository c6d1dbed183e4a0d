"""The history: runs to filter and to choose from, and what the chosen ones show."""

import base64
import dataclasses
import io
import re
import shutil
from datetime import UTC, datetime

import pandas as pd
import pytest

from pairlab import store, widgets
from pairlab.store import runs as runs_of_store
from pairlab.widgets.history import History, RunList, finder
from pairlab.widgets.results import DIFFERENCE, PICTURES, SUMMARY, Results
from pairlab.widgets.run_table import LISTED
from tests.support.runs import made_up, truncate
from tests.support.synthetic import ending
from tests.unit.widgets.fakes import html, in_event_loop


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


def minutes_of(rows):
    return [datetime.fromisoformat(row["measured_at"]).minute for row in rows]


def accepted(run_list, text="", **wanted):
    return list(filter(finder(text, **wanted), run_list.refresh()))


def keys(runs):
    return [run.key for run in runs]


@pytest.mark.parametrize("stored", [False, True])
def test_the_newest_run_comes_first_and_each_column_orders(runs, stored, tmp_path):
    for run in runs if stored else ():
        store.write(run, tmp_path)
    history = History(RunList(root=tmp_path) if stored else RunList(runs))
    assert history.table.listed == keys(runs[::-1])
    history.table.order = "pairs"
    assert history.table.listed[0] == runs[3].key
    history.table.descending = False
    assert history.table.listed[-1] == runs[3].key
    history.table.chosen = keys(runs)
    assert sorted(keys(history.chosen)) == sorted(keys(runs))


def test_runs_are_ordered_by_their_results_and_those_without_one_come_last():
    runs = [at(1, rate_bps=2e9), at(2, pairs=3, rate_bps=3e9), at(3, pairs=4, status="failed"), at(4, pairs=5)]
    history = History(RunList(runs))
    history.table.order = "outcome"
    best = sorted(runs, key=lambda run: run.total_throughput_bps, reverse=True)
    assert history.table.listed == keys(best)


@pytest.mark.parametrize(
    ("wanted", "minutes"),
    [
        ({}, [1, 2, 3, 4]),
        ({"driver": "bridge"}, [1, 3, 4]),
        ({"backend": "docker"}, [2]),
        ({"status": "failed"}, [4]),
        ({"experiment": "fct"}, [3]),
        ({"text": "macvlan 5"}, [2]),
        ({"text": "MEMORY"}, [4]),
        ({"driver": "bridge", "status": "ok"}, [1, 3]),
        ({"text": "nowhere"}, []),
        ({"text": "2024-05-01 docker"}, [2]),
        ({"text": "pairs=5"}, [1, 2]),
        ({"text": "pairs=5,9 driver=bridge"}, [1, 4]),
        ({"text": "flow_bytes=5MB"}, [3]),
        ({"text": "pairs="}, [1, 2, 3, 4]),
    ],
)
def test_a_filter_lets_through_what_has_all_that_is_asked(runs, wanted, minutes):
    assert sorted(minutes_of(accepted(RunList(runs), **wanted))) == minutes
    assert [row["key"] for row in accepted(RunList(runs), text=runs[2].key[:8])] == [runs[2].key]


def test_a_value_that_a_parameter_cannot_have_is_said_and_finds_nothing(runs):
    history = History(RunList(runs))
    history.text.value = "pairs=many"
    assert history.table.listed == []
    assert "pairs: &#x27;many&#x27; is not a number" in history._note.value


def test_runs_that_are_given_are_listed_without_reading_their_tables(tmp_path):
    """As 2,827 of them take a minute."""
    stored = [store.read(store.write(made_up(pairs=pairs), tmp_path).path) for pairs in (1, 2)]
    assert len(accepted(RunList(stored), text="2 pairs", status="ok")) == 1
    assert not any("flows" in vars(run) for run in stored)


def cells(*runs):
    (row,) = History(RunList(runs)).table.rows
    return row["cells"]


def test_a_row_tells_what_was_measured_and_what_came_of_it(runs):
    found = cells(runs[0])
    told = {"experiment": "throughput", "backend": "netns", "driver": "bridge", "pairs": "5", "lasts": "2 s"}
    told |= {"status": "ok", "outcome": "1.00 Gbit/s in total", "repetition": "0", "key": runs[0].key}
    assert {name: found[name] for name in told} == told


def test_a_row_tells_the_median_of_all_flows_as_far_as_it_is_known():
    cut = [cells(ending([0.1, 0.2, 0.3, 9.0, 9.0, 9.0], failed=failed)) for failed in (0, 2, 3)]
    known = "median FCT 4650.0 ms"
    assert [each["outcome"] for each in cut] == [known, known, "median FCT not known"]


def test_a_stored_run_is_read_again_only_when_it_changes(tmp_path, monkeypatch):
    store.write(made_up(pairs=3, status="invalid"), tmp_path)
    run_list, reads = RunList(root=tmp_path), []
    read = runs_of_store.read
    monkeypatch.setattr(runs_of_store, "read", lambda place: reads.append(place) or read(place))
    run_list.refresh()
    run_list.refresh()
    assert len(reads) == 1
    store.write(made_up(2e9, pairs=3), tmp_path)
    assert run_list.refresh()[0]["total_throughput_bps"] == 2e9


def test_a_damaged_run_is_named_and_the_others_are_listed(tmp_path):
    store.write(made_up(pairs=3), tmp_path)
    truncate(store.write(made_up(pairs=4), tmp_path).path / "run.json")
    history = History(RunList(root=tmp_path))
    assert len(history.table.listed) == 1
    assert "1 cannot be read, the first:" in history._note.value


def test_filters_narrow_the_list_and_say_how_many_there_are(runs):
    history = History(RunList(runs))
    history.filters["driver"].value = "bridge"
    history.text.value = "throughput"
    assert len(history.table.listed) == 2
    assert "2 of 4 runs" in history._note.value


def test_choosing_calls_with_the_runs_and_a_filter_drops_those_it_hides(runs):
    chosen = []
    history = History(RunList(runs), on_choice=lambda found: chosen.append([run.spec.driver for run in found]))
    history.table.chosen = [runs[0].key, runs[1].key]
    history.filters["driver"].value = "macvlan"
    assert chosen[0] == ["bridge", "macvlan"]
    assert chosen[-1] == ["macvlan"]


@pytest.mark.whole
def test_of_very_many_runs_some_are_listed_and_more_when_they_are_asked_for():
    history = History(RunList([at(1, repetition=number) for number in range(LISTED + 5)]))
    assert (len(history.table.listed), history.table.total) == (LISTED, LISTED + 5)
    history.table.limit *= 2
    assert len(history.table.listed) == LISTED + 5


@in_event_loop
async def test_in_an_event_loop_stored_runs_are_read_meanwhile_and_what_is_measured_stays_in_the_list(tmp_path):
    store.write(at(1, pairs=3), tmp_path)
    history = History(RunList(root=tmp_path))
    assert "Reading the stored runs" in history._note.value
    measured = store.write(at(2, pairs=4), tmp_path)
    history.choose([measured])
    assert history.table.chosen == [measured.key]
    await history.reading
    assert len(history.table.listed) == 2
    assert [run.spec.pairs for run in history.chosen] == [4]


def shown_actions(history):
    return [each.description or "label" for each in history.actions.children if each.layout.display != "none"]


def test_runs_are_removed_and_come_back(tmp_path):
    stored = [store.write(at(minute, pairs=minute), tmp_path) for minute in (1, 2, 3)]
    history = History(RunList(root=tmp_path))
    assert shown_actions(history) == []
    history.table.chosen = keys(stored[:2])
    history.remove()
    assert shown_actions(history) == ["Undo"]
    assert history.table.listed == [stored[2].key]
    assert history.table.chosen == []
    assert len(store.stored(tmp_path)) == 1
    history.undo()
    assert sorted(history.table.listed) == sorted(keys(stored))
    assert shown_actions(history) == []


def test_what_a_sweep_has_measured_is_ticked_when_it_is_listed(tmp_path):
    shown = []
    history = History(RunList(root=tmp_path), on_choice=shown.append)
    stored = [store.write(at(minute, pairs=minute), tmp_path) for minute in (1, 2, 3)]
    history.refresh({*keys(stored[:2]), "of a cell that was not measured"})
    assert sorted(run.spec.pairs for run in history.chosen) == [1, 2]
    history.text.value = "pairs=3"
    history.refresh(keys(stored[:2]))
    assert sorted(run.spec.pairs for run in shown[-1]) == [1, 2]  # also while they are not listed


def test_runs_get_a_label_and_are_else_what_they_were(tmp_path):
    stored = store.write(at(1, pairs=3), tmp_path)
    (stored.path / "notebook.ipynb").write_text("{}")
    other = store.write(at(2, pairs=4), tmp_path)
    history = History(RunList(root=tmp_path))
    history.table.chosen = [stored.key]
    history.label.value = "after"
    history.relabel()
    assert {row["key"]: row["cells"]["label"] for row in history.table.rows} == {other.key: "", stored.key: "after"}
    (found,) = history.chosen
    assert found.flows.equals(made_up(pairs=3).flows)
    assert (found.path / "notebook.ipynb").exists()


def test_what_cannot_be_removed_is_said_and_stays(tmp_path, monkeypatch):
    stored = store.write(at(1, pairs=3), tmp_path)
    history = History(RunList(root=tmp_path))
    history.table.chosen = [stored.key]
    shutil.rmtree(stored.path)
    history.remove()
    assert stored.path.name in history._note.value


def test_the_form_is_filled_from_the_one_run_that_is_ticked(runs):
    specs = []
    history = History(RunList(runs), on_fill=specs.append)
    history.table.chosen = [runs[0].key]
    assert shown_actions(history) == ["Fill the form"]  # what is not stored is neither removed nor given a label
    history.fill()
    assert specs == [runs[0].spec]
    history.table.chosen = keys(runs)
    assert shown_actions(history) == []


def test_a_run_that_is_gone_when_it_is_chosen_is_said_to_be(tmp_path):
    gone = store.write(made_up(pairs=3), tmp_path)
    history = History(RunList(root=tmp_path))
    shutil.rmtree(gone.path)
    history.table.chosen = [gone.key]
    assert history.chosen == []
    assert gone.path.name in history._note.value


def test_without_runs_the_history_says_where_they_come_from():
    assert "No runs yet" in History(RunList([]))._note.value


def test_nothing_is_drawn_before_it_is_looked_at(runs, monkeypatch):
    drawn = []
    monkeypatch.setitem(PICTURES, "CDF", lambda chosen: drawn.append(chosen) or 1 / 0)
    results = Results()
    results.show(runs[:1])
    assert drawn == []


def test_a_figure_is_saved_as_it_is_drawn_with_its_flows(runs):
    results = Results()
    results.show(runs[:2], "Box plot")
    saved = dict(re.findall(r"download='box-plot\.(\w+)' href='data:[^;]+;base64,([^']+)'", results.view.value))
    content = {suffix: base64.b64decode(each) for suffix, each in saved.items()}
    assert content["svg"].startswith(b"<svg")
    assert content["png"].startswith(b"\x89PNG")
    flows = pd.read_csv(io.BytesIO(content["csv"]))
    assert len(flows) == sum(len(run.flows) for run in runs[:2])
    assert set(flows["driver"]) == {"bridge", "macvlan"}


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


@pytest.mark.parametrize(
    ("chosen", "tab", "words"),
    [
        ([3], SUMMARY, "out of &lt;memory&gt;"),
        ([0], DIFFERENCE, "Tick at least two runs"),
        ([0, 2], DIFFERENCE, "pairlab-message"),
    ],
)
def test_a_summary_is_escaped_and_runs_that_cannot_be_compared_show_why(runs, chosen, tab, words):
    results = Results()
    results.show([runs[number] for number in chosen], tab)
    assert words in results.view.value


def test_compare_takes_runs_and_shows_the_chosen_ones_below(runs):
    shown = widgets.compare(runs)
    history = next(child for child in shown.children if isinstance(child, History))
    history.table.chosen = [runs[0].key]
    assert "bridge" in html(shown.children[-1])
