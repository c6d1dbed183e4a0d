"""Widgets for notebooks. Each is an ordinary function.

    from pairlab import Spec, widgets

    widgets.run_panel(driver="macvlan", pairs=20)     # a form, Run and Stop, the live view, results and history
    run = widgets.live(Spec(pairs=20, duration_s=5))  # measures, drawn live below the cell; returns the run
    widgets.board("smoke")                            # progress of that sweep, measured here or elsewhere
    widgets.compare()                                 # stored runs: filter, overlay, and the difference in words

panel joins the parts: form/ (what to measure), live_view/ (the measurement under way), results and history.
Without widgets, so that tests need no browser: form/parse, live_view/state, live_view/charts and run_list.
"""

from pairlab.widgets.history import compare
from pairlab.widgets.live_view.view import live
from pairlab.widgets.panel import RunPanel, run_panel
from pairlab.widgets.sweep_board import board

__all__ = ["RunPanel", "board", "compare", "live", "run_panel"]
