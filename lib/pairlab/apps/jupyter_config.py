"""Jupyter's configuration files, noted as they are read: an error of what one of them sets names the file."""

import contextlib
import logging
import re
import traceback
from collections.abc import Callable, Iterator

from traitlets import TraitError
from traitlets.config import Application, Config
from traitlets.config.loader import ConfigFileNotFound, FileConfigLoader, JSONFileConfigLoader, PyFileConfigLoader

from pairlab.errors import BadInput

#: The files with what they set, in the order in which they count, the last one most.
_read: list[tuple[str, Config]] = []
#: What Jupyter would only log: a file that cannot be read, and what JupyterLab does not take.
_refused: list[BadInput] = []


class _Python(PyFileConfigLoader):
    def load_config(self) -> Config:
        return _noted(self, super().load_config)


class _Json(JSONFileConfigLoader):
    def load_config(self) -> Config:
        return _noted(self, super().load_config)


def _noted(loader: FileConfigLoader, load: Callable[[], Config]) -> Config:
    try:
        config = load()
    except ConfigFileNotFound:
        raise
    except Exception as error:  # of the code in the file
        name = loader.full_filename
        lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == name]
        line = getattr(error, "lineno", None) or (lines or [1])[-1]
        why = f"{name}: line {line}: {type(error).__name__}: {getattr(error, 'msg', error)}"
        _refused.append(BadInput(f"Jupyter cannot read {why}. Correct the file, or move it away"))
        return Config()
    _read.append((loader.full_filename, config))
    return config


@contextlib.contextmanager
def noted() -> Iterator[None]:
    """Inside, files are noted, and a value of theirs that Jupyter refuses is a BadInput."""
    loaders = Application.python_config_loader_class, Application.json_config_loader_class
    Application.python_config_loader_class, Application.json_config_loader_class = _Python, _Json
    logs = [logging.getLogger(name) for name in ("Server", "LabApp")]
    for each in logs:
        each.addFilter(_is_other)
    try:
        yield
    except SystemExit as stop:
        if isinstance(stop.__context__, TraitError):
            raise _of(stop.__context__) from None
        raise
    finally:
        for each in logs:
            each.removeFilter(_is_other)
        Application.python_config_loader_class, Application.json_config_loader_class = loaders
        _read.clear()
        _refused.clear()


def refuse() -> None:
    """Raises what was refused so far, once all files are read."""
    if _refused:
        raise _refused[0]


def refused(trait: str, reason: str) -> BadInput:
    """The error of a value that JupyterLab cannot start with."""
    reason = reason.removesuffix(".")
    return BadInput(
        f"JupyterLab cannot start with what {where(trait)} sets: {reason}. Correct it there, or leave it out"
    )


def where(trait: str) -> str:
    """The file that sets it, with the name there; else it was set when JupyterLab was started."""
    for file, config in reversed(_read):
        for section, values in config.items():
            if trait in values:
                return f"{file} ({section}.{trait})"
    return "its command line or environment"


def _of(error: TraitError) -> BadInput:
    reason = re.sub(r"<(?:\w+\.)*(\w+) object at 0x\w+>", r"\1", str(error))
    trait = re.search(r"'(\w+)' trait", reason)
    return refused(trait[1] if trait else "", reason)


def _is_other(record: logging.LogRecord) -> bool:
    """A filter of log records: not those of what is refused."""
    message, error = record.getMessage(), record.exc_info and record.exc_info[1]
    if message.startswith("jupyterlab | error linking") and isinstance(error, TraitError):
        _refused.append(_of(error))
        return False
    return not message.startswith("Bad config encountered")
