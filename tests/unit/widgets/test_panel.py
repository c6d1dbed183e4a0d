"""The panel, driven without a browser: what it builds, says and stores."""

import asyncio
from html import escape as html_escape

import pytest

from pairlab import store
from pairlab.errors import HostBusy, TestbedError, Unavailable
from pairlab.widgets import panel as panel_module
from pairlab.widgets.panel import RunPanel
from tests.support.runs import made_up
from tests.unit.widgets.fakes import FakeMeasurement, html, in_event_loop, until


async def panel(host, root, attend=None, check=lambda spec: None, **preset):
    preset = {"workload": "flowgen"} | preset
    attend = attend or FakeMeasurement(root)
    return RunPanel(preset, root=root, attend=attend, choices=host.choices(), check=check)


def can(panel):
    """Whether Run and Stop look as if they would do something. Neither is ever disabled."""
    buttons = (panel.run_button, panel.stop_button)
    assert not any(button.disabled for button in buttons)
    return tuple("pairlab-inactive" not in button._dom_classes for button in buttons)


async def ended(panel):
    await until(lambda: not panel.running)


async def measured(host, root, attend=None, **preset):
    """A panel whose Run was clicked, when that is over."""
    shown = await panel(host, root, attend, **preset)
    shown.run_button.click()
    await ended(shown)
    return shown


@in_event_loop
async def test_a_panel_says_and_draws_what_it_would_build_and_nothing_for_bad_input(host, tmp_path):
    shown = await panel(host, tmp_path, pairs=3)
    assert "3 client and 3 server namespaces on bridge" in shown.preview.value
    assert can(shown) == (True, False)
    assert not shown.plan.value
    shown.plan_button.value = True
    assert "client-0" in shown.plan.value
    shown.form.fields["driver"].value = "macvlan"
    await until(lambda: "network macvlan" in shown.plan.value)  # as it stays open
    shown.form.fields["pairs"].value = "abc"
    await until(lambda: not shown.plan.value)


@in_event_loop
async def test_with_bad_input_run_builds_nothing_and_looks_like_it(host, tmp_path):
    attend = FakeMeasurement(tmp_path)
    shown = await panel(host, tmp_path, attend)
    shown.form.fields["pairs"].value = "abc"
    await until(lambda: can(shown) == (False, False))
    assert "correct the marked fields" in shown.preview.value
    shown.run_button.click()
    await asyncio.sleep(0)
    assert attend.specs == []
    assert "Not started" in shown.status.value


@in_event_loop
async def test_a_driver_that_vanished_since_is_shown_at_its_field_and_builds_nothing(host, tmp_path):
    attend = FakeMeasurement(tmp_path)
    shown = await panel(host, tmp_path, attend, driver="ovs")
    host.lose("ovs")
    shown.run_button.click()
    assert attend.specs == []
    assert "ovs is not on this host" in shown.form.fields["driver"].error


@in_event_loop
async def test_what_the_host_cannot_do_is_shown_at_its_field(host, tmp_path):
    def check(spec):
        raise Unavailable(f"{spec.pairs} pairs: the kernel knows 100 neighbours at most: fewer pairs")

    shown = await panel(host, tmp_path, check=check)
    assert "100 neighbours" in shown.form.fields["pairs"].error
    assert can(shown) == (False, False)


@in_event_loop
async def test_run_measures_what_was_asked_shows_it_and_has_it_in_the_history(host, tmp_path):
    attend = FakeMeasurement(tmp_path)
    shown = await panel(host, tmp_path, attend, pairs=3)
    shown.run_button.click()
    assert can(shown) == (False, True)
    await ended(shown)
    assert [spec.pairs for spec in attend.specs] == [3]
    assert "Done and stored" in shown.status.value
    assert [run.key for run in shown.history.chosen] == [attend.specs[0].key]
    assert "data:image/svg+xml" in shown.results.view.value
    assert can(shown) == (True, False)


def test_a_panel_without_an_event_loop_is_shown_and_says_why_it_cannot_measure(host, tmp_path):
    """As in a script, or a doctest."""
    shown = RunPanel({}, root=tmp_path, choices=host.choices(), check=lambda spec: None)
    assert "2 client and 2 server namespaces" in shown.preview.value
    shown.run_button.click()
    assert "where there is an event loop" in shown.status.value


@in_event_loop
async def test_what_was_measured_before_the_form_was_changed_is_marked(host, tmp_path):
    shown = await measured(host, tmp_path, FakeMeasurement(tmp_path), pairs=3)
    assert "at the last sample: total" in shown.live.value
    shown.form.fields["pairs"].value = "4"
    await until(lambda: "Of the measurement before: Done and stored" in shown.status.value)
    assert "pairlab-before" in shown.live._dom_classes
    shown.form.fields["pairs"].value = "3"
    await until(lambda: "before" not in shown.status.value)
    assert "pairlab-before" not in shown.live._dom_classes


