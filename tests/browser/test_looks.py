"""How it looks, measured: text stands out from what is behind it in both themes, and nothing is cut off."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

LOOKS = Path(__file__).with_name("looks.js").read_text()
SIZES = [(800, 800), (1280, 800), (1920, 1080)]


@pytest.fixture
def themed(workbench):
    """The workbench; afterwards JupyterLab's theme is light, as it was."""
    yield workbench
    workbench.choose_theme("Light")


@pytest.mark.parametrize(("theme", "pairs"), [("Light", 5), pytest.param("Dark", 4, marks=pytest.mark.whole)])
def test_all_text_is_readable_and_nothing_is_cut_off(theme, pairs, themed, picture):
    workbench, page = themed, themed.page
    workbench.choose_theme(theme)
    workbench.choose(driver="bridge", pairs=pairs, duration_s=1)
    workbench.run()
    looks = page.evaluate_handle(LOOKS)

    def look(when):
        panel = workbench.panel.element_handle()
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            workbench.panel.scroll_into_view_if_needed()
            picture(page, f"{when}-{theme.lower()}-{width}")
            assert page.evaluate("([looks, panel]) => looks.unreadable(panel)", [looks, panel]) == []
            assert page.evaluate("([looks, panel]) => looks.cutOff(panel)", [looks, panel]) == []

    workbench.wait_until_done()
    for name in ("Summary", "CDF", "Box plot", "Time series", "Retransmits", "Difference"):
        workbench.tab(name)
        look(name.replace(" ", "-").lower())
    message = page.locator(".pairlab-message").first
    for tone in ("ok", "warn", "bad"):  # whichever this run's outcome had
        message.evaluate("(element, tone) => { element.className = `pairlab-message pairlab-message-${tone}` }", tone)
        look(f"message-{tone}")
    workbench.choose(pairs="many")
    expect(workbench.field("pairs").locator(".pairlab-error")).to_be_visible()
    look("bad-input")
