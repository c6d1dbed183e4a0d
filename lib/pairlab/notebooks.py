"""Executes a notebook with parameters, and gives back the error it stopped with as one of ours."""

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets.config import Config

from pairlab import paths
from pairlab.errors import MeasurementFailed, PairlabError, by_name
from pairlab.testbed.workdir import working_directory


def execute(notebook: Path, executed: Path, parameters: Mapping[str, Any]) -> None:
    """Runs it with papermill into `executed`, which is written even where it stops. Raises what stopped it."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.WARNING)
    # Sockets in a folder of its own: not over TCP, as others may be on this host, nor by jupyter's names for them,
    # which are the same for all kernels and lie in the working directory.
    with working_directory() as place:
        kernel = Config(
            KernelManager={"transport": "ipc", "ip": f"{place}/kernel"},
            NotebookClient={"extra_arguments": ["--log-level=CRITICAL"]},  # it tells of being shut down, else
        )
        try:
            papermill.execute_notebook(
                str(notebook),
                str(executed),
                parameters=dict(parameters),
                kernel_name="python3",
                progress_bar=False,
                cwd=str(paths.ROOT),
                config=kernel,
            )
        except PapermillExecutionError as error:
            raise _error_of(notebook, error) from None
        finally:
            if executed.exists():
                _forget_places(executed)


def _forget_places(executed: Path) -> None:
    """Takes out where on this machine papermill read and wrote it: runs are shared."""
    told = json.loads(executed.read_text(encoding="utf-8"))
    for name in ("input_path", "output_path"):
        told["metadata"].get("papermill", {}).pop(name, None)
    executed.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _error_of(notebook: Path, error: Any) -> PairlabError:
    """The error a notebook stopped with, as our own kind where it was one."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", error.evalue or "")
    kind = error.ename.rpartition(".")[2]
    known = by_name(kind)
    if known.__name__ == kind:
        return known(text)
    return MeasurementFailed(f"the notebook {notebook.name} stopped with {kind}: {text}")
