"""pairlab's commands in JupyterLab: in its palette, by the keyboard."""

import contextlib
import json

from playwright.sync_api import TimeoutError, expect


def command(page, words):
    """Where a notebook is still opening, its focus closes the palette: it is opened again then."""
    for _ in range(10):
        page.keyboard.press("Control+Shift+C")
        with contextlib.suppress(TimeoutError):
            page.locator(".lm-CommandPalette-input").fill(words, timeout=3000)
            page.locator(".lm-CommandPalette-item.lm-mod-active", has_text=words).wait_for(timeout=3000)
            page.keyboard.press("Enter")
            return
    raise AssertionError("the palette does not stay open")


def new_experiment(page):
    command(page, "New experiment")
    page.locator(".jp-Dialog input").fill("of-my-own")
    page.locator(".jp-Dialog").get_by_role("button", name="Ok").click()


def test_a_new_experiment_is_a_notebook_that_opens_and_its_name_is_taken_then(workbench, lab):
    page = workbench.page
    new_experiment(page)
    expect(page.locator(".lm-TabBar-tabLabel", has_text="of-my-own.ipynb")).to_be_visible()
    new_experiment(page)
    expect(page.locator(".jp-Dialog")).to_contain_text("there is an experiment 'of-my-own' already")
    page.locator(".jp-Dialog").get_by_role("button").last.click()
    made = lab.root / "notebooks" / "experiments" / "of-my-own.ipynb"
    assert 'experiment="of-my-own"' in "".join(map(str, json.loads(made.read_text())["cells"])).replace("\\", "")
    (ours,) = [each for each in lab.api("GET", "api/sessions") if each["path"].endswith(made.name)]
    lab.api("DELETE", f"api/sessions/{ours['id']}")
    page.locator(".lm-TabBar-tab", has_text=made.name).locator(".lm-TabBar-tabCloseIcon").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Discard").click()  # its kernel's name was noted in it
    expect(page.locator(".jp-NotebookPanel")).to_have_count(1)
    made.unlink()
