"""Whatever characters names and texts have, figures are saved and the paper is built of them."""

import random
import shutil
import subprocess

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from pairlab.analysis.figures import files, style
from pairlab.analysis.output import latex, texlive
from tests.support.pdflatex import pdflatex

pytestmark = [
    pytest.mark.usefixtures("closes_figures"),
    pytest.mark.filterwarnings("ignore:Glyph .* missing from font"),
]

#: Each stopped something once, or is like what did.
NAMED = (
    *(
        "[1.2, 3.4]",
        "*",
        " [x]",
        "50 % & #1 {a} a_b ~ ^ \\",
        "one $",
        "$5 to $6",
        r"\foo",
        r"\$",
        "%",
        "`--`",
        '"',
        "|",
    ),
    *("\u2212\u0035 ≤ 3 ≥ μs µs ± × → ∞ ²", "αβγ Ωμέγα", "naïve Łódź İ ﬁ", "日本語", "😀", "\u202eabc\u200b", "\u0301"),
    *("\x00\x07\x1b", "a\tb\nc", "١٢", "", " ", "–", "-1.5", "1.5 ± 0.2", "\\par", "\\end{tabular}", "}{"),
)
_ODD = "".join(NAMED) + "".join(map(chr, range(32, 127))) + "".join(latex._SPECIAL) + "éǖőĄ中한א\ufffd\u00a0\u2028"


def odd_texts(count):
    """The named ones, and others of their characters in any order."""
    chance = random.Random(1)
    return [*NAMED, *("".join(chance.choices(_ODD, k=chance.randint(1, 12))) for _ in range(count))]


def odd_figure(texts):
    """With the texts in every place that a figure has for one."""
    figure, ax = plt.subplots(figsize=(style.COLUMN_IN, 3), layout="constrained")
    its = [style.text(text) for text in texts]
    ax.plot([0, 1], label=f"x{its[0]}")
    ax.legend(title=its[1])
    ax.set(title=its[2], xlabel=its[3], ylabel=its[4])
    ax.set_xticks(range(5), its[5:10])
    ax.annotate(its[10], (0.5, 0.5))
    figure.supxlabel("; ".join(its[11:]))
    return figure


@pytest.mark.whole
@pytest.mark.skipif(bool(texlive.missing()), reason="LaTeX is not here, or not whole")
def test_odd_texts_in_every_place_of_tables_values_and_figures_become_a_pdf(origin, out):
    texts = odd_texts(100)
    origin = type(origin)(**vars(origin) | {"label": "odd_label", "conditions": " ".join(texts[:20])})
    values = latex.Values("odd")
    for number, text in enumerate(texts):
        values.text(f"text-{number}", text)
    values.number("number", 1.5, 1, "".join(NAMED))
    values.names("systems", ["netns-my_tool"])
    values.text("netns-my_tool", "found")
    values.write("odd", origin)
    heads = pd.MultiIndex.from_tuples([("*", "[a]"), ("*", texts[3]), (texts[4], texts[14])])
    rows = [texts[at : at + 3] for at in range(0, len(texts) - 3, 3)]
    wide = pd.DataFrame(rows, columns=heads, index=pd.Index(texts[: len(rows)], name="[%_]"))
    latex.write_table(wide, "wide", origin)
    first = pd.DataFrame({"[a]": texts, "_": [*texts[1:], ""]})
    latex.write_table(first, "wrapped", origin, wrapped={"[a]": 0.3})
    latex.write_table(pd.DataFrame({"n": ["١٢", "٣"], "m": ["1", "[2, 3]"]}), "digits", origin)
    latex.write_lines([latex.escape(text) + r"\par" for text in texts], "lines", origin)
    shown = odd_figure(texts)
    assert files.save(shown, "odd", origin)[-1].suffix == ".pgf"
    tables = "".join(rf"\par\resulttable{{{name}}}" for name in ("wrapped", "wide", "digits", "lines"))
    every = "".join(rf"\par\result{{odd/text-{number}}}" for number in range(len(texts)))
    (out / "paper" / "main.tex").write_text(
        rf"\documentclass{{IEEEtran}}\newcommand{{\runslabel}}{{odd_label}}\usepackage[utf8]{{inputenc}}"
        rf"\usepackage{{pairlab}}\useresults{{odd}}\begin{{document}}"
        rf"\newcommand{{\system}}[1]{{System #1: \result{{odd/#1}}}}\eachresult{{odd/systems}}{{\system}}"
        rf"{every}\resultfigure{{odd}}{{\result{{odd/number}} \result{{odd/text-3}}}}{tables}\end{{document}}"
    )
    done = pdflatex(out / "paper")
    log = (out / "paper" / "main.log").read_text(errors="replace")
    assert done.returncode == 0, log[log.find("\n! ") :][:600]
    assert "Missing character" not in log
    if shutil.which("pdftotext"):
        read = subprocess.run(["pdftotext", "main.pdf", "-"], cwd=out / "paper", capture_output=True, check=True)
        words = read.stdout.decode()
        for shown in ("System netns-my_tool: found", "50 % & #1 {a} a_b ~ ^ \\", "[1.2, 3.4]", "[U+65E5]", "$5 to $6"):
            assert shown in words, shown
