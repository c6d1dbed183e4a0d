"""The site: `make docs` builds it into .cache/site, and a warning is an error.

Its sources are the repository, and each page lies in the site where its file lies there: so a link that works where the
repository is browsed leads to the same in the site. generated.py writes parts of pages. What only the site can show is
not in the pages: navigation.md comes at the end of docs/index.md, api/ in place of the tables of reference/python.md.
"""

import re
from pathlib import Path

project = html_title = "pairlab"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]

root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/*/*", "plugins/*/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = [".*", "**/.*", "docs/site", "figures", "lib", "paper", "runs", "tests"]

myst_heading_anchors = 4
smartquotes = False
nb_execution_mode = "off"  # outputs are shown as they are stored

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", "(?!pairlab).*"),  # of other projects
    ("py:class", r"pairlab\.(analysis\.output|testbed\.contracts|testbed\.process_launcher|widgets)\..*"),  # internal
]
copybutton_prompt_text = "$ "  # of a block with prompts, only the commands are copied

default_role = "literal"  # docstrings are plain prose
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_extra_path = ["index.html"]
html_copy_source = html_show_copyright = html_use_index = html_domain_indices = False
html_show_search_summary = False  # it is fetched, which browsers refuse from disk

#: A run is beside a notebook in a checkout, and not in the site.
_LINK_TO_RUN = re.compile(r'<a href="[./]*/runs/[^"]*"[^>]*>(.*?)</a>')
_API = re.compile(r"<!-- made: api (\w+) -->.*?<!-- end -->", re.DOTALL)


def setup(app):
    app.connect("source-read", _with_what_the_site_shows)
    app.connect("html-page-context", _without_links_to_runs)


def _with_what_the_site_shows(app, page, source):
    if page == root_doc:
        source[0] += (Path(__file__).parent / "navigation.md").read_text(encoding="utf-8")
    source[0] = _API.sub(r"```{eval-rst}\n.. include:: /docs/site/api/\1.rst\n```", source[0])


def _without_links_to_runs(app, page, template, context, doctree):
    context["body"] = _LINK_TO_RUN.sub(r"\1", context.get("body", ""))
