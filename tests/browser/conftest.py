"""A real JupyterLab, a real browser, and the proof that a test left nothing on the host."""

import contextlib
import time

import pytest

from pairlab import paths
from pairlab.apps import doctor
from pairlab.testbed.audit import snapshot

playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: make setup")

from tests.browser.chromium import chromium  # noqa: E402
from tests.browser.jupyter import KERNEL, Lab  # noqa: E402
from tests.browser.workbench import PATIENCE_MS, Workbench  # noqa: E402

SIZE = {"width": 1280, "height": 800}
SCREENSHOTS = paths.ROOT / ".cache" / "screenshots"


@pytest.fixture(scope="package")
def browser():
    """Chromium, for all tests."""
    if lacks := doctor.missing_browser():
        pytest.skip("; ".join(map(str, lacks)))
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def lab(tmp_path_factory):
    """A JupyterLab that `make lab` would start, for all tests."""
    running = Lab(tmp_path_factory.mktemp("lab"))
    yield running
    running.end()


@pytest.fixture(scope="package")
def desk(browser, lab):
    """Where the workbench is open, for all tests. In the end no kernel runs, and the host is as it was."""
    before = snapshot.take()
    desk = Desk(browser, lab)
    yield desk
    desk.close()
    lab.end_kernels()
    wait_clean(before)


@pytest.fixture
def workbench(desk, lab, request):
    """The workbench, open, with a panel that would measure; the store is empty. The host is clean afterwards.

    A test may end its kernel, or close its page.
    """
    with _used(desk, lab, request):
        yield desk.workbench()


@pytest.fixture
def loaded_workbench(desk, lab, request):
    """The same in a page that has just loaded, before anything is clicked."""
    with _used(desk, lab, request):
        yield desk.load_anew()


@contextlib.contextmanager
def _used(desk, lab, request):
    lab.forget_runs()
    failed, before = request.session.testsfailed, snapshot.take()
    yield
    if request.session.testsfailed > failed:
        desk.close()  # whatever state it is in
        lab.end_kernels()
    wait_clean(before, but=(KERNEL,))
    assert len(lab.kernel_pids()) <= 1


class Desk:
    """Has the workbench open, in one page: to open JupyterLab takes longer than most of what is tried in it."""

    def __init__(self, browser, lab):
        self._browser, self._lab = browser, lab
        self._context = None
        self._workbench = None

    def workbench(self):
        """With its form as new, but for what `forgive` sets; opened where its page is closed, or its kernel ended."""
        if not self._workbench or self._workbench.page.is_closed() or not self._lab.kernel_pids():
            self._load().run_all_cells()
        self._workbench.page.set_viewport_size(SIZE)
        return self._workbench.reset()

    def load_anew(self):
        """In a new page, with a new kernel; nothing was clicked."""
        self._lab.end_kernels()
        self._lab.restore_notebooks()
        return self._load()

    def _load(self):
        if self._workbench:
            self._workbench.page.close()
        self._context = self._context or new_context(self._browser)
        self._workbench = Workbench(self._context.new_page(), self._lab)
        self._workbench.load()
        return self._workbench

    def close(self):
        """Closes the page and its profile."""
        if self._context:
            self._context.close()
        self._context = self._workbench = None


def new_context(browser):
    """A fresh profile."""
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(PATIENCE_MS)
    playwright.expect.set_options(timeout=PATIENCE_MS)
    return context


@pytest.fixture
def picture():
    """Writes a screenshot for people to look at."""

    def picture(page, name, **how):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", **how)

    return picture


def wait_clean(before, but=()):
    """Waits at most 60 s until nothing of pairlab's is there that was not before; the last look is begun after that.

    but: words of processes that may be there.
    """
    deadline = time.monotonic() + 60
    while True:
        last = time.monotonic() > deadline
        if not (left := _left(before, but)):
            return
        assert not last, "left on the host: " + "; ".join(map(str, left))
        time.sleep(0.05)


def _left(before, but):
    found = snapshot.counted(snapshot.diff(before, snapshot.take()), ours_only=True)
    return [each for each in found if not any(word in each.detail for word in but)]
