"""Widgets for notebooks, which are ordinary functions, too.

    from pairlab import Spec, widgets

    widgets.run_panel(driver="macvlan", pairs=20)     # a form, Run and Stop, the live view, results and history
    run = widgets.live(Spec(pairs=20, duration_s=5))  # measures, drawn live below the cell; returns the run
    widgets.board("smoke")                            # how far that sweep is, measured here or elsewhere
    widgets.compare()                                 # stored runs: filter, overlay, and the difference in words

panel: joins the parts. asking, choosing, course, shelf: what is asked, what can be, how it goes and what there is, all
without a widget. form, fields, live, results, history, repeat: how these show. charts, style: what they look like.
"""

from pairlab.widgets.board import board
from pairlab.widgets.history import compare
from pairlab.widgets.live import live
from pairlab.widgets.panel import RunPanel, run_panel

__all__ = ["RunPanel", "board", "compare", "live", "run_panel"]
