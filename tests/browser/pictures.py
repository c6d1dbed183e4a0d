"""The workbench's pictures in README and docs. On a quiet machine: `.venv/bin/python -m tests.browser.pictures`."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect

from pairlab import paths
from tests.browser.chromium import chromium
from tests.browser.jupyter import Lab
from tests.browser.workbench import PATIENCE_MS, Workbench

PICTURES = paths.ROOT / "docs" / "pictures"
DRIVERS = ("bridge", "macvlan")


def take(page, lab: Lab, place: Path) -> None:
    """Measures, and takes both."""
    workbench = Workbench(page, lab).open()
    workbench.forgive()
    workbench.panel.get_by_role("button", name="More parameters").click()
    for driver in DRIVERS:
        workbench.choose(driver=driver, pairs=5, duration_s=3, repetitions=5)
        workbench.run()
        expect(workbench.ready).to_be_visible()
    workbench.tab("CDF")
    expect(workbench.view.locator("img")).to_be_visible()
    shoot(page, workbench.panel, 1250, place / "workbench.png")
    names = workbench.history().locator("option")
    workbench.history().select_option([each.get_attribute("value") for each in names.all()])
    workbench.tab("Difference")
    expect(workbench.view.locator(".pairlab-words")).to_be_visible()
    shoot(page, workbench.panel.locator(".pairlab-results"), 800, place / "workbench-compare.png")


def shoot(page, top, height: int, file: Path) -> None:
    """The page of that height, scrolled so that `top` is at its top."""
    page.set_viewport_size({"width": 1280, "height": height})
    top.evaluate("element => element.scrollIntoView()")
    page.screenshot(path=file)


def main(place: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        lab = Lab(Path(folder))
        try:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE_MS)
            expect.set_options(timeout=PATIENCE_MS)
            take(page, lab, place)
        finally:
            lab.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else PICTURES)
