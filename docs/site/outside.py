"""Pages link to files of the repository that are not in docs/; here these get a place in the site.

A page's links are those that also work where the repository is browsed: relative to the page's file. Notebooks are
rendered, pictures are copied, documents become pages, and any other file is shown as it is.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import generated
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File

from pairlab import paths

DOCS = paths.ROOT / "docs"
#: Copied, or read by mkdocs-jupyter, as they are.
AS_THEY_ARE = (".svg", ".png", ".pdf", ".ipynb")
#: A Markdown link or picture: its target, and its anchor.
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")


def below_root(path: Path) -> PurePosixPath:
    return PurePosixPath(path.relative_to(paths.ROOT))


def linked(pages: Iterable[str]) -> Iterator[Path]:
    """The files outside docs/ that these pages link to, and those that documents among them link to, each once."""
    waiting, found = [Path(page) for page in pages if page.endswith(".md")], set()
    while waiting:
        page = waiting.pop()
        for target in _LINK.findall(generated.expand(page.read_text(encoding="utf-8"))):
            path = _file_at(page.parent / target)
            if path and path not in found and not path.is_relative_to(DOCS):
                found.add(path)
                yield path
                if path.suffix == ".md":
                    waiting.append(path)


def file_of(path: Path, config: MkDocsConfig) -> File:
    """Its place in the site. Text that is no document becomes a page that shows it, which no search finds."""
    if path.suffix in (*AS_THEY_ARE, ".md"):
        root, urls = str(paths.ROOT), config.use_directory_urls
        return File(_place_of(path), src_dir=root, dest_dir=config.site_dir, use_directory_urls=urls)
    language = {".py": "python", ".yaml": "yaml", ".c": "c", ".sh": "sh", ".csv": "text"}.get(path.suffix, "text")
    head = f"---\nsearch: {{exclude: true}}\nhide: [toc]\n---\n\n# {below_root(path)}\n\n"
    text = path.read_text(encoding="utf-8")
    return File.generated(config, _place_of(path), content=f"{head}``````{language}\n{text}``````\n")


def inwards(markdown: str, file: File) -> str:
    """The page with its links out of docs/ turned to where their targets lie in the site."""
    if not file.abs_src_path:
        return markdown  # it shows a file
    here = PurePosixPath(file.src_uri).parent

    def turned(match: re.Match) -> str:
        path = _file_at(Path(file.abs_src_path).parent / match[1])
        if not path:
            return match[1]
        place = str(below_root(path).relative_to("docs")) if path.is_relative_to(DOCS) else _place_of(path)
        return os.path.relpath(place, here)

    return _LINK.sub(turned, markdown)


def _place_of(path: Path) -> str:
    """Where a file from outside docs/ lies in the site's sources."""
    place = str(below_root(path))
    return place if path.suffix in (*AS_THEY_ARE, ".md") else f"source/{place}.md"


def _file_at(path: Path) -> Path | None:
    """The file of the repository that a link names, if it names one."""
    path = Path(os.path.normpath(path))
    return path if path.is_file() and path.is_relative_to(paths.ROOT) else None
