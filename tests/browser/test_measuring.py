"""A person measures: chooses, runs, watches, looks at what came of it, compares, and stops."""

import re

import pytest
from playwright.sync_api import expect

from pairlab.testbed.audit import snapshot
from tests.browser.conftest import wait_clean

BITS_PER_SECOND = re.compile(r"total ([0-9.]+ [kMG]?bit/s)")
ATTEMPTS = 3


def test_five_pairs_on_a_bridge_are_measured_drawn_live_and_shown(workbench, lab, picture):
    workbench.choose(driver="bridge", pairs=5, duration_s=4)  # is drawn more than once on a late machine, too
    expect(workbench.panel.locator(".pairlab-preview")).to_contain_text("5 client and 5 server namespaces on bridge")
    workbench.run()
    elsewhere = workbench.field("pairs").locator("input")
    elsewhere.focus()
    workbench.wait_until_done()
    expect(elsewhere).to_be_focused()  # nobody is called away when a run ends

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


def test_stop_in_mid_run_leaves_a_clean_host_and_no_run(workbench, lab):
    before = snapshot.take()
    workbench.choose(pairs=5, duration_s=60)
    workbench.run()
    expect(workbench.figures).to_contain_text(BITS_PER_SECOND)
    workbench.stop_button.click()
    expect(workbench.status).to_contain_text("Stopped.")
    wait_clean(before)
    assert lab.runs() == []
    expect(workbench.ready).to_be_visible()  # and on it goes


def measure(workbench, lab, count):
    """Until so many runs count: on a machine that does other things, too, one may be invalid, and is measured again."""
    for _ in range(ATTEMPTS):
        workbench.run()
        workbench.wait_until_done()
        runs = lab.runs()
        if [run.status for run in runs] == count * ["ok"]:
            return
    raise AssertionError([run.reasons for run in runs])


@pytest.mark.ci  # six measurements; the words themselves: tests/unit/widgets
def test_two_runs_are_compared_in_words(workbench, lab, picture):
    for done, driver in enumerate(("bridge", "macvlan"), 1):
        workbench.choose(driver=driver, pairs=3, duration_s=1, repetitions=3)
        measure(workbench, lab, 3 * done)
    chosen = workbench.history().locator("option", has_text="3 pairs")
    expect(chosen).to_have_count(6)
    workbench.history().select_option([each.get_attribute("value") for each in chosen.all()])
    workbench.tab("Difference")
    words = workbench.view.locator(".pairlab-words")
    expect(words).to_contain_text(re.compile("macvlan .* bridge|bridge .* macvlan"))
    expect(words).to_contain_text("95 % interval")
    expect(words).to_contain_text("n = 3")
    workbench.tab("Box plot")
    expect(workbench.view.locator("img[alt^='Box plot']")).to_be_visible()
    picture(workbench.page, "compared")
