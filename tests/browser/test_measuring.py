"""A person measures: chooses, runs, watches, looks at what came of it, compares, and stops."""

import re

import pytest
from playwright.sync_api import expect

from pairlab import store
from pairlab.testbed.audit import snapshot
from tests.browser.conftest import wait_clean
from tests.support.runs import made_up

BITS_PER_SECOND = re.compile(r"total ([0-9.]+ [kMG]?bit/s)")


@pytest.mark.gate
def test_five_pairs_on_a_bridge_are_measured_drawn_live_and_shown(workbench, lab, picture):
    workbench.choose(driver="bridge", pairs=5, duration_s=4)  # is drawn more than once on a late machine, too
    expect(workbench.panel.locator(".pairlab-preview")).to_contain_text("5 client and 5 server namespaces on bridge")
    workbench.run()
    expect(workbench.figures).to_be_in_viewport()  # below Run there was no room for it
    elsewhere = workbench.field("pairs").locator("input")
    elsewhere.focus()
    workbench.wait_until_done()
    expect(elsewhere).to_be_focused()  # nobody is called away when a run ends
    workbench.run_button.scroll_into_view_if_needed()
    expect(workbench.panel.locator(".pairlab-sentence")).to_be_in_viewport()

    # While it ran, it was drawn, and the figures changed.
    seen = workbench.seen()
    assert any("measuring" in phase for phase in seen["phases"]), seen
    assert len({figures for figures in seen["figures"] if BITS_PER_SECOND.search(figures)}) > 1, seen
    assert seen["drawn"] > 0

    # And now the CDF of what was measured is there.
    workbench.tab("CDF")
    cdf = workbench.view.locator("img[alt^=CDF]")
    expect(cdf).to_be_visible()
    expect(cdf).to_have_js_property("complete", True)
    assert cdf.evaluate("image => image.naturalWidth") > 100
    (run,) = lab.runs()
    assert (run.spec.driver, run.spec.pairs, run.spec.duration_s) == ("bridge", 5, 4.0)
    assert (run.flows["throughput_bps"] > 0).sum() == 5
    assert (run.status in ("ok", "invalid"), run.failed_flows) == (True, 0), run.reasons
    picture(workbench.page, "measured")


def test_pairs_are_measured_beside_a_background_and_their_latencies_are_shown(workbench, lab, picture):
    workbench.choose(experiment="congestion")
    expect(workbench.field("background_pairs")).to_be_visible()  # its fields have taken the others' place
    workbench.forgive().choose(driver="bridge", workload="rr", pairs=1, background_pairs=1, duration_s=1)
    workbench.run()
    workbench.wait_until_done()
    (run,) = lab.runs()
    assert (run.spec.experiment, run.spec.workload, run.spec.background_pairs) == ("congestion", "rr", 1)
    assert run.flows["transactions"].sum() > 0
    assert run.background_flows["throughput_bps"].sum() > 0
    workbench.tab("Measures")
    measures = workbench.view.locator("img[alt^=Measures]")
    expect(measures).to_be_visible()
    assert measures.evaluate("image => image.naturalWidth") > 100
    picture(workbench.page, "latencies")


@pytest.mark.gate
def test_stop_in_mid_run_leaves_a_clean_host_and_no_run(workbench, lab):
    before = snapshot.take()
    workbench.choose(pairs=5, duration_s=60)
    workbench.run()
    expect(workbench.figures).to_contain_text(BITS_PER_SECOND)
    bar = workbench.page.locator(".pairlab-measuring")  # in the status bar
    expect(bar).to_have_text("measuring")
    expect(bar).to_have_attribute("title", re.compile(r"process \d+ of .* is measuring on this host"))
    workbench.stop_button.click()
    expect(workbench.status).to_contain_text("Stopped.")
    expect(bar).to_have_text("")
    wait_clean(before)
    assert lab.runs() == []
    expect(workbench.ready).to_be_visible()  # and on it goes


def test_stored_runs_of_two_networks_are_compared_in_words(workbench, lab, picture):
    for repetition in range(3):
        for driver, rate_bps in (("bridge", 10e9), ("macvlan", 12e9)):
            run = made_up(rate_bps * (1 + repetition / 100), driver=driver, pairs=3, repetition=repetition)
            store.write(run, lab.root / "runs")
    workbench.reset()
    workbench.choose_runs("3 pairs", 6)
    workbench.tab("Difference")
    words = workbench.view.locator(".pairlab-words")
    expect(words).to_contain_text(re.compile("macvlan .* bridge|bridge .* macvlan"))
    expect(words).to_contain_text("95 % interval")
    expect(words).to_contain_text("n = 3")
    expect(words).to_contain_text("20")  # per cent: what was planted
    workbench.tab("Box plot")
    expect(workbench.view.locator("img[alt^='Box plot']")).to_be_visible()
    picture(workbench.page, "compared")


def test_a_run_of_the_history_fills_the_form_and_is_removed_and_back(workbench, lab):
    for pairs in (3, 7):
        store.write(made_up(pairs=pairs, driver="macvlan"), lab.root / "runs")
    workbench.reset()
    table = workbench.panel.locator(".pairlab-table")
    table.get_by_role("button", name="Pairs").click()  # the least first
    expect(table.get_by_role("columnheader", name="Pairs")).to_have_attribute("aria-sort", "ascending")
    workbench.choose_runs("macvlan 7 pairs", 1)
    workbench.panel.get_by_role("button", name="Fill the form").click()
    expect(workbench.field("pairs").locator("input")).to_have_value("7")
    expect(workbench.panel.locator(".pairlab-sentence")).to_contain_text("7 pairs")
    workbench.panel.get_by_role("button", name="Remove").click()
    expect(workbench.runs()).to_have_count(0)
    workbench.panel.get_by_role("button", name="Undo").click()
    expect(workbench.runs()).to_have_count(1)
    table.get_by_text("Columns").click()
    table.get_by_label("column Key").check()
    expect(workbench.runs().first).to_contain_text(re.compile("[0-9a-f]{16}"))


def test_a_run_is_ticked_by_the_keyboard_and_keeps_the_focus(workbench, lab):
    store.write(made_up(pairs=3), lab.root / "runs")
    workbench.reset()
    box = workbench.runs().first.get_by_role("checkbox")
    box.focus()
    workbench.page.keyboard.press("Space")
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    expect(workbench.panel.locator(".pairlab-sentence")).to_contain_text("3 pairs")


def test_a_grid_is_measured_as_a_sweep_and_its_runs_are_in_the_table(workbench, lab, picture):
    workbench.choose(duration_s=1, several="pairs=1,2")
    expect(workbench.panel.locator(".pairlab-preview")).to_contain_text("A grid of 2 cells, about")
    expect(workbench.run_button).to_have_text("Run this grid")
    workbench.run_button.click()
    expect(workbench.status).to_have_text(re.compile("^The sweep .* has ended"))
    expect(workbench.panel.locator(".pairlab-board")).to_contain_text("2 of 2")
    expect(workbench.runs()).to_have_count(2)
    expect(workbench.panel.locator("tr.pairlab-chosen")).to_have_count(2)
    expect(workbench.view.locator("img")).to_be_visible()
    assert sorted(run.spec.pairs for run in lab.runs()) == [1, 2]
    picture(workbench.page, "grid")
    workbench.choose(several="")
