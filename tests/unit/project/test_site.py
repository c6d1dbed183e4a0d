"""The documentation site: built strictly, whole, and with nothing that a browser would fetch from elsewhere."""

import html
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import pairlab
from pairlab import paths, store, widgets
from pairlab.store import metadata

pytestmark = pytest.mark.whole  # builds the whole site

SOURCES = paths.ROOT / "docs" / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site. A warning, such as of a link that leads nowhere, fails it."""
    build = tmp_path_factory.mktemp("build")
    strictly = ["--fail-on-warning", "--keep-going", "--quiet", "--jobs", "auto"]
    folders = ["--conf-dir", SOURCES, "--doctree-dir", build / "doctrees", paths.ROOT, build / "site"]
    command = [sys.executable, "-m", "sphinx", *strictly, *folders]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return build / "site"


class Fetched(HTMLParser):
    """What a browser fetches to show a page (loads), and where its links lead (links)."""

    def __init__(self):
        super().__init__()
        self.loads, self.links = [], []

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        if tag == "a":
            self.links.append(told.get("href") or "")
        if tag == "link" and told.get("rel") in ("prev", "next"):
            self.links.append(told["href"])
        elif tag == "link":
            self.loads.append(told["href"])
        elif tag != "a":
            self.loads += [told[name] for name in ("src", "data", "poster", "srcset") if told.get(name)]
        self.loads += re.findall(r"url\(([^)]+)\)", told.get("style") or "")


def fetched(page):
    parser = Fetched()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def pages(site):
    return sorted(site.rglob("*.html"))


def test_no_page_loads_anything_from_elsewhere(site):
    for page in pages(site):
        loaded = [each for each in fetched(page).loads if not each.startswith("data:")]
        assert [each for each in loaded if urlsplit(each).netloc or urlsplit(each).scheme] == [], page
        for script in re.findall(r"<script\b[^>]*>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL):
            assert "://" not in script, f"{page}: {script[:200]}"
    styles = [*site.rglob("*.css"), *pages(site)]
    pattern = re.compile(r"(?:@import\s+|url\()[\"']?\s*((?:https?:)?//[^\"')]+)")
    assert [(str(file), match[1]) for file in styles for match in pattern.finditer(file.read_text("utf-8"))] == []


def test_every_link_and_picture_of_every_page_is_there(site):
    there = {path.resolve() for path in site.rglob("*")} | {site.resolve()}
    for page in pages(site):
        told = fetched(page)
        for target in {*told.links, *told.loads}:
            parts = urlsplit(target)
            if not parts.scheme and not parts.netloc and parts.path:
                assert (page.parent / unquote(parts.path)).resolve() in there, f"{page}: {target}"


def shown(site, page):
    """The page's HTML, its code without what is inside for looks."""
    text = (site / page).read_text(encoding="utf-8")
    code = re.sub(r"<code\b[^>]*>(.*?)</code>", lambda match: f"<code>{re.sub('<[^>]*>', '', match[1])}</code>", text)
    return html.unescape(code)


def test_the_reference_has_every_public_name(site):
    python = shown(site, "docs/reference/python.html")
    for name in [*pairlab.__all__, *widgets.__all__]:
        assert re.search(rf'id="pairlab\.[\w.]*\b{name}"', python), name


def test_the_reference_tells_of_every_key_that_a_run_has(site):
    runs = shown(site, "docs/reference/runs.html")
    found = [metadata.load(place) for place in [*store.stored(paths.REFERENCE)][::50]]
    assert found
    for head in found:
        for key in {*head, *head["times_s"], *head["facts"]}:
            assert f"<code>{key}</code>" in runs, key


def test_the_gallery_has_every_figure_and_leads_to_its_notebook(site):
    gallery = shown(site, "docs/gallery.html")
    figures = sorted({path.stem for path in (paths.FIGURES / "reference").glob("*.svg")})
    assert figures
    for name in figures:
        link = r'<a class="reference internal" href="\.\./notebooks/analysis/[^"]+\.html">'
        assert re.search(rf'{link}<span[^>]*><img [^>]*src="\.\./_images/{name}\.svg"', gallery), name
    for notebook in paths.ANALYSES.glob("*.ipynb"):
        assert (site / "notebooks" / "analysis" / f"{notebook.stem}.html").is_file()


# --- the parts that are made


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(SOURCES))
    import generated

    return generated


