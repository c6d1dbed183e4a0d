"""What cannot be measured is told where it was typed, in words, and builds nothing; and the keyboard alone will do."""

from playwright.sync_api import expect

from pairlab.testbed.audit import snapshot
from tests.browser.conftest import wait_clean

#: A field, what is typed into it, and a word of what is told.
TROUBLES = [
    ("pairs", "many", "number"),
    ("pairs", "99999", "5000"),
    ("pairs", "", "number"),
    ("duration_s", "-1", "greater"),
]


def test_the_keyboard_alone_measures(loaded_workbench, lab):
    """Shift-Enter runs a cell, as everywhere in JupyterLab; from there on Tab, Space, arrows and Enter."""
    workbench, page = loaded_workbench, loaded_workbench.page
    press = page.keyboard.press
    page.wait_for_function("document.activeElement.closest('.jp-Notebook')")
    press("Shift+Enter")
    press("Shift+Enter")
    expect(workbench.ready).to_be_visible()
    tab_to(page, ".pairlab-field-driver select")
    drivers = workbench.field("driver").locator("select")
    names = drivers.evaluate("select => [...select.options].map(option => option.value)")
    steps = names.index("macvlan") - names.index(drivers.input_value())
    for key in ("Space", *["ArrowDown" if steps > 0 else "ArrowUp"] * abs(steps), "Enter"):
        press(key)  # with its list closed, arrows are JupyterLab's
    expect(drivers).to_have_value("macvlan")
    tab_to(page, ".pairlab-field-pairs input")
    page.keyboard.type("3")  # over what was there, as Tab selects it
    tab_to(page, ".pairlab-field-duration-s input")
    page.keyboard.type("1")
    tab_to(page, "button.pairlab-run")
    workbench.watch()
    press("Enter")
    workbench.wait_until_begun()
    (run,) = lab.wait_for_runs()
    assert (run.spec.driver, run.spec.pairs, run.spec.duration_s) == ("macvlan", 3, 1.0)
    workbench.wait_until_done()
    expect(workbench.run_button).to_be_focused()  # where one goes on
    tab_to(page, ".pairlab-tabs button[aria-label='Box plot'], .pairlab-tabs button:has-text('Box plot')")
    press("Space")
    expect(workbench.view.locator("img[alt^='Box plot']")).to_be_visible()


def test_bad_input_is_told_at_its_field_and_builds_nothing(workbench, lab):
    before = snapshot.take()
    for name, typed, word in TROUBLES:
        workbench.choose(**{name: typed})
        trouble = workbench.field(name).locator(".pairlab-error")
        expect(trouble).to_contain_text(word)
        expect(workbench.ready).to_have_count(0)
        workbench.choose(**{name: 2})
        expect(trouble).to_have_count(0)
        expect(workbench.ready).to_be_visible()
    wait_clean(before)
    assert lab.runs() == []


def test_what_vanished_since_is_told_at_its_field_and_builds_nothing(workbench, lab):
    before = snapshot.take()
    away = lab.flowgen.rename(lab.flowgen.with_name("away"))
    trouble = workbench.field("backend").locator(".pairlab-error")
    try:
        workbench.run_button.click()
        expect(trouble).to_contain_text("flowgen is not built: make setup")
        expect(workbench.status).to_contain_text("Not started")
        wait_clean(before)
        assert lab.runs() == []
    finally:
        away.rename(lab.flowgen)
    workbench.choose(pairs="many")
    workbench.run_button.click()  # it looks again, and finds only this wrong
    expect(trouble).to_have_count(0)
    expect(workbench.field("pairs").locator(".pairlab-error")).to_contain_text("number")


def test_the_keyboard_alone_stops_and_goes_on(workbench, lab):
    press = workbench.page.keyboard.press
    workbench.choose(pairs=2, duration_s=60)
    tab_to(workbench.page, "button.pairlab-run")
    for _ in range(2):
        workbench.watch()
        press("Enter")
        workbench.wait_until_begun()
        press("Tab")
        expect(workbench.stop_button).to_be_focused()
        expect(workbench.figures).to_contain_text("total")
        press("Enter")
        expect(workbench.status).to_contain_text("Stopped.")
        expect(workbench.run_button).to_be_focused()
        expect(workbench.ready).to_be_visible()
    assert lab.runs() == []


def tab_to(page, selector):
    """Presses Tab until the focus is there: at most once round the page."""
    wanted = page.locator(selector)
    for _ in range(150):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never came to {selector}")
