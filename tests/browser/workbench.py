"""The workbench as a person sees it: its notebook in JupyterLab, and the panel in it."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from pairlab.batch import experiments
from tests.browser.jupyter import PATIENCE_S, Lab

#: How long a page may take for anything: a loaded machine has its time.
PATIENCE_MS = 1000 * PATIENCE_S
#: What a new form has in the fields that tests fill in.
NEW_FORM = {"driver": "bridge", "pairs": 2, "duration_s": 2, "repetitions": 1}
SEEN = Path(__file__).with_name("seen.js").read_text()


def exactly(words: str) -> re.Pattern[str]:
    """These words and no others, as Playwright looks for text."""
    return re.compile(rf"^\s*{re.escape(words)}\s*$")


class Workbench:
    """An open notebook. panel: the panel's element, after `load`; ready: Run, while it would measure."""

    def __init__(self, page: Page, lab: Lab):
        self.page = page
        self.lab = lab
        self.panel = page.locator(".pairlab-panel")
        self.status = self.panel.locator(".pairlab-status")
        self.run_button = self.panel.locator("button.pairlab-run")
        self.stop_button = self.panel.locator("button.pairlab-stop")
        self.ready = self.panel.locator("button.pairlab-run:not(.pairlab-inactive)")
        self.figures = self.panel.locator(".pairlab-numbers")
        self.view = self.panel.locator(".pairlab-view")

    @classmethod
    def with_panel(cls, page: Page, lab: Lab) -> "Workbench":
        """The workbench in that page, loaded, its panel shown and forgiving of what else the host does."""
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        workbench = cls(page, lab)
        workbench.load()
        workbench.forgive()
        return workbench

    def load(self) -> None:
        """Opens the address that `make lab` printed, and waits for the kernel and the panel."""
        self.page.goto(self.lab.address)
        expect(self.page.locator(".jp-Notebook .jp-Cell").first).to_be_visible()
        expect(self.page.locator("#jp-main-statusbar")).to_contain_text("pairlab | Idle")  # a kernel by that name
        expect(self.page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_attached()
        expect(self.ready).to_be_visible()  # by itself

    def menu(self, name: str, command: str) -> None:
        """Chooses an item of the menu bar."""
        self.page.locator(".lm-MenuBar-item", has_text=exactly(name)).click()
        self.page.locator(f"[data-command='{command}'][data-type=command]").click()

    def run_all_cells(self) -> None:
        """As the Run menu does; a new panel is there then, and one of before is gone."""
        self.panel.evaluate_all("panels => panels.forEach(each => each.classList.add('of-before'))")
        self.menu("Run", "runmenu:run-all")
        expect(self.page.locator(".pairlab-panel.of-before")).to_have_count(0)
        expect(self.ready).to_be_visible()

    def choose_theme(self, name: str) -> None:
        """As Settings, Theme does. name: Light or Dark."""
        self.page.locator(".lm-MenuBar-item", has_text=exactly("Settings")).click()
        self.page.locator(".lm-Menu-item[data-type=submenu]", has_text=exactly("Theme")).click()
        themes = self.page.locator("[data-command='apputils:change-theme']")
        themes.filter(has_text=exactly(f"JupyterLab {name}")).click()
        light = "true" if name == "Light" else "false"
        expect(self.page.locator(f"body[data-jp-theme-light={light}]")).to_be_attached()

    def field(self, name: str) -> Locator:
        """The field of that parameter, with its label and what is wrong with it."""
        return self.panel.locator(f".pairlab-field-{name.replace('_', '-')}")

    def choose(self, **values: object) -> None:
        """Fills in the form; a driver or a backend is chosen from its list."""
        for name, value in values.items():
            field = self.field(name)
            if name == "experiment":  # its options are headings of notebooks
                field.locator("select").select_option(experiments.title(str(value)))
            elif field.locator("select").count():
                field.locator("select").select_option(str(value))
            else:
                field.locator("input").fill(str(value))

    def forgive(self) -> "Workbench":
        """Lets runs be valid on a machine that does other things, too: with a browser, it does."""
        if not self.field("max_skew_s").is_visible():
            self.panel.get_by_role("button", name="More parameters").click()
        self.choose(max_foreign_cpu=1, max_skew_s=60)
        return self

    def reset(self) -> "Workbench":
        """Forgiving, with all that tests choose as in a new form, and a history that lists what is stored now."""
        self.choose(experiment="throughput")
        expect(self.field("background_pairs")).to_have_count(0)
        self.forgive()
        self.choose(**NEW_FORM)
        self.panel.get_by_role("textbox", name="Find", exact=True).fill("")
        self.panel.get_by_role("button", name="Refresh").click()
        expect(self.runs()).to_have_count(len(self.lab.runs()))
        expect(self.panel.locator(".pairlab-preview")).to_contain_text("2 client and 2 server namespaces on bridge")
        expect(self.ready).to_be_visible()
        return self

    def watch(self) -> None:
        """From now on notes what the panel shows: see `seen`."""
        self.panel.evaluate(SEEN)

    def seen(self) -> dict[str, Any]:
        """What the panel showed since `watch`: phases, figures, drawn paths; whether Stop would have done something."""
        return self.page.evaluate("window.pairlabSeen")

    def run(self) -> None:
        """Presses Run, and comes back when it runs, or has run. Watches from there on."""
        self.watch()
        self.run_button.click()
        self.wait_until_begun()

    def wait_until_begun(self) -> None:
        self.page.wait_for_function("window.pairlabSeen.stoppable")

    def wait_until_done(self) -> None:
        expect(self.ready).to_be_visible()
        expect(self.status).to_contain_text(re.compile("stored", re.IGNORECASE))

    def tab(self, name: str) -> None:
        """Opens a view of the results."""
        self.panel.get_by_role("tab", name=name, exact=True).click()

    def runs(self) -> Locator:
        """The rows of the table of runs."""
        return self.panel.locator(".pairlab-table tbody tr")

    def choose_runs(self, words: str, count: int) -> None:
        """Ticks those that `words` finds, which are so many."""
        self.panel.get_by_role("textbox", name="Find", exact=True).fill(words)
        expect(self.runs()).to_have_count(count)
        self.panel.get_by_label("choose all that are listed").check()
