"""Executes a notebook with parameters, and raises the error it stopped with as one of pairlab's."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_event_loop
from traitlets.config import Config

from pairlab import paths
from pairlab.base import notebook_file
from pairlab.base.atomic import give_to_owner
from pairlab.base.environment import without
from pairlab.batch import kernels
from pairlab.errors import BadInput, MeasurementFailed, PairlabError, StoreError, by_name
from pairlab.progress import relay
from pairlab.testbed.cleanup.workdir import working_directory


def execute(
    notebook: Path,
    executed: Path,
    parameters: Mapping[str, Any],
    reports: relay.Reports | None = None,
    *,
    imports: Sequence[str] = (),
) -> None:
    """Runs the notebook with papermill; `executed` is written even if the notebook stops. Raises the notebook's error.

    Raises BadInput if the file is no notebook or not in Python, MeasurementFailed if the kernel died, and StoreError if
    `executed` cannot be written. reports: receives the notebook's measurements, in a separate thread. imports:
    statements that the kernel's parent executes besides the notebook's imports (kernels).
    """
    # papermill imports jsonschema, which would build the grammar of IRIs in 2 s of CPU time, unless the package is
    # missing; no notebook contains an IRI.
    with without("rfc3987_syntax"):
        import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    _require_python(notebook)
    logger = logging.getLogger("papermill")
    logger.setLevel(logging.WARNING)
    logger.addFilter(_is_news)
    # The kernel's sockets and connection file are in a private folder: TCP would be open to other users of this host;
    # Jupyter's file names are the same for all kernels, lie in the working directory, and stay there after a kill.
    in_study = any(notebook.absolute().is_relative_to(root) for root in (paths.STUDY, paths.ROOT))
    folder = paths.STUDY if in_study else notebook.absolute().parent
    first = [*kernels.imports_of(notebook), *kernels.MEASURING, *imports]
    with (
        working_directory() as place,
        relay.receiving(place, reports) if reports else contextlib.nullcontext(),
        _nothing_left_waiting(),
        _kernel(place) as connection_file,
    ):
        if reports:
            reports.progress("starting the notebook", 0, 0)
        kernel = Config(
            KernelManager={"transport": "ipc", "connection_file": connection_file},
            ForkedKernelManager={"imports": first},
            NotebookClient={
                "kernel_manager_class": "pairlab.batch.kernels.ForkedKernelManager",
                "shutdown_kernel": "immediate",  # its run is stored; asked to end, it may take seconds (ipykernel 7.4)
                "extra_arguments": ["--log-level=CRITICAL", "--HistoryManager.enabled=False"],
            },
        )
        try:
            papermill.execute_notebook(
                _escaped(notebook),
                _escaped(executed),
                parameters=dict(parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                cwd=str(folder),
                config=kernel,
            )
        except PapermillExecutionError as error:
            raise _error_of(notebook, error) from None
        except DeadKernelError:
            raise MeasurementFailed(
                f"the kernel of the notebook {notebook.name} died: out of memory? See `dmesg`; fewer pairs need less"
            ) from None
        except RuntimeError as error:  # of Jupyter: the kernel did not start
            raise MeasurementFailed(
                f"the kernel of the notebook {notebook.name} did not start: {str(error).strip()}. Is there memory left,"
                " and does `python -m ipykernel --version` answer? Then try again"
            ) from error
        except OSError as error:
            raise StoreError(
                f"the notebook {notebook.name} could not be executed into {executed.parent}:"
                f" {error.strerror or error}. Is there room on the disk, and is the folder yours to write?"
                " `pairlab clean --dry-run` lists what can go"
            ) from error
        finally:
            _remove_paths(executed)


def _require_python(notebook: Path) -> None:
    """Raises BadInput where the notebook names another language; one that names none is taken for Python."""
    try:
        metadata = notebook_file.content(notebook).get("metadata")
    except OSError:
        return  # which papermill will find, too
    if not isinstance(metadata, dict):
        raise BadInput(f"{notebook} is not a notebook: it has no metadata: save it in Jupyter")
    about = {name: part for name, part in metadata.items() if isinstance(part, dict)}  # some tools write null
    known = about.get("language_info", {}).get("name") or about.get("kernelspec", {}).get("language")
    if known and str(known).lower() not in ("python", "ipython"):
        raise BadInput(f"{notebook} is a notebook in {known}: write it in Python, which is what its kernel runs")


@contextlib.contextmanager
def _kernel(place: Path) -> Iterator[str]:
    """The path of a connection file, for a kernel that is ended on leaving the block, also by an interrupt.

    Nothing else shuts down a starting kernel, which would write the file into a folder that is gone by then.
    """
    connection_file = f"{place}/kernel.json"
    with kernels.kept() as parent:
        try:
            yield connection_file
        finally:
            parent.end(connection_file)


@contextlib.contextmanager
def _nothing_left_waiting() -> Iterator[None]:
    """Ends the tasks of this thread's event loop on leaving the block, so that they print nothing afterwards.

    An interrupted nbclient leaves tasks that wait for the kernel. They fail when the kernel is shut down, and asyncio
    prints the traceback when they are collected, as no code awaits them any more.
    """
    loop = ensure_event_loop()
    if loop.is_running():  # in a notebook; nbclient then uses a separate thread
        yield
        return
    loop.set_exception_handler(_report_other_errors)
    try:
        yield
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))


def _report_other_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignores a kernel's death and Ctrl-C in tasks without an awaiter: whoever runs the loop gets them anyway."""
    from nbclient.exceptions import DeadKernelError

    if not isinstance(context.get("exception"), DeadKernelError | KeyboardInterrupt):
        loop.default_exception_handler(context)


def _is_news(record: logging.LogRecord) -> bool:
    """A filter of log records: papermill raises its errors too, and reads fewer lines than parameters_cell."""
    return record.levelno < logging.ERROR and not record.getMessage().startswith(("Unable to parse", "Passed unknown"))


def _escaped(path: Path) -> str:
    """The path with doubled braces, as papermill would replace text in braces by parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _remove_paths(executed: Path) -> None:
    """Removes papermill's paths of this machine, as runs are shared. A truncated notebook is deleted."""
    try:
        notebook = json.loads(executed.read_text(encoding="utf-8"))
        for name in ("input_path", "output_path"):
            notebook["metadata"].get("papermill", {}).pop(name, None)
        executed.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        give_to_owner(executed)
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            executed.unlink()


def _error_of(notebook: Path, error: Any) -> PairlabError:
    """The error that stopped a notebook, as a PairlabError of the same class if it was one; the cell is its note then,
    for those who wrote the notebook.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", error.evalue or "")
    kind = error.ename.rpartition(".")[2]
    cell = f"cell {error.cell_index + 1} ({(error.source or '').strip().partition(chr(10))[0]})"
    own_class = by_name(kind)
    if own_class.__name__ == kind:
        own = own_class(text)
        own.add_note(f"in its {cell}")
        return own
    return MeasurementFailed(f"the notebook {notebook.name} stopped in its {cell} with {kind}: {text}")
