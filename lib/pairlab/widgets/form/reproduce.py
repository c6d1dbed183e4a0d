"""The measurement that a form asks for, as a command or a sweep file to copy."""

from html import escape

import ipywidgets

from pairlab.batch import reproduce
from pairlab.errors import PairlabError
from pairlab.widgets.event_loop import InEventLoop
from pairlab.widgets.form.parse import Request
from pairlab.widgets.style import with_classes


class Reproduce(ipywidgets.VBox):
    """Two buttons, each of which opens its text; the text is updated with the form."""

    def __init__(self):
        self._request = Request(None)
        self._in_loop = InEventLoop()
        self.buttons = {
            reproduce.papermill_command: ipywidgets.ToggleButton(
                description="As papermill command",
                tooltip="a shell command for the checkout",
                icon="terminal",
            ),
            reproduce.sweep_file: ipywidgets.ToggleButton(
                description="As sweep file", tooltip="a file for pairlab sweep", icon="file-text-o"
            ),
        }
        for button in self.buttons.values():
            button.observe(lambda change: self._in_loop(self._show), names="value")
        self.text = ipywidgets.HTML()
        super().__init__([with_classes(ipywidgets.HBox([*self.buttons.values()]), "pairlab-actions"), self.text])
        with_classes(self, "pairlab-reproduce")

    def update(self, request: Request) -> None:
        """Shows the texts of that request from now on."""
        self._request = request
        self._show()

    def _show(self) -> None:
        texts = [(button.description, make) for make, button in self.buttons.items() if button.value]
        self.text.value = "".join(_copyable(name, self._text(make)) for name, make in texts)

    def _text(self, make) -> str:
        if not self._request.spec:
            return "correct the fields marked above first"
        try:
            if make is reproduce.sweep_file:
                return make(self._request.spec, self._request.repetitions)
            return make(self._request.spec)
        except PairlabError as error:
            return str(error)


def _copyable(name: str, text: str) -> str:
    """A text that is selected as a whole when it gets the focus, so that Ctrl-C copies it."""
    rows = max(2, text.count("\n") + 1)
    return (
        f"<label>{escape(name)}: select it and copy it with Ctrl-C"
        f"<textarea readonly spellcheck='false' rows='{rows}' onfocus='this.select()'>{escape(text)}</textarea></label>"
    )