def test_a_figure_that_no_notebook_draws_is_told(made, monkeypatch, tmp_path):
    (tmp_path / "stray.svg").touch()
    monkeypatch.setattr(made.gallery, "FIGURES", tmp_path)
    with pytest.raises(ValueError, match="no notebook in notebooks/analysis draws stray of figures/reference"):
        made.gallery.page()


def test_a_figure_has_the_words_of_the_section_that_draws_it(made):
    drawn = {each.name: each for notebook in made.gallery.analyses() for each in made.gallery.figures_of(notebook)}
    assert drawn["throughput-box"].title == "Throughput by pairs and driver"
    assert drawn["throughput-box"].heading.startswith("Spread over repetitions")
    assert drawn["fairness-cdf"].text.startswith("The share of the clients that got at most so much.")


def test_a_part_that_there_is_not_stops_the_build(made):
    with pytest.raises(KeyError, match="nothing"):
        made.written("<!-- made: nothing -->")


def test_what_is_made_of_the_code_is_written_in_the_pages(made):
    old = [page for page in made.pages() if (text := page.read_text(encoding="utf-8")) != made.written(text)]
    assert not old, "python docs/site/generated.py writes them anew"
    assert len(made.pages()) > 20


def test_a_part_is_written_behind_its_line_once(made):
    page = "# A\n\n<!-- made: plugins pinnings -->\n\ntext\n\n<!-- made: network bridge -->\n"
    once = made.written(page)
    assert made.written(once) == once
    assert once.count("<!-- end -->") == 2
    assert once.index("\ntext\n") > once.index("<!-- end -->")


def test_what_a_command_prints_in_a_page_is_of_the_packs_it_names(made):
    block = made.PARTS["output"]("message-size", "3", "pairlab", "ls").splitlines()
    assert block[:2] == ["```console", "$ pairlab ls"]
    assert block[2].split()[:3] == ["key", "experiment", "backend"]
    assert [line.split()[1] for line in block[3:5]] == ["message-size"] * 2
    runs = pairlab.load_runs(paths.REFERENCE, experiment="message-size", environment="all")
    assert block[5:] == [f"… {len(runs) - 2} more lines", "```"]


def test_what_a_command_refuses_stands_in_a_page_with_its_exit_status(made):
    block = made.PARTS["output"]("-", "9", "pairlab", "show", "0000")
    assert block.endswith("$ echo $?\n2\n```")
    with pytest.raises(ValueError, match="only the output of pairlab is made, not of ls"):
        made.PARTS["output"]("-", "9", "ls")


def test_a_long_line_of_output_is_wrapped_if_it_is_a_sentence_and_cut_if_it_has_columns(made):
    sentence, row = " ".join(["word"] * 40), "  ".join(["cell"] * 40)
    shown = made.printed.shortened([sentence, "", row, "last"], 4)
    assert " ".join(shown[:2]) == sentence
    assert shown[2] == ""
    assert shown[3] == f"{row[:119]}…"
    assert shown[4:] == ["… 1 more line"]


def test_what_would_end_a_cell_of_a_table_is_escaped(made):
    assert made.reference.table(("a",), [("x | y\nz",)]).splitlines()[-1] == "| x \\| y z |"


def test_a_module_of_tests_is_told_by_its_docstring(made, monkeypatch, tmp_path):
    (tmp_path / "test_a.py").write_text(
        '"""Promise: nothing is\nlost.\n\nMore."""\ndef test_a_cpu_is_one():\n    pass\n'
    )
    monkeypatch.setattr(made.promises, "TESTS", tmp_path)
    told = made.PARTS["tests"]("test_*")
    assert told == "- Nothing is lost ([test_a](../../tests/test_a.py))"
    with pytest.raises(ValueError, match=r"no test is in tests/gone\.py"):
        made.PARTS["tests"]("gone")


def test_commands_of_one_part_have_one_study_and_a_pack_may_lie_beside_it(made):
    words = "pairlab import ~/there/latency.pack && pairlab rm df0683403 && pairlab rm --restore df0683403"
    lines = made.PARTS["output"]("latency:there", "3", *words.split()).splitlines()
    assert lines[1:3] == ["$ pairlab import ~/there/latency.pack", "~/there/latency.pack: 12 runs added, 0 known"]
    assert lines[-2] == "restored: runs/latency/df0683403cb3d4d4-…"
