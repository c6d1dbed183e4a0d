"""One field of a form: a label, something to type into or to choose from, and what is wrong with it, in words."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets

from pairlab.widgets.choosing import Choice
from pairlab.widgets.style import dressed


class Field(ipywidgets.VBox):
    """A field for one parameter, with the CSS classes pairlab-field and pairlab-field-NAME.

    A text unless it has choices or a bool for its value. told: what stands in it.
    """

    def __init__(self, name: str, label: str, meaning: str, value: Any, choices: Sequence[Choice] = ()):
        self.name = name
        self.input = _input(label, meaning, value, choices)
        self._note = ipywidgets.HTML()
        self._error = ""
        super().__init__([self.input, self._note])
        dressed(self, "pairlab-field", f"pairlab-field-{name.replace('_', '-')}")

    @property
    def told(self) -> Any:
        return self.input.value

    @told.setter
    def told(self, value: Any) -> None:
        self.input.value = value

    @property
    def error(self) -> str:
        return self._error

    @error.setter
    def error(self, words: str) -> None:
        if words == self._error:
            return
        self._error = words
        self._note.value = f"<span class='pairlab-error' role='alert'>{escape(words)}</span>" if words else ""
        (self.add_class if words else self.remove_class)("pairlab-invalid")

    def offer(self, choices: Sequence[Choice]) -> None:
        """Other choices, with what is chosen kept where it still is one."""
        kept = self.told
        self.input.options = [(choice.shown, choice.name) for choice in choices]
        if kept in [choice.name for choice in choices]:
            self.told = kept

    def when_changed(self, work: Callable[[], None]) -> None:
        self.input.observe(lambda change: work(), names="value")


def _input(label: str, meaning: str, value: Any, choices: Sequence[Choice]) -> ipywidgets.DOMWidget:
    told = {"description": label, "tooltip": meaning, "style": {"description_width": "auto"}}
    if choices:
        names = [choice.name for choice in choices]
        options = [(choice.shown, choice.name) for choice in choices]
        if value not in names:
            options.append((f"{value} (unknown)", value))
        return ipywidgets.Dropdown(options=options, value=value, **told)
    if isinstance(value, bool):
        return ipywidgets.Checkbox(value=value, indent=False, **told)
    return ipywidgets.Text(value=value, **told)
