"""What cannot be measured is told where it was typed, in words, and builds nothing; and the keyboard alone will do."""

from playwright.sync_api import expect

from pairlab import store
from pairlab.testbed.audit import snapshot
from tests.browser.conftest import wait_clean
from tests.support.runs import made_up

#: A field, what is typed into it, and a word of what is told.
TROUBLES = [
    ("pairs", "many", "number"),
    ("pairs", "99999", "5000"),
    ("pairs", "", "number"),
    ("duration_s", "-1", "greater"),
]


def test_the_keyboard_alone_measures(loaded_workbench, lab):
    """The page shows the panel by itself; from there on Tab, Space, arrows and Enter."""
    workbench, page = loaded_workbench, loaded_workbench.page
    press = page.keyboard.press
    expect(workbench.field("experiment").locator("select")).to_be_focused()
    workbench.forgive()
    workbench.field("experiment").locator("select").focus()
    tab_to(page, ".pairlab-field-driver select")
    drivers = workbench.field("driver").locator("select")
    names = drivers.evaluate("select => [...select.options].map(option => option.value)")
    steps = names.index("macvlan") - names.index(drivers.input_value())
    press("Space")
    expect(workbench.field("driver").locator("select:open")).to_be_visible()  # while closed, arrows are JupyterLab's
    for key in (*["ArrowDown" if steps > 0 else "ArrowUp"] * abs(steps), "Enter"):
        press(key)
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


def test_a_field_says_what_it_means_to_the_pointer_and_to_the_focus(workbench, picture):
    field = workbench.field("duration_s")
    meaning = field.locator(".pairlab-help")
    workbench.page.mouse.move(0, 0)
    workbench.field("driver").locator("select").focus()
    expect(meaning).to_be_hidden()
    field.hover()
    expect(meaning).to_contain_text("measuring window")
    expect(meaning).to_be_visible()
    picture(workbench.page, "meaning")
    workbench.page.mouse.move(0, 0)
    expect(meaning).to_be_hidden()
    field.locator("input").focus()
    expect(meaning).to_be_visible()


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


def test_screen_readers_are_told_what_is_wrong_unfolded_and_selected(workbench):
    panel = workbench.panel
    pairs = workbench.field("pairs").locator("input")
    workbench.choose(pairs="many")
    expect(pairs).to_have_attribute("aria-invalid", "true")
    workbench.choose(pairs=2)
    expect(pairs).to_have_attribute("aria-invalid", "false")
    more = panel.get_by_role("button", name="More parameters")
    was = more.get_attribute("aria-expanded")
    more.click()
    expect(more).to_have_attribute("aria-expanded", "false" if was == "true" else "true")
    more.click()
    file = panel.get_by_role("button", name="As sweep file")
    file.click()
    expect(file).to_have_attribute("aria-expanded", "true")
    file.click()


def test_the_view_that_is_open_is_the_tab_that_is_selected(workbench, lab):
    store.write(made_up(pairs=3), lab.root / "runs")
    workbench.reset()
    workbench.choose_runs("", len(lab.runs()))
    for name in ("CDF", "Summary"):
        workbench.tab(name)
        expect(workbench.panel.get_by_role("tab", selected=True)).to_have_text(name)
