"""Pictures of README and docs, in docs/pictures.

`python -m pictures networks` draws a testbed over each driver as it is built here; the others stay as they are.
`python -m pictures workbench [FOLDER]` takes the screenshots; on a quiet machine.
"""

import sys
import tempfile
from pathlib import Path

from pairlab import Spec, open_testbed, paths
from pairlab.base import topology
from pairlab.errors import Unavailable
from pairlab.testbed import registry

PICTURES = paths.ROOT / "docs" / "pictures"
#: Between which the workbench compares.
DRIVERS = ("bridge", "macvlan")


def networks(place: Path = PICTURES / "networks") -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name in registry.drivers.names():
        try:
            (place / f"{name}.svg").write_text(draw(name) + "\n", encoding="utf-8")
            print(name)
        except Unavailable as error:
            print(f"{name}: {error}")


def draw(name: str) -> str:
    """The SVG, as a file. Raises Unavailable where this machine cannot build it."""
    driver = registry.drivers.get(name)
    spec = Spec(driver=name, pairs=2, backend="docker" if "netns" in driver.absent_in else "netns")
    two = spec.replace(hosts=2, placement="across")
    if driver.spans_hosts and not driver.missing_to_span():
        spec = two
    with open_testbed(spec) as bed:
        return topology.picture(bed.site.facts()).replace("<svg", "<svg xmlns='http://www.w3.org/2000/svg'", 1)


def workbench(place: Path = PICTURES) -> None:
    """Measures in the workbench, and shows what came of it and how two runs compare."""
    from playwright.sync_api import expect

    from tests.browser.chromium import chromium
    from tests.browser.jupyter import Lab
    from tests.browser.workbench import Workbench

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        lab = Lab(Path(folder))
        try:
            page = browser.new_page()
            bench = Workbench.with_panel(page, lab)
            bench.panel.get_by_role("button", name="More parameters").click()
            for driver in DRIVERS:
                bench.choose(driver=driver, pairs=5, duration_s=3, repetitions=5)
                bench.run()
                expect(bench.ready).to_be_visible()
            bench.tab("CDF")
            expect(bench.view.locator("img")).to_be_visible()
            shoot(page, bench.panel, 1250, place / "workbench.png")
            bench.choose_runs("", 5 * len(DRIVERS))
            bench.tab("Difference")
            expect(bench.view.locator(".pairlab-words")).to_be_visible()
            shoot(page, bench.panel.locator(".pairlab-results"), 800, place / "workbench-compare.png")
        finally:
            lab.end()


def shoot(page, top, height: int, file: Path) -> None:
    """The page of that height, scrolled so that `top` is at its top."""
    page.set_viewport_size({"width": 1280, "height": height})
    page.mouse.move(0, 0)  # else a field tells what it means
    top.evaluate("element => element.scrollIntoView()")
    page.screenshot(path=file)


if __name__ == "__main__":
    {"networks": networks, "workbench": workbench}[sys.argv[1]](*map(Path, sys.argv[2:]))
