"""Keyed numbers and tables for paper/: text in, .tex files out, each naming its runs."""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

import pandas as pd

from pairlab import paths
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.provenance import Origin, write_atomically
from pairlab.errors import BadInput

#: Characters, each with its LaTeX command in text.
_IN_TEXT = r"""
    \ textbackslash ~ textasciitilde ^ textasciicircum ` textasciigrave < textless > textgreater | textbar
    − textminus — textemdash ‘ textquoteleft ’ textquoteright “ textquotedblleft ” textquotedblright „ quotedblbase
    « guillemotleft » guillemotright ° textdegree · textperiodcentered • textbullet § S £ pounds © textcopyright
    ® textregistered ß ss æ ae Æ AE ø o Ø O ł l Ł L œ oe Œ OE ð dh Ð DH þ th Þ TH đ dj Đ DJ ı i
"""
#: Characters, each with its LaTeX command in formulas.
_IN_FORMULAS = """
    ± pm × times ÷ div ≤ leq ≥ geq ≠ neq ≈ approx ≡ equiv ∼ sim ∝ propto ≪ ll ≫ gg ∞ infty √ surd ∂ partial ∇ nabla
    ∑ sum ∏ prod ∫ int ∈ in ∅ emptyset ∧ wedge ∨ vee ∩ cap ∪ cup ⊂ subset ⊆ subseteq ¬ neg
    ← leftarrow ↑ uparrow ↓ downarrow ↔ leftrightarrow ⇒ Rightarrow ⇔ Leftrightarrow
    α alpha β beta γ gamma δ delta ε varepsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda ν nu ξ xi π pi ρ rho
    ς varsigma σ sigma τ tau υ upsilon φ varphi χ chi ψ psi ω omega ϕ phi ϵ epsilon ϑ vartheta
    Γ Gamma Δ Delta Θ Theta Λ Lambda Ξ Xi Π Pi Σ Sigma Υ Upsilon Φ Phi Ψ Psi Ω Omega
"""


def _commands(listed: str, form: str) -> dict[str, str]:
    words = listed.split()
    return {character: form.format(name) for character, name in zip(words[::2], words[1::2], strict=True)}


