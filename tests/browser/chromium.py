"""The browser: Chromium, headless, which looks for nothing outside."""

import contextlib
import os

from playwright.sync_api import Browser, sync_playwright

from pairlab.apps import doctor
from tests.support import host

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextlib.contextmanager
def chromium() -> Browser:
    """One that runs. Its processes are none of pairlab's, so they do not bear this session's mark."""
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    unmarked = {name: value for name, value in os.environ.items() if name != host.MARK}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=doctor.browser(), args=flags, env=unmarked)
        yield browser
        browser.close()
