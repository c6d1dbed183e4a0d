"""What chosen runs show: a summary, pictures of them overlaid, and how they differ, in words."""

import base64
from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
from matplotlib.figure import Figure

from pairlab.analysis import comparison, run_pictures
from pairlab.analysis.figure_files import as_svg
from pairlab.errors import PairlabError
from pairlab.records import Run
from pairlab.widgets.home import Home
from pairlab.widgets.style import dressed

SUMMARY, DIFFERENCE = "Summary", "Difference"
PICTURES: dict[str, Callable[[Sequence[Run]], Figure]] = {
    "CDF": run_pictures.cdf,
    "Box plot": run_pictures.box,
    "Time series": run_pictures.time_series,
    "Retransmits": run_pictures.retransmits,
}
#: Figures have the size that suits a page of print; a screen is read from farther away.
_ENLARGED = 1.25
#: So many runs are summed up each; of more, the pictures and the difference tell.
MOST_SUMMARIES = 4


class Results(ipywidgets.VBox):
    """Shows runs, one view at a time; nothing is drawn before it is looked at."""

    def __init__(self):
        self.runs: tuple[Run, ...] = ()
        self._drawn: dict[tuple, str] = {}
        self._home = Home()
        self.tabs = ipywidgets.ToggleButtons(options=[SUMMARY, *PICTURES, DIFFERENCE], value=SUMMARY)
        self.tabs.observe(lambda change: self._home(self._show), names="value")
        self.by = ipywidgets.Dropdown(
            options=["driver"], description="Compared by", style={"description_width": "auto"}
        )
        self.by.observe(lambda change: self._home(self._show), names="value")
        self.view = dressed(ipywidgets.HTML(), "pairlab-view")
        super().__init__([dressed(ipywidgets.Box([self.tabs]), "pairlab-tabs"), self.by, self.view])
        dressed(self, "pairlab-results")
        self.show(())

    def show(self, runs: Sequence[Run], tab: str | None = None) -> None:
        """Shows these runs, in the view that is open, or in `tab`."""
        self.runs = tuple(runs)
        self._drawn.clear()
        ways = list(comparison.varied(self.runs)) if len(self.runs) > 1 else []
        self.by.options = sorted(ways, key=lambda name: name != "driver") or ["driver"]
        self.layout.display = "" if runs else "none"
        if tab:
            self.tabs.value = tab
        self._show()

    def _show(self) -> None:
        chosen = (self.tabs.value, self.by.value)
        self.by.layout.display = "" if chosen[0] == DIFFERENCE and len(self.by.options) > 1 else "none"
        if not self.runs:
            self.view.value = ""
            return
        if chosen not in self._drawn:
            try:
                self._drawn[chosen] = self._draw(*chosen)
            except PairlabError as error:
                self._drawn[chosen] = f"<p class='pairlab-told'>{escape(str(error))}</p>"
        self.view.value = self._drawn[chosen]

    def _draw(self, tab: str, by: str) -> str:
        if tab == SUMMARY:
            return summary(self.runs)
        if tab == DIFFERENCE:
            return difference(self.runs, by)
        return on_paper(PICTURES[tab](self.runs), f"{tab} of {'; '.join(map(str, self.runs))}")


def summary(runs: Sequence[Run]) -> str:
    """A card for each of the runs."""
    more = len(runs) - MOST_SUMMARIES
    told = f"<p>and {more} more</p>" if more > 0 else ""
    return "".join(f"<div class='pairlab-summary'>{run._repr_html_()}</div>" for run in runs[:MOST_SUMMARIES]) + told


def difference(runs: Sequence[Run], by: str) -> str:
    """How runs that are alike but for `by` differ, in words. Raises AnalysisError where no two are alike."""
    if len(runs) < 2:
        return "<p class='pairlab-told'>Choose two runs or more in the history to compare them.</p>"
    return f"<div class='pairlab-words'>{comparison.compare(runs, by=by)._repr_html_()}</div>"


def on_paper(figure: Figure, words: str) -> str:
    """A figure as an image on white, whatever the theme; words: what it shows, for who cannot see it."""
    width_px = round(96 * _ENLARGED * figure.get_figwidth())
    image = base64.b64encode(as_svg(figure).encode()).decode()
    return (
        f"<div class='pairlab-paper' style='width:{width_px + 22}px'>"
        f"<img alt='{escape(words)}' width='{width_px}' src='data:image/svg+xml;base64,{image}'></div>"
    )
