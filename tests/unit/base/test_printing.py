"""Names that others chose are shown, whichever way they are printed, and a terminal obeys none of them."""

import io

import pytest

from pairlab.base.printing import PlainConsole, echo
from pairlab.cli import terminal
from pairlab.errors import BadInput

#: A title for the window, the screen cleared, the line drawn over, and text that reads from right to left.
HOSTILE = "\x1b]0;title\x07\x1b[2J\rgone\u202etxt.exe"
SHOWN = r"\x1b]0;title\x07\x1b[2J\rgone\u202etxt.exe"


def fail(text):
    with pytest.raises(SystemExit):
        terminal.fail(BadInput(text), terminal.WRONG_INPUT)


WAYS = {
    "a line": echo,
    "a line on stderr": lambda text: echo(text, err=True),
    "a message": terminal.say,
    "an error": fail,
    "a result": terminal.write,
    "a cell of a table": lambda text: terminal.table(["name"], [[text]]),
    "the title of a table": lambda text: terminal.table([text], [["value"]], title=text),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_control_characters_are_shown(way, capsys, monkeypatch):
    monkeypatch.setattr(terminal, "out", PlainConsole(width=200))
    way(HOSTILE)
    printed = "".join(capsys.readouterr())
    assert SHOWN in printed
    assert not {*"\x1b\x07\r\u202e"} & {*printed}


def test_on_a_terminal_styles_are_styles_and_names_are_names():
    screen = io.StringIO()
    PlainConsole(file=screen, force_terminal=True, highlight=False, width=200).print(f"[bold]{HOSTILE}[/]")
    assert screen.getvalue() == f"\x1b[1m{SHOWN}\x1b[0m\n"
