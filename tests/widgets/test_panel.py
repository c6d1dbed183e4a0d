"""The panel, driven without a browser: what it builds, says and stores."""

import asyncio

import pytest

from pairlab import store
from pairlab.errors import HostBusy, TestbedError, Unavailable
from pairlab.testbed import registry
from pairlab.widgets.panel import RunPanel
from tests.conftest import need
from tests.runs import made_up
from tests.widgets.stages import Attended, html, until


async def panel(host, root, attend=None, check=lambda spec: None, **preset):
    preset = {"workload": "flowgen"} | preset
    attend = attend or Attended(root)
    return RunPanel(preset, root=root, attend=attend, choices=host.choices(), check=check)


def can(panel):
    """Whether Run and Stop look as if they would do something. Neither is ever disabled."""
    buttons = (panel.run_button, panel.stop_button)
    assert not any(button.disabled for button in buttons)
    return tuple("pairlab-idle" not in button._dom_classes for button in buttons)


async def ended(panel):
    await until(lambda: not panel.running)


async def measured(host, root, attend=None, **preset):
    """A panel whose Run was clicked, when that is over."""
    shown = await panel(host, root, attend, **preset)
    shown.run_button.click()
    await ended(shown)
    return shown


def test_a_panel_says_what_it_would_build(host, tmp_path):
    async def scene():
        shown = await panel(host, tmp_path, pairs=3)
        assert "3 client and 3 server namespaces on bridge" in shown.preview.value
        assert can(shown) == (True, False)

    asyncio.run(scene())


def test_with_bad_input_run_builds_nothing_and_looks_like_it(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path)
        shown = await panel(host, tmp_path, attend)
        shown.form.fields["pairs"].told = "abc"
        await until(lambda: can(shown) == (False, False))
        assert "see what is marked" in shown.preview.value
        shown.run_button.click()
        await asyncio.sleep(0)
        assert attend.asked == []
        assert "Nothing was built" in shown.status.value

    asyncio.run(scene())


def test_a_driver_that_vanished_since_is_told_at_its_field_and_builds_nothing(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path)
        shown = await panel(host, tmp_path, attend, driver="ovs")
        host.lose("ovs")
        shown.run_button.click()
        assert attend.asked == []
        assert "ovs is not on this host" in shown.form.fields["driver"].error

    asyncio.run(scene())


def test_what_the_host_cannot_do_is_told_at_its_field(host, tmp_path):
    def check(spec):
        raise Unavailable(f"{spec.pairs} pairs: the kernel knows 100 neighbours at most: fewer pairs")

    async def scene():
        shown = await panel(host, tmp_path, check=check)
        assert "100 neighbours" in shown.form.fields["pairs"].error
        assert can(shown) == (False, False)

    asyncio.run(scene())


def test_run_measures_what_was_asked_shows_it_and_has_it_in_the_history(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path)
        shown = await panel(host, tmp_path, attend, pairs=3)
        shown.run_button.click()
        assert can(shown) == (False, True)
        await ended(shown)
        assert [spec.pairs for spec in attend.asked] == [3]
        assert "Done, and stored" in shown.status.value
        assert [run.key for run in shown.history.chosen] == [attend.asked[0].key]
        assert "data:image/svg+xml" in shown.results.view.value
        assert can(shown) == (True, False)

    asyncio.run(scene())


def test_a_run_that_is_stored_already_is_shown_and_said_to_be_so(host, tmp_path):
    async def scene():
        old = store.write(made_up(workload="flowgen", pairs=2), tmp_path)

        async def attend(spec, **others):
            return old

        shown = await measured(host, tmp_path, attend)
        assert "Stored already, so not measured again: 1.00 Gbit/s in total." in shown.status.value

    asyncio.run(scene())


def test_repetitions_are_measured_one_after_the_other(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path)
        shown = await measured(host, tmp_path, attend, repetitions=3, repetition=4)
        assert [spec.repetition for spec in attend.asked] == [4, 5, 6]
        assert len(shown.results.runs) == 3

    asyncio.run(scene())


def test_measuring_again_is_passed_on(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path)
        await measured(host, tmp_path, attend, fresh=True)
        assert attend.fresh == [True]

    asyncio.run(scene())


def test_the_live_view_follows_while_it_runs(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path, hold=asyncio.Event())
        shown = await panel(host, tmp_path, attend, pairs=2)
        shown.run_button.click()
        await until(lambda: shown.live.course and shown.live.course.last)
        assert "measuring 0.5/2 s" in shown.live.value
        attend.hold.set()
        await ended(shown)
        assert "total 2 Gbit/s" in shown.live.value

    asyncio.run(scene())


def test_stop_cancels_waits_until_it_is_clean_and_says_so(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path, hold=asyncio.Event())
        shown = await panel(host, tmp_path, attend, repetitions=5)
        shown.run_button.click()
        await until(lambda: attend.asked)
        shown.stop_button.click()
        await ended(shown)
        assert attend.clean
        assert len(attend.asked) == 1
        assert "Stopped. Nothing of it is left on the host" in shown.status.value
        assert can(shown) == (True, False)

    asyncio.run(scene())


