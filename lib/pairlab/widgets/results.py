"""The results of chosen runs: a sentence, a summary, figures that overlay them, and how they differ in words."""

import base64
from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
import pandas as pd

from pairlab.analysis.comparison.cells import varied
from pairlab.analysis.comparison.compute import compare
from pairlab.analysis.figures.files import as_png, as_svg
from pairlab.analysis.figures.runs import pictures
from pairlab.errors import PairlabError
from pairlab.model.records import Run
from pairlab.widgets.parts import labelled, message, when_changed, with_classes

SUMMARY, DIFFERENCE = "Summary", "Difference"
PICTURES: dict[str, Callable[[Sequence[Run]], pictures.Picture]] = {
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
#: Of a figure, no more places have a name for who points at them.
MAX_NAMED = 1000
#: What the table of flows says of each one's run.
_TOLD = ("experiment", "backend", "driver", "workload", "pairs", "repetition")
#: A page has a table of no more rows to save.
MAX_SAVED_ROWS = 20_000


class Results(ipywidgets.VBox):
    """Shows runs, one view at a time. A view is drawn when it is first opened."""

    def __init__(self):
        self.runs: tuple[Run, ...] = ()
        self._drawn: dict[tuple, str] = {}
        self.tabs = ipywidgets.ToggleButtons(options=[SUMMARY, *PICTURES, DIFFERENCE], value=SUMMARY)
        self.by = labelled(ipywidgets.Dropdown, "Compared by", options=["driver"])
        for each in (self.tabs, self.by):
            when_changed(each, self._show)
        self.sentence = with_classes(ipywidgets.HTML(), "pairlab-sentence")
        self.view = with_classes(ipywidgets.HTML(), "pairlab-view")
        tabs = with_classes(ipywidgets.Box([self.tabs]), "pairlab-tabs")
        super().__init__([self.sentence, tabs, self.by, self.view])
        with_classes(self, "pairlab-results")
        self.show(())

    def show(self, runs: Sequence[Run], tab: str | None = None) -> None:
        """Shows these runs, in the open view or in `tab`."""
        self.runs = tuple(runs)
        self._drawn.clear()
        varied_by = list(varied(self.runs)) if len(self.runs) > 1 else []
        self.by.options = sorted(varied_by, key=lambda name: name != "driver") or ["driver"]
        self.layout.display = "" if runs else "none"
        if tab:
            self.tabs.value = tab
        self._show()

    def _show(self) -> None:
        chosen = (self.tabs.value, self.by.value)
        self.by.layout.display = "" if chosen[0] == DIFFERENCE and len(self.by.options) > 1 else "none"
        if not self.runs:
            self.sentence.value = self.view.value = ""
            return
        said = ("sentence", chosen[1])  # the same in each view
        if said not in self._drawn:
            self._drawn[said] = message(sentence(self.runs, chosen[1]))
        self.sentence.value = self._drawn[said]
        if chosen not in self._drawn:
            try:
                self._drawn[chosen] = self._draw(*chosen)
            except PairlabError as error:
                self._drawn[chosen] = f"<p class='pairlab-message'>{escape(str(error))}</p>"
        self.view.value = self._drawn[chosen]

    def _draw(self, tab: str, by: str) -> str:
        if tab == SUMMARY:
            return summary(self.runs)
        if tab != DIFFERENCE:
            said = f"{tab} of {'; '.join(map(str, self.runs))}"
            return figure_html(PICTURES[tab](self.runs), said, tab.lower().replace(" ", "-"), self.runs)
        return difference(self.runs, by)


def sentence(runs: Sequence[Run], by: str) -> str:
    """What these runs say, in a sentence: of one its outcome, of two or more how they differ in `by`."""
    if len(runs) == 1:
        return f"{runs[0]}."
    if not varied(runs):
        return f"{len(runs)} repetitions; the last: {runs[-1]}."
    try:
        first, *others = compare(runs, by=by)
    except PairlabError as error:
        return f"{len(runs)} runs: {error}"
    more = f" {len(others)} more comparisons are under {DIFFERENCE}." if others else ""
    verdict = "" if first.verdict in first.words else f" ({first.verdict})"
    return f"{first.words}{verdict}.{more}"


def summary(runs: Sequence[Run]) -> str:
    shown = "".join(f"<div class='pairlab-summary'>{run._repr_html_()}</div>" for run in runs[:MAX_SUMMARIES])
    more = len(runs) - MAX_SUMMARIES
    return shown + (f"<p>and {more} more</p>" if more > 0 else "")


def difference(runs: Sequence[Run], by: str) -> str:
    """How runs that differ only in `by` compare, in words. Raises AnalysisError where there are none."""
    if len(runs) < 2:
        return "<p class='pairlab-message'>Tick at least two runs in the table to compare them.</p>"
    return f"<div class='pairlab-words'>{compare(runs, by=by)._repr_html_()}</div>"


def figure_html(figure: pictures.Picture, text: str, name: str, runs: Sequence[Run]) -> str:
    """A figure as an image on white, whatever the theme, and what it can be saved as.

    text: for screen readers; name: of the files.
    """
    width_px = round(96 * _ENLARGED * figure.get_figwidth())
    drawn = as_svg(figure).encode()
    saved = {"SVG": ("svg", "image/svg+xml", drawn), "PNG": ("png", "image/png", as_png(figure))}
    if sum(len(run.flows) for run in runs) <= MAX_SAVED_ROWS:
        saved["CSV of its flows"] = ("csv", "text/csv", _flows_of(runs).to_csv(index=False).encode())
    links = " · ".join(
        f"<a download='{name}.{suffix}' href='{_as_address(kind, content)}'>{label}</a>"
        for label, (suffix, kind, content) in saved.items()
    )
    return (
        f"<div class='pairlab-zoom'><div class='pairlab-figure' style='width:{width_px + 22}px'><div>"
        f"<img alt='{escape(text)}' width='{width_px}' src='{_as_address('image/svg+xml', drawn)}'>"
        f"{_named_places(figure)}</div></div>"
        f"<p class='pairlab-saved'><label><input type='checkbox'> Enlarge</label> · Save as {links}</p></div>"
    )


def _named_places(figure: pictures.Picture) -> str:
    """What lies over the image, and says what one points at."""
    width, height = (100 * inches for inches in figure.get_size_inches())
    spots = "".join(
        f"<circle cx='{width * x:.1f}' cy='{height * y:.1f}' r='6'><title>{escape(words)}</title></circle>"
        for x, y, words in figure.places[:MAX_NAMED]
    )
    return f"<svg viewBox='0 0 {width:g} {height:g}' aria-hidden='true'>{spots}</svg>"


def _flows_of(runs: Sequence[Run]) -> pd.DataFrame:
    """Their flows, each after its run, with its verdict: also of runs that are not ok, as the figures show them."""
    every = []
    for run in runs:
        about = {"key": run.key, "verdict": run.status, **{name: getattr(run.spec, name) for name in _TOLD}}
        every.append(run.flows.assign(**about)[[*about, *run.flows]])
    return pd.concat(every, ignore_index=True)


def _as_address(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
