"""The file of a notebook, as JSON; one that cannot be read is refused with the reason."""

import json
import re
from pathlib import Path
from typing import Any

from pairlab.errors import BadInput

_BOM = b"\xef\xbb\xbf"
_CONFLICT = re.compile(r"^(<<<<<<<|>>>>>>>)( .*)?$", re.MULTILINE)
#: The first line of what git-lfs has in place of a file.
_POINTER = "version https://git-lfs"


def content(notebook: Path) -> dict[str, Any]:
    """Its cells, metadata and format. Raises BadInput where it is no notebook of format 4, OSError as of a file."""
    raw = notebook.read_bytes()
    try:
        found = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        raise BadInput(f"{notebook} is not a notebook: {_why_no_json(raw, error)}") from None
    found = found if isinstance(found, dict) else {}
    if "worksheets" in found or found.get("nbformat", 4) != 4:
        which = f"of format {found.get('nbformat', 3)}"
        raise BadInput(
            f"{notebook} is not a notebook of format 4, but {which}: save it in JupyterLab, which converts it"
        )
    if not isinstance(found.get("cells"), list):
        raise BadInput(f"{notebook} is not a notebook: it has no cells: save it in Jupyter")
    return found


def _why_no_json(raw: bytes, error: ValueError) -> str:
    """The reason, and what to do."""
    if not raw.strip():
        return "it is empty: take it from git or a copy"
    if raw.startswith(_BOM):
        return "it begins with a byte order mark: save it as UTF-8 without one"
    if isinstance(error, UnicodeDecodeError):
        return f"its byte {error.start} is not UTF-8: save it as UTF-8"
    text = raw.decode("utf-8")
    if mark := _CONFLICT.search(text):
        line = text.count("\n", 0, mark.start()) + 1
        return f"line {line} is the mark of a merge conflict ({mark[0]}): settle it, or take one side by `git checkout`"
    if text.startswith(_POINTER):
        return "it is what git-lfs has in its place: `git lfs pull`"
    reason = f"{error.msg} in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else str(error)
    return f"no JSON: {reason}: is it whole? Take it from git or a copy"
