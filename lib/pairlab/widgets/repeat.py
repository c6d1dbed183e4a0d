"""The measurement that a form asks for, as a line or a file to copy."""

from html import escape

import ipywidgets

from pairlab import repeating
from pairlab.errors import PairlabError
from pairlab.widgets.asking import Asked
from pairlab.widgets.home import Home
from pairlab.widgets.style import dressed


class Repeat(ipywidgets.VBox):
    """Two buttons, each of which opens its text; the text follows the form."""

    def __init__(self):
        self._asked = Asked(None)
        self._home = Home()
        self.buttons = {
            repeating.papermill_command: ipywidgets.ToggleButton(
                description="As papermill command", tooltip="a line for a shell in the checkout", icon="terminal"
            ),
            repeating.sweep_file: ipywidgets.ToggleButton(
                description="As sweep file", tooltip="a file for pairlab sweep", icon="file-text-o"
            ),
        }
        for button in self.buttons.values():
            button.observe(lambda change: self._home(self._show), names="value")
        self.text = ipywidgets.HTML()
        super().__init__([dressed(ipywidgets.HBox([*self.buttons.values()]), "pairlab-actions"), self.text])
        dressed(self, "pairlab-repeat")

    def follow(self, asked: Asked) -> None:
        """Repeats that from now on."""
        self._asked = asked
        self._show()

    def _show(self) -> None:
        texts = [(button.description, make) for make, button in self.buttons.items() if button.value]
        self.text.value = "".join(_copyable(name, self._text(make)) for name, make in texts)

    def _text(self, make) -> str:
        if not self._asked.spec:
            return "mend what is marked above: then it stands here"
        try:
            if make is repeating.sweep_file:
                return make(self._asked.spec, self._asked.repetitions)
            return make(self._asked.spec)
        except PairlabError as error:
            return str(error)


def _copyable(name: str, text: str) -> str:
    """A text that is selected as a whole when it is entered, so that it takes Ctrl-C to have it."""
    rows = max(2, text.count("\n") + 1)
    return (
        f"<label>{escape(name)}: select it, and copy with Ctrl-C"
        f"<textarea readonly spellcheck='false' rows='{rows}' onfocus='this.select()'>{escape(text)}</textarea></label>"
    )
