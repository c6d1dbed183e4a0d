"""One field of a form: label, input and error message."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets

from pairlab.widgets.form.choices import Choice
from pairlab.widgets.style import with_classes


class Field(ipywidgets.VBox):
    """The field of one parameter, with the CSS classes pairlab-field and pairlab-field-NAME.

    A list where there are choices, a checkbox where the value is a bool, else text. value: its content.
    """

    def __init__(self, name: str, label: str, meaning: str, value: Any, choices: Sequence[Choice] = ()):
        self.name = name
        self.input = _input(label, meaning, value, choices)
        self._note = ipywidgets.HTML()
        self._error = ""
        super().__init__([self.input, self._note])
        with_classes(self, "pairlab-field", f"pairlab-field-{name.replace('_', '-')}")

    @property
    def value(self) -> Any:
        return self.input.value

    @value.setter
    def value(self, value: Any) -> None:
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
        """Replaces the choices; keeps the value where it is still one of them."""
        kept = self.value
        self.input.options = [(choice.label, choice.name) for choice in choices]
        if kept in [choice.name for choice in choices]:
            self.value = kept

    def when_changed(self, work: Callable[[], None]) -> None:
        self.input.observe(lambda change: work(), names="value")


def _input(label: str, meaning: str, value: Any, choices: Sequence[Choice]) -> ipywidgets.DOMWidget:
    common = {"description": label, "tooltip": meaning, "style": {"description_width": "auto"}}
    if choices:
        names = [choice.name for choice in choices]
        options = [(choice.label, choice.name) for choice in choices]
        if value not in names:
            options.append((f"{value} (unknown)", value))
        return ipywidgets.Dropdown(options=options, value=value, **common)
    if isinstance(value, bool):
        return ipywidgets.Checkbox(value=value, indent=False, **common)
    return ipywidgets.Text(value=value, **common)
