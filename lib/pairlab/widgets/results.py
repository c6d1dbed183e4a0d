"""The results of chosen runs: a summary, figures that overlay them, and their difference in words."""

import base64
from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
from matplotlib.figure import Figure

from pairlab.analysis.comparison import compute
from pairlab.analysis.figures.files import as_svg
from pairlab.analysis.figures.runs import pictures
from pairlab.errors import PairlabError
from pairlab.model.records import Run
from pairlab.widgets.event_loop import InEventLoop
from pairlab.widgets.style import with_classes

SUMMARY, DIFFERENCE = "Summary", "Difference"
PICTURES: dict[str, Callable[[Sequence[Run]], Figure]] = {
    "CDF": pictures.cdf,
    "Box plot": pictures.box,
    "Time series": pictures.time_series,
    "Retransmits": pictures.retransmits,
    "Measures": pictures.measures,
}
#: Figures have the size for a printed page; a screen is read from farther away.
_ENLARGED = 1.25
#: The summary shows no more runs than this; figures and difference show all.
MAX_SUMMARIES = 4


class Results(ipywidgets.VBox):
    """Shows runs, one view at a time. A view is drawn when it is first opened."""

    def __init__(self):
        self.runs: tuple[Run, ...] = ()
        self._drawn: dict[tuple, str] = {}
        self._in_loop = InEventLoop()
        self.tabs = ipywidgets.ToggleButtons(options=[SUMMARY, *PICTURES, DIFFERENCE], value=SUMMARY)
        self.tabs.observe(lambda change: self._in_loop(self._show), names="value")
        self.by = ipywidgets.Dropdown(
            options=["driver"], description="Compared by", style={"description_width": "auto"}
        )
        self.by.observe(lambda change: self._in_loop(self._show), names="value")
        self.view = with_classes(ipywidgets.HTML(), "pairlab-view")
        super().__init__([with_classes(ipywidgets.Box([self.tabs]), "pairlab-tabs"), self.by, self.view])
        with_classes(self, "pairlab-results")
        self.show(())

    def show(self, runs: Sequence[Run], tab: str | None = None) -> None:
        """Shows these runs, in the open view or in `tab`."""
        self.runs = tuple(runs)
        self._drawn.clear()
        varied = list(compute.varied(self.runs)) if len(self.runs) > 1 else []
        self.by.options = sorted(varied, key=lambda name: name != "driver") or ["driver"]
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
                self._drawn[chosen] = f"<p class='pairlab-message'>{escape(str(error))}</p>"
        self.view.value = self._drawn[chosen]

    def _draw(self, tab: str, by: str) -> str:
        if tab == SUMMARY:
            return summary(self.runs)
        if tab == DIFFERENCE:
            return difference(self.runs, by)
        return figure_html(PICTURES[tab](self.runs), f"{tab} of {'; '.join(map(str, self.runs))}")


def summary(runs: Sequence[Run]) -> str:
    """One table per run."""
    shown = "".join(f"<div class='pairlab-summary'>{run._repr_html_()}</div>" for run in runs[:MAX_SUMMARIES])
    more = len(runs) - MAX_SUMMARIES
    return shown + (f"<p>and {more} more</p>" if more > 0 else "")


def difference(runs: Sequence[Run], by: str) -> str:
    """How runs that differ only in `by` compare, in words. Raises AnalysisError where there are none."""
    if len(runs) < 2:
        return "<p class='pairlab-message'>Choose at least two runs in the history to compare them.</p>"
    return f"<div class='pairlab-words'>{compute.compare(runs, by=by)._repr_html_()}</div>"


def figure_html(figure: Figure, words: str) -> str:
    """A figure as an image on white, whatever the theme. words: its text for screen readers."""
    width_px = round(96 * _ENLARGED * figure.get_figwidth())
    image = base64.b64encode(as_svg(figure).encode()).decode()
    return (
        f"<div class='pairlab-figure' style='width:{width_px + 22}px'>"
        f"<img alt='{escape(words)}' width='{width_px}' src='data:image/svg+xml;base64,{image}'></div>"
    )