_SPECIAL = {
    **_commands(_IN_TEXT, r"\{}{{}}"),
    **_commands(_IN_FORMULAS, r"\ensuremath{{\{}}}"),
    **{character: "\\" + character for character in "{}$&#_%"},
    **{character: character for character in "–µ→"},  # T1 and TS1 have them, and inputenc knows
    **dict(zip("μ⁄‐‑ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "µ/--ABEZHIKMNOPTXo", strict=True)),
}
#: LaTeX's accents by combining mark.
_ACCENTS = dict(
    zip(
        "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0323\u0327\u0328",
        "`'^~=u.\"rHvdck",
        strict=True,
    )
)
#: The first of two characters that a font would join.
_JOINED = re.compile(r"-(?=-)|'(?=')|,(?=,)")
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?: ± (\d+)(?:\.(\d+))?)?", re.ASCII)
#: Before a column of wrapped text.
_RAGGED = r">{\raggedright\arraybackslash}"
_MINUS = re.compile(r"(?<![\w.-])-(?=\d)")
_KEY = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*")


def escape(text: object) -> str:
    """The text as literal LaTeX, with minus signs in numbers; line breaks become spaces.

    A character that pdflatex's usual fonts lack appears as its code point: [U+4E2D].
    """
    return literal(_MINUS.sub("−", " ".join(str(text).split())))


def literal(text: str) -> str:
    """The text as literal LaTeX, with spaces and hyphens unchanged."""
    set_as = [(each, _latex_of(each)) for each in unicodedata.normalize("NFC", text)]
    return _JOINED.sub(r"\g<0>{}", "".join(f"[U+{ord(each):04X}]" if text is None else text for each, text in set_as))


def _latex_of(character: str) -> str | None:
    """The LaTeX of one character, directly or by its Unicode decomposition; None if there is none."""
    if character in _SPECIAL:
        return _SPECIAL[character]
    if " " <= character <= "~":
        return character
    kind = unicodedata.category(character)
    if kind == "Cf" or "\N{VARIATION SELECTOR-1}" <= character <= "\N{VARIATION SELECTOR-16}":  # invisible
        return ""
    if kind.startswith("Z"):
        return " "
    decomposed = unicodedata.normalize("NFD", character)
    if decomposed[1:] and set(decomposed[1:]) <= _ACCENTS.keys():
        letter = _latex_of(decomposed[0])
        for mark in decomposed[1:]:
            letter = rf"\{_ACCENTS[mark]}{{{letter}}}"
        return letter
    parts = unicodedata.normalize("NFKD", character)
    texts = [_latex_of(part) for part in parts if part != character]
    if not texts or None in texts:
        return None
    raised = {"<super>": "superscript", "<sub>": "subscript"}.get(
        unicodedata.decomposition(character).partition(" ")[0]
    )
    composed = "".join(part for part in texts if part)
    return rf"\text{raised}{{{composed}}}" if raised else composed


class Values:
    r"""Numbers for the prose of the paper, by key: `\result{throughput/netns-flowgen/bridge/10/total}`.

    A key without a number stops the build of the paper, and so does a misspelt key.
    """

    def __init__(self, topic: str):
        self._topic = topic
        self._texts: dict[str, str] = {}
        self._lists: dict[str, list[str]] = {}

    def __getitem__(self, key: str) -> str:
        return self._texts[f"{self._topic}/{key}"]

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, key: str, text: object) -> None:
        """Adds a text, escaped. Raises BadInput for a malformed key, or one that has another text."""
        self._add(key, escape(text))

    def number(self, key: str, value: float, digits: int, unit: str = "") -> None:
        r"""Adds a number with that many decimals, and its unit behind a narrow space that does not break."""
        comma = "," if abs(value) >= 1e4 else ""
        self._add(key, escape(f"{value:{comma}.{digits}f}") + (rf"\,{escape(unit)}" if unit else ""))

    def names(self, key: str, names: list[str]) -> None:
        r"""Adds a list of names over which `\eachresult` repeats a part of the paper."""
        self._lists[self._checked(key)] = list(names)

    def write(self, notebook: str, origin: Origin) -> Path:
        """Writes paper/values/<label>/<notebook>.tex."""
        lines = [rf"\defineresult{{{key}}}{{{text}}}" for key, text in sorted(self._texts.items())]
        lines += [rf"\definelist{{{key}}}{{{','.join(names)}}}" for key, names in sorted(self._lists.items())]
        return _write(f"values of {notebook}", "\n".join(lines) + "\n", "values", notebook, origin)

    def _add(self, key: str, text: str) -> None:
        key = self._checked(key)
        if self._texts.get(key, text) != text:
            raise BadInput(f"the key {key!r} has two values, {self._texts[key]!r} and {text!r}: name them apart")
        self._texts[key] = text

    def _checked(self, key: str) -> str:
        key = f"{self._topic}/{key}"
        if not _KEY.fullmatch(key):
            raise BadInput(f"no key {key!r}: keys are lower-case letters, digits, '.', '_', '-', and '/' between parts")
        return key


