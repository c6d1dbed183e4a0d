"""The documentation site: built strictly, whole, and with nothing that a browser would fetch from elsewhere."""

import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

import pairlab
from pairlab import paths, widgets
from pairlab.cli import main
from pairlab.measurement.verdict import CHECKS
from pairlab.model.spec import Spec
from pairlab.model.tables import TABLES

pytestmark = pytest.mark.ci  # builds the whole site

SOURCES = paths.ROOT / "docs" / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site. A warning of mkdocs, such as of a link that leads nowhere, fails it."""
    place = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "-f",
        SOURCES / "mkdocs.yml",
        "-d",
        place,
    ]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


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
        if page.name == "404.html":
            continue
        told = fetched(page)
        for target in {*told.links, *told.loads}:
            parts = urlsplit(target)
            if not parts.scheme and not parts.netloc and parts.path:
                assert (page.parent / unquote(parts.path)).resolve() in there, f"{page}: {target}"


def shown(site, page):
    return html.unescape((site / page).read_text(encoding="utf-8"))


def test_the_reference_has_every_column_check_parameter_and_option(site):
    runs, parameters, commands = (
        shown(site, f"reference/{name}.html") for name in ("runs", "parameters", "command-line")
    )
    for columns in TABLES.values():
        for name, column in columns.items():
            assert f"<code>{name}</code>" in runs
            assert column.meaning.partition("(")[0].strip() in runs
    for name, check in CHECKS.items():
        assert f"<code>{name}</code>" in runs
        assert check.meaning.partition("(")[0].strip() in runs
    for name in set(Spec.model_fields):
        assert f"<code>{name}</code>" in parameters
    for name, command in main.commands.items():
        assert f"pairlab {name}" in commands
        for option in command.params:
            assert option.opts[-1] in commands or option.name.upper() in commands, f"{name}: {option.opts}"


def test_the_reference_has_every_public_name(site):
    python = shown(site, "reference/python.html")
    for name in [*pairlab.__all__, *widgets.__all__]:
        assert re.search(rf'id="pairlab\.[\w.]*\b{name}"', python), name


def test_the_reference_tells_of_every_key_that_a_run_has(site):
    runs = shown(site, "reference/runs.html")
    heads = [json.loads(path.read_text()) for path in sorted(paths.REFERENCE.glob("*/*/run.json"))[::50]]
    assert heads
    for head in heads:
        for key in {*head, *head["times_s"], *head["facts"]}:
            assert f"<code>{key}</code>" in runs, key


def test_the_gallery_has_every_figure_and_leads_to_its_notebook(site):
    gallery = shown(site, "gallery.html")
    figures = sorted({path.stem for path in (paths.FIGURES / "reference").glob("*.png")})
    assert figures
    for name in figures:
        assert re.search(rf'href="(notebooks/analysis/[^"]+\.html)"><img [^>]*src="figures/reference/{name}\.', gallery)
    for notebook in paths.ANALYSES.glob("*.ipynb"):
        assert (site / "notebooks" / "analysis" / f"{notebook.stem}.html").is_file()


# --- the parts that are made


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(SOURCES))
    import generated

    return generated


def test_a_figure_that_no_notebook_draws_is_told(made, monkeypatch, tmp_path):
    import gallery

    (tmp_path / "stray.png").touch()
    monkeypatch.setattr(gallery, "FIGURES", tmp_path)
    with pytest.raises(ValueError, match="no notebook in notebooks/analysis draws stray of figures/reference"):
        gallery.page(made.analyses())


def test_a_figure_has_the_words_of_the_section_that_draws_it(made):
    import gallery

    drawn = {each.name: each for notebook in made.analyses() for each in gallery.figures_of(notebook)}
    assert drawn["throughput-box"].title == "Throughput by pairs and driver"
    assert drawn["throughput-box"].heading.startswith("Spread over repetitions")
    assert drawn["fairness-cdf"].text.startswith("The share of the clients that got at most so much.")


def test_a_screenshot_has_its_place_before_anybody_made_it(made, monkeypatch, tmp_path):
    monkeypatch.setattr(made, "PICTURES", tmp_path)
    page = "<!-- made: picture shot Seen from above -->"
    assert made.expand(page) == "*Seen from above.*"
    (tmp_path / "shot.png").touch()
    assert made.expand(page) == "![Seen from above](pictures/shot.png){ .screenshot }"


def test_a_part_that_there_is_not_stops_the_build(made):
    with pytest.raises(KeyError, match="nothing"):
        made.expand("<!-- made: nothing -->")


def test_what_would_end_a_cell_of_a_table_is_escaped(made):
    assert made.reference.table(("a",), [("x | y\nz",)]).splitlines()[-1] == "| x \\| y z |"
