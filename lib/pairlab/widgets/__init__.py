"""Widgets for notebooks. Each is an ordinary function.

    from pairlab import Spec, widgets

    widgets.run_panel(driver="macvlan", pairs=20)     # a form, Run and Stop, the live view, results and history
    run = widgets.live(Spec(pairs=20, duration_s=5))  # measures, drawn live below the cell; returns the run
    widgets.sweep("smoke")                            # measures a sweep; its progress, Stop and Go on
    widgets.board("smoke")                            # progress of that sweep, measured here or elsewhere
    widgets.compare()                                 # stored runs: filter, overlay, and the difference in words

panel joins form (what to measure), live_view (the measurement under way), results and history. parse and charts are
without widgets, so that tests need no browser; parts has what all of them share.
"""

from pairlab.widgets.history import compare
from pairlab.widgets.live_view import live
from pairlab.widgets.panel import RunPanel, run_panel
from pairlab.widgets.sweep_board import board, sweep

__all__ = ["RunPanel", "board", "compare", "live", "run_panel", "sweep"]
