"""A real JupyterLab, a real browser, and the proof that a test left nothing on the host."""

import time

import pytest

from pairlab import doctor, paths
from pairlab.testbed import snapshot

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: make setup")

from tests.browser.chromium import chromium  # noqa: E402
from tests.browser.jupyter import Lab  # noqa: E402
from tests.browser.workbench import PATIENCE_MS, Workbench  # noqa: E402

SIZE = {"width": 1280, "height": 800}
SCREENSHOTS = paths.ROOT / ".cache" / "screenshots"


@pytest.fixture(scope="package")
def browser():
    """Chromium, for all tests; each has a profile of its own."""
    if lacks := doctor.browser_lacks():
        pytest.skip("; ".join(map(str, lacks)))
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def lab(tmp_path_factory):
    """A JupyterLab that `make lab` would start, for all tests; each has kernels of its own."""
    running = Lab(tmp_path_factory.mktemp("lab"))
    yield running
    running.end()


@pytest.fixture(scope="package")
def desk(browser, lab):
    """Where the workbench is open, for the tests that leave its page and its kernel alive."""
    desk = Desk(browser, lab)
    yield desk
    desk.clear()


@pytest.fixture
def workbench(desk, lab, request):
    """The workbench with a panel as new, forgiving, at 1280 x 800; the store is empty. The host is clean afterwards."""
    lab.forget_runs()
    failed = request.session.testsfailed
    workbench = desk.workbench()
    before = snapshot.take()
    yield workbench.forgive()
    if request.session.testsfailed > failed:
        desk.clear()  # whatever state it is in
    wait_clean(before)


@pytest.fixture
def page(browser, lab, desk):
    """A page of a fresh browser profile; the store is empty. Afterwards, no kernel runs and the host is as it was."""
    desk.clear()  # of one notebook there is one kernel, whichever page it is in
    lab.forget_runs()
    before = snapshot.take()
    page = new_page(browser)
    yield page
    page.context.close()
    lab.end_kernels()
    wait_clean(before)


@pytest.fixture
def own_workbench(page, lab):
    """The workbench in a page of the test's own, which may close it, or end its kernel."""
    return Workbench(page, lab).open().forgive()


class Desk:
    """Has the workbench open, in one page: to open JupyterLab takes longer than most of what is tried in it."""

    def __init__(self, browser, lab):
        self._browser, self._lab = browser, lab
        self._workbench = None

    def workbench(self):
        """With all of its cells run anew."""
        if self._workbench is None:
            self._workbench = Workbench(new_page(self._browser), self._lab)
            self._workbench.load()
        else:
            self._workbench.page.set_viewport_size(SIZE)
            self._workbench.clear_all_outputs()
        self._workbench.run_all_cells()
        return self._workbench

    def clear(self):
        """Closes the page, and ends its kernel."""
        if self._workbench:
            self._workbench.page.context.close()
            self._workbench = None
            self._lab.end_kernels()


def new_page(browser):
    """A page of a fresh profile."""
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(PATIENCE_MS)
    playwright.expect.set_options(timeout=PATIENCE_MS)
    return context.new_page()


@pytest.fixture
def picture():
    """Writes a screenshot for people to look at."""

    def picture(page, name, **how):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", **how)

    return picture


def wait_clean(before, but=()):
    """Waits at most 5 s until nothing of pairlab's is there that was not before; the last look is begun after that.

    but: words of processes that may be there.
    """
    deadline = time.monotonic() + 5
    while True:
        last = time.monotonic() > deadline
        if not (left := _left(before, but)):
            return
        assert not last, "left on the host: " + "; ".join(map(str, left))
        time.sleep(0.05)


def _left(before, but):
    found = snapshot.counted(snapshot.diff(before, snapshot.take()), ours_only=True)
    return [each for each in found if not any(word in each.told for word in but)]
