"""What mkdocs does beside its own for this site: generated parts, files from outside docs/, nothing from elsewhere.

generated: the parts of pages that are made from the code and from files. outside: what pages link to in the rest of
the repository has its place in the site.
"""

import re

import generated
import outside
from mkdocs.plugins import event_priority

_SCRIPT = re.compile(r"<script\b[^>]*>.*?</script>", re.DOTALL)
#: Links to runs: they are beside a notebook in a checkout, and not in the site.
_RUN = re.compile(r'<a href="[./]*/runs/[^"]*"[^>]*>(.*?)</a>')
#: In the scripts by which nbconvert would fetch MathJax and Mermaid from elsewhere; no notebook needs them.
_FROM_ELSEWHERE = re.compile(r'://|MathJax|src=""')


def on_config(config):
    """The notebooks stand under the gallery."""
    for entry in config.nav:
        if isinstance(entry, dict) and "Gallery" in entry:
            entry["Gallery"] += [str(outside.below_root(path)) for path in generated.analyses()]


@event_priority(100)  # before mkdocs-jupyter, which takes its notebooks from these
def on_files(files, config):
    pages = [page.abs_src_path for page in files.documentation_pages()]
    for path in dict.fromkeys([*generated.analyses(), *outside.linked(pages)]):
        files.append(outside.file_of(path, config))
    return files


def on_page_markdown(markdown, page, config, files):
    return outside.inwards(generated.expand(markdown), page.file)


def on_page_content(html, page, config, files):
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    html = _SCRIPT.sub(lambda script: "" if _FROM_ELSEWHERE.search(script[0]) else script[0], html)
    return _RUN.sub(r"\1", html)
