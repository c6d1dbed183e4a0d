"""Names as nobody should give them: each would run something, if a shell ever read it."""

from pathlib import Path

#: What a shell that reads it would do: make the file that this variable of the environment names. No `/` is needed.
VARIABLE = "PAIRLAB_C"
_RUNS = f'>"${VARIABLE}"'

#: By what is in them. Any of these can be the name of a file.
NAMES = {
    "substitution": f"a$({_RUNS})b",
    "backticks": f"a`{_RUNS}`b",
    "list": f"a;{_RUNS};b",
    "double quotes": f'a" ;{_RUNS}; "b',
    "single quotes": f"a' ;{_RUNS}; 'b",
    "spaces": "two  words and more ",
    "newline": f"one\n{_RUNS}\ntwo",
    "redirection": f"a|{_RUNS}&b",
    "pattern": "[a-z]*?{x,y}",
    "braces": "{0}{pairs}{}%s%(x)s",
    "option": "--version",
    "backslash": "a\\",
    "unicode": "ünï\u202ecode \U0001f980",
    "not UTF-8": "a\udcffb",
}

#: All of it in one, for what takes long.
ALL = "".join(text for title, text in NAMES.items() if title not in ("option", "not UTF-8"))


class Canary:
    """Sings when a shell has read a hostile name."""

    def __init__(self, place: Path, monkeypatch):
        self.path = place / "canary"
        monkeypatch.setenv(VARIABLE, str(self.path))

    @property
    def sang(self) -> bool:
        return self.path.exists()