def test_a_second_click_on_stop_does_not_cut_the_cleaning_up(host, tmp_path):
    begun, cleaned = asyncio.Event(), []

    async def attend(spec, **others):
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(spec)

    async def scene():
        shown = await panel(host, tmp_path, attend)
        shown.run_button.click()
        await begun.wait()
        for _ in range(3):
            shown.stop_button.click()
            assert can(shown) == (False, False)
            await asyncio.sleep(0)
        await ended(shown)
        assert len(cleaned) == 1
        assert "Stopped" in shown.status.value
        assert can(shown) == (True, False)

    asyncio.run(scene())


def test_a_second_click_on_run_starts_nothing(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path, hold=asyncio.Event())
        shown = await panel(host, tmp_path, attend)
        shown.start()
        shown.start()
        await until(lambda: attend.asked)
        attend.hold.set()
        await ended(shown)
        assert len(attend.asked) == 1

    asyncio.run(scene())


def test_an_invalid_run_shows_its_reasons(host, tmp_path):
    async def scene():
        attend = Attended(tmp_path, status="invalid", reasons=("other processes took <b>40 %</b> of the CPU time",))
        shown = await measured(host, tmp_path, attend)
        assert "The run is invalid, and stored so: other processes took &lt;b&gt;40 %" in shown.status.value

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            TestbedError("the bridge could not be made: try <again>"),
            "Not measured: the bridge could not be made: try &lt;",
        ),
        (HostBusy("process 7 of root is measuring on this host: wait for it"), "process 7 of root is measuring"),
        (KeyError("left"), "for a reason pairlab does not know: KeyError"),
    ],
)
def test_an_error_is_told_in_words(host, tmp_path, error, told):
    async def scene():
        shown = await measured(host, tmp_path, Attended(tmp_path, outcome=error))
        assert told in shown.status.value
        assert can(shown) == (True, False)

    asyncio.run(scene())


def test_whoever_else_is_measuring_is_named_while_we_wait(host, tmp_path):
    async def scene():
        words = "waiting for process 7 of root (pairlab sweep), which is measuring on this host"
        attend = Attended(tmp_path, hold=asyncio.Event(), phase=(words, 0, 0))
        shown = await panel(host, tmp_path, attend)
        seen = []
        shown.live.observe(lambda change: seen.append(change["new"]), names="value")
        shown.run_button.click()
        await until(lambda: attend.asked and seen)
        attend.hold.set()
        await ended(shown)
        assert any("waiting for process 7 of root (pairlab sweep)" in each for each in seen)

    asyncio.run(scene())


def test_the_lines_that_repeat_it_follow_the_form(host, tmp_path):
    async def scene():
        shown = await panel(host, tmp_path, pairs=3)
        for button in shown.repeat.buttons.values():
            button.value = True
        assert "-p pairs 3" in shown.repeat.text.value
        assert "experiments:\n  throughput:\n    pairs: 3" in shown.repeat.text.value
        shown.form.fields["pairs"].told = "4"
        await until(lambda: "-p pairs 4" in shown.repeat.text.value)

    asyncio.run(scene())


def test_an_event_from_another_thread_is_handled_at_home(host, tmp_path):
    """JupyterLab may deliver clicks in a thread beside the one that runs cells."""

    async def scene():
        attend = Attended(tmp_path)
        shown = await panel(host, tmp_path, attend)
        await asyncio.to_thread(shown.run_button.click)
        await until(lambda: attend.asked)
        await ended(shown)
        assert "tored" in shown.status.value

    asyncio.run(scene())


def test_hostile_names_in_the_store_are_shown_as_text(host, tmp_path):
    async def scene():
        shown = await panel(host, tmp_path, pairs=3)
        assert "<script" not in html(shown)

    asyncio.run(scene())


@pytest.mark.parametrize("backend", registry.backends.names())
def test_a_measurement_in_the_panel_is_stored_as_any_other(backend, host, tmp_path, clean_host):
    need(backend)

    async def scene():
        from pairlab import attended

        asked = {"pairs": 2, "duration_s": 1.0, "max_foreign_cpu": 1.0, "max_skew_s": 1.0}
        shown = await measured(host, tmp_path, attended.attend_async, backend=backend, **asked)
        spec = shown.results.runs[0].spec
        assert (spec.backend, spec.pairs) == (backend, 2)
        assert store.find(spec, tmp_path).flows["throughput_bps"].sum() > 0
        assert shown.live.course.last.total_bps > 0

    asyncio.run(scene())


@pytest.mark.parametrize("backend", registry.backends.names())
def test_stop_in_mid_run_leaves_the_host_clean(backend, host, tmp_path, clean_host):
    need(backend)

    async def scene():
        from pairlab import attended

        shown = await panel(host, tmp_path, attended.attend_async, backend=backend, pairs=2, duration_s=60.0)
        shown.run_button.click()
        await until(lambda: shown.live.course and shown.live.course.last, within_s=60)
        shown.stop_button.click()
        await until(lambda: not shown.running, within_s=30)
        assert "Stopped" in shown.status.value
        assert store.find(shown.live.course.spec, tmp_path) is None

    asyncio.run(scene())
