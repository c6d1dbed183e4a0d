"""What the widgets are made of: style, boxes and buttons, and callbacks in one event loop."""

import asyncio
from collections.abc import Callable
from html import escape
from typing import TypeVar

import anywidget
import ipywidgets

from pairlab import paths

Made = TypeVar("Made")


class Looks(anywidget.AnyWidget):
    """The style sheet, and what screen readers are told; every widget that is shown by itself contains it."""

    _css = paths.DATA / "widgets.css"
    _esm = paths.DATA / "widgets.js"


def heading(text: str) -> ipywidgets.HTML:
    """A heading over a part of a widget. text: trusted, not escaped."""
    return ipywidgets.HTML(f"<h3 class='pairlab-heading'>{text}</h3>")


def frame(*children: ipywidgets.Widget, name: str) -> ipywidgets.VBox:
    """The outer box of a widget that is shown by itself; its CSS class is pairlab-NAME."""
    return with_classes(ipywidgets.VBox([Looks(), *children]), "pairlab", f"pairlab-{name}")


def message(text: str, tone: str = "plain") -> str:
    """What became of something, as HTML that screen readers announce. tone: plain, ok, warn or bad."""
    return f"<span class='pairlab-message pairlab-message-{tone}' role='status'>{escape(text)}</span>"


def row(*children: ipywidgets.Widget) -> ipywidgets.HBox:
    return with_classes(ipywidgets.HBox(children), "pairlab-actions")


def with_classes(widget: ipywidgets.DOMWidget, *classes: str):
    for each in classes:
        widget.add_class(each)
    return widget


def labelled(kind: type[ipywidgets.DOMWidget], label: str, **traits):
    """An input with its label, which is as wide as its text."""
    return kind(description=label, style={"description_width": "auto"}, **traits)


def button(label: str, icon: str, tooltip: str, work: Callable[[], None], style: str = "") -> ipywidgets.Button:
    """A button that calls `work` in the event loop of the cell that made it."""
    made = ipywidgets.Button(description=label, icon=icon, tooltip=tooltip, button_style=style)
    call = _in_this_loop(work)
    made.on_click(lambda clicked: call())
    return made


def mark(clickable: ipywidgets.Button, works: object) -> None:
    """Shows whether a button would do something now. It is never disabled, as that would take the focus from it."""
    (clickable.remove_class if works else clickable.add_class)("pairlab-inactive")


def when_changed(widget: ipywidgets.Widget, work: Callable[[], object], *names: str) -> None:
    """Calls `work` after each change of the widget's value, or of what has these names, in the event loop of the cell
    that asks for this.
    """
    call = _in_this_loop(work)
    widget.observe(lambda change: call(), names=names or "value")


def in_background(work: Callable[[], Made], then: Callable[[Made], None]) -> asyncio.Task[None] | None:
    """Calls `then` with what `work` returns: in an event loop as the task that is returned, with `work` in a thread, so
    that the kernel answers meanwhile; without one, as in a script, at once.
    """

    async def wait() -> None:
        then(await asyncio.to_thread(work))

    if loop := running_loop():
        return loop.create_task(wait())
    then(work())
    return None


def _in_this_loop(work: Callable[[], object]) -> Callable[[], None]:
    """`work`, to be called in any thread: it runs in the event loop that runs now; without one, as in a script, there.

    JupyterLab may deliver widget events in another thread than the one that runs cells (a kernel subshell). Without
    this, two threads would draw and measure at once.
    """
    home = running_loop()

    def call() -> None:
        if home is None or home is running_loop():
            work()
        else:
            home.call_soon_threadsafe(work)

    return call


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, as a notebook's cell has one; None in a script."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