@in_event_loop
async def test_the_charts_of_a_measurement_make_room_when_other_runs_are_ticked(host, tmp_path):
    other = store.write(made_up(driver="macvlan", pairs=3), tmp_path)
    shown = await measured(host, tmp_path, FakeMeasurement(tmp_path), pairs=3)
    await shown.history.reading
    assert shown.live.value
    shown.history.table.chosen = [*shown.history.table.chosen, other.key]
    assert len(shown.results.runs) == 2
    assert not shown.live.value


@in_event_loop
async def test_a_run_that_is_stored_already_is_shown_and_said_to_be_so(host, tmp_path):
    old = store.write(made_up(workload="flowgen", pairs=2), tmp_path)

    async def attend(spec, **others):
        return old

    shown = await measured(host, tmp_path, attend)
    when = f"{old.measured_at:%Y-%m-%d %H:%M} UTC"
    assert f"From the store, measured {when}: 1.00 Gbit/s in total." in shown.status.value


@in_event_loop
async def test_repetitions_are_measured_one_after_the_other_again_if_that_is_asked_for(host, tmp_path):
    attend = FakeMeasurement(tmp_path)
    shown = await measured(host, tmp_path, attend, repetitions=3, repetition=4, fresh=True)
    assert [spec.repetition for spec in attend.specs] == [4, 5, 6]
    assert attend.fresh == [True] * 3
    assert len(shown.results.runs) == 3


@in_event_loop
async def test_the_live_view_follows_while_it_runs_and_a_second_click_on_run_starts_nothing(host, tmp_path):
    attend = FakeMeasurement(tmp_path, hold=asyncio.Event())
    shown = await panel(host, tmp_path, attend, pairs=2)
    shown.run_button.click()
    await until(lambda: shown.live.state and shown.live.state.samples)
    assert "measuring 0.5/2 s" in shown.live.value
    assert shown.results.runs == ()
    shown.run_button.click()
    attend.hold.set()
    await ended(shown)
    assert "total 2 Gbit/s" in shown.live.value
    assert len(attend.specs) == 1


@in_event_loop
async def test_stop_cancels_waits_until_it_is_clean_and_says_so_however_often_it_is_clicked(host, tmp_path):
    begun, cleaned = asyncio.Event(), []

    async def attend(spec, **others):
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(spec)

    shown = await panel(host, tmp_path, attend, repetitions=5)
    shown.run_button.click()
    await begun.wait()
    for _ in range(3):
        shown.stop_button.click()
        assert can(shown) == (False, False)
        await asyncio.sleep(0)
    await ended(shown)
    assert len(cleaned) == 1
    assert "Stopped. The host is clean" in shown.status.value
    assert can(shown) == (True, False)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            TestbedError("the bridge could not be made: try <again>"),
            "Measurement failed: the bridge could not be made: try &lt;",
        ),
        (HostBusy("process 7 of root is measuring on this host: wait for it"), "process 7 of root is measuring"),
        (KeyError("left"), "unexpected error: KeyError"),
    ],
)
@in_event_loop
async def test_an_error_is_shown(host, tmp_path, error, words):
    shown = await measured(host, tmp_path, FakeMeasurement(tmp_path, outcome=error))
    assert words in shown.status.value
    assert can(shown) == (True, False)


@in_event_loop
async def test_a_grid_that_cannot_begin_says_why(host, tmp_path, monkeypatch):
    def breaks(plan, root):
        raise RuntimeError("no idea")

    monkeypatch.setattr(panel_module, "sweep", breaks)
    shown = await panel(host, tmp_path)
    shown.form.fields["pairs"].value = "1, 2"
    shown.run_button.click()
    await ended(shown)
    assert "Not started: unexpected error: RuntimeError: no idea" in shown.status.value
    assert can(shown) == (True, False)


@in_event_loop
async def test_the_lines_that_repeat_it_follow_the_form(host, tmp_path):
    shown = await panel(host, tmp_path, pairs=3)
    for button in shown.reproduce.buttons.values():
        button.value = True
    assert "-p pairs 3" in shown.reproduce.value
    assert "experiments:\n  throughput:\n    pairs: 3" in shown.reproduce.value
    shown.form.fields["pairs"].value = "4"
    await until(lambda: "-p pairs 4" in shown.reproduce.value)


@in_event_loop
async def test_an_event_from_another_thread_is_handled_at_home(host, tmp_path):
    """JupyterLab may deliver clicks in a thread beside the one that runs cells."""
    attend = FakeMeasurement(tmp_path)
    shown = await panel(host, tmp_path, attend)
    await asyncio.to_thread(shown.run_button.click)
    await until(lambda: attend.specs)
    await ended(shown)
    assert "tored" in shown.status.value


@in_event_loop
async def test_an_invalid_run_shows_its_reasons_as_text(host, tmp_path):
    script = "<script>alert(1)</script>"
    shown = await measured(host, tmp_path, FakeMeasurement(tmp_path, status="invalid", reasons=(script,)))
    assert f"The run is invalid (stored): {html_escape(script)}" in shown.status.value
    assert html_escape(script) in html(shown.results)
    assert "<script" not in html(shown)
