"""The workbench in Firefox: opened, used with the pointer, and read at the width of a screen and of half a one."""

from pathlib import Path

import pytest

from pairlab.apps import doctor
from pairlab.testbed.audit import snapshot
from tests.browser.conftest import SCREENSHOTS, wait_clean
from tests.browser.firefox import firefox

LOOKS = Path(__file__).with_name("looks.js").read_text()
PANEL = "document.querySelector('.pairlab-panel')"
READY = "() => document.querySelector('button.pairlab-run:not(.pairlab-inactive)') !== null"
STORED = "() => /stored/i.test(document.querySelector('.pairlab-status').textContent)"


@pytest.fixture
def page(lab, tmp_path):
    """JupyterLab as it opens; afterwards the host is clean."""
    if not (program := doctor.firefox()):
        pytest.skip("no Firefox is installed")
    lab.forget_runs()
    lab.end_kernels()
    lab.restore_notebooks()
    before = snapshot.take()
    with firefox(program, tmp_path / "profile") as opened:
        opened.set_size(1280, 800)
        opened.open(lab.address)
        yield opened
    lab.end_kernels()
    wait_clean(before)


@pytest.mark.whole
def test_a_run_is_measured_and_read_in_firefox(page, lab):
    page.wait_for(READY)
    page.click(".pairlab-field-duration-s input")
    page.evaluate("() => document.activeElement.select()")
    page.type("1")
    page.click("button.pairlab-run")
    (run,) = lab.wait_for_runs()
    assert run.spec.duration_s == 1.0
    page.wait_for(STORED)
    page.wait_for("() => document.querySelectorAll('.pairlab-live svg path').length >= 8")
    page.wait_for("() => document.querySelector('.pairlab-figure circle title') !== null")
    page.click(".pairlab-tabs [data-value=Summary]")
    page.wait_for("() => document.querySelectorAll('.pairlab-card svg path').length >= 2")
    for width, height in ((1280, 800), (800, 800)):
        page.set_size(width, height)
        page.evaluate(f"() => {PANEL}.scrollIntoView()")
        page.screenshot(SCREENSHOTS / f"firefox-{width}.png")
        for look in ("unreadable", "cutOff"):
            assert page.evaluate(f"() => ({LOOKS}).{look}({PANEL})") == [], (look, width)