def write_table(
    table: pd.DataFrame,
    name: str,
    origin: Origin,
    *,
    conditions: str | None = None,
    wrapped: Mapping[str, float] | None = None,
) -> Path:
    """Writes paper/tables/<label>/<name>.tex: a booktabs tabular without float or caption, and below it, no wider than
    the table, the conditions of its runs; None: those of its origin.

    table: its index becomes the first columns, its columns (one level or two) the head. siunitx aligns a column of
    texts such as "56.39" or "56.39 ± 0.52" (and MISSING) at the point; all other text is escaped. wrapped: columns of
    text that break into lines, with their widths as a share of the text width.
    """
    wrapped = wrapped or {}
    flat = table.reset_index(allow_duplicates=True) if table.index.names != [None] else table
    formats = [
        rf"{_RAGGED}p{{{wrapped[head]:.3f}\textwidth}}"
        if head in wrapped
        else _column_format([str(cell) for cell in flat.iloc[:, at]])
        for at, head in enumerate(flat.columns)
    ]
    body = pd.DataFrame(
        {at: [_cell(str(cell), formats[at], first=at == 0) for cell in flat.iloc[:, at]] for at in range(flat.shape[1])}
    )
    body.columns = flat.columns
    styler = body.style.hide(axis="index").format_index(escape, axis="columns")
    tabular = styler.to_latex(
        column_format="".join(formats), hrules=True, siunitx=True, multicol_align="c", environment=None
    )
    if body.columns.nlevels > 1:
        tabular = tabular.replace("\\\\\n", "\\\\\n" + _rules(body.columns) + "\n", 1)
    return _write(
        f"table {name}",
        _noted(tabular, origin.conditions if conditions is None else conditions),
        "tables",
        name,
        origin,
    )


def write_lines(lines: Iterable[str], name: str, origin: Origin) -> Path:
    """Writes paper/tables/<label>/<name>.tex from lines of LaTeX, and the conditions of their origin after them."""
    note = rf"\par{{\scriptsize\noindent {escape(origin.conditions)}\par}}" if origin.conditions else ""
    return _write(f"list {name}", "\n".join([*lines, note]) + "\n", "tables", name, origin)


def _write(what: str, text: str, folder: str, name: str, origin: Origin) -> Path:
    file = paths.paper() / folder / origin.label / f"{name}.tex"
    return write_atomically(file, (origin.comment(what) + text).encode())


def _noted(tabular: str, note: str) -> str:
    """The table with a note of the same width below it."""
    if not note:
        return tabular
    small = rf"\parbox[t]{{\wd0}}{{\raggedright\scriptsize\rule{{0pt}}{{9pt}}{escape(note)}}}"
    stacked = rf"\begin{{tabular}}[b]{{@{{}}l@{{}}}}\usebox0\\{small}\end{{tabular}}"
    return f"\\sbox0{{%\n{tabular.rstrip()}}}%\n{stacked}\n"


def _column_format(cells: list[str]) -> str:
    filled = [cell for cell in cells if cell not in (MISSING, "")]
    matches = [match for cell in filled if (match := _NUMBER.fullmatch(cell))]
    if not matches or len(matches) < len(filled):
        return "l"
    sign = "-" if any(match[1] for match in matches) else ""
    whole = max(len(match[2]) for match in matches)
    decimals = max(len(match[3] or "") for match in matches)
    spread = max((len(match[4].lstrip("0") + (match[5] or "")) for match in matches if match[4]), default=0)
    point = f".{decimals}" if decimals else ""
    return f"S[table-format={sign}{whole}{point}{f'({spread})' if spread else ''}]"


def _rules(columns: pd.MultiIndex) -> str:
    """The rules below heads that span several columns."""
    spans = [(head, len(list(group))) for head, group in itertools.groupby(columns.get_level_values(0))]
    ends = list(itertools.accumulate(width for _, width in spans))
    return "".join(
        rf"\cmidrule(lr){{{end - width + 1}-{end}}}" for (_, width), end in zip(spans, ends, strict=True) if width > 1
    )


def _cell(text: str, column_format: str, *, first: bool) -> str:
    escaped = escape(text)
    if not column_format.startswith("S"):  # else LaTeX reads the first cell as an option of the line before
        return "{}" * (first and escaped.startswith(("[", "*"))) + escaped
    return text.replace(" ± ", " +- ") if _NUMBER.fullmatch(text) else f"{{{escaped}}}"
