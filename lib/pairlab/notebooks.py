"""Executes a notebook with parameters, and gives back the error it stopped with as one of ours."""

import contextlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets.config import Config

from pairlab import paths
from pairlab.errors import MeasurementFailed, PairlabError, StoreError, by_name
from pairlab.testbed.workdir import working_directory


def execute(notebook: Path, executed: Path, parameters: Mapping[str, Any]) -> None:
    """Runs it with papermill into `executed`, which is written even where it stops. Raises what stopped it.

    That is MeasurementFailed where its kernel died, and StoreError where `executed` cannot be written.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
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
        except DeadKernelError:
            raise MeasurementFailed(
                f"the kernel of the notebook {notebook.name} died: out of memory? `dmesg` tells; fewer pairs need less"
            ) from None
        except OSError as error:
            raise StoreError(
                f"the notebook {notebook.name} could not be executed into {paths.shown(executed.parent)}:"
                f" {error.strerror or error}. Is there room on the disk, and is the folder yours to write?"
                " `pairlab clean --dry-run` lists what can go"
            ) from error
        finally:
            _forget_places(executed)


def _forget_places(executed: Path) -> None:
    """Takes out where on this machine papermill read and wrote it: runs are shared. One that is cut goes whole."""
    try:
        told = json.loads(executed.read_text(encoding="utf-8"))
        for name in ("input_path", "output_path"):
            told["metadata"].get("papermill", {}).pop(name, None)
        executed.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            executed.unlink()


def _error_of(notebook: Path, error: Any) -> PairlabError:
    """The error a notebook stopped with, as our own kind where it was one."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", error.evalue or "")
    kind = error.ename.rpartition(".")[2]
    known = by_name(kind)
    if known.__name__ == kind:
        return known(text)
    return MeasurementFailed(f"the notebook {notebook.name} stopped with {kind}: {text}")
