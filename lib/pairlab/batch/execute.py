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
from pairlab.base.optional_imports import without
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
    """Runs it with papermill into `executed`, which is written even where it stops. Raises what stopped it.

    That is BadInput if it is no notebook or in another language than Python, MeasurementFailed if its kernel died, and
    StoreError if `executed` cannot be written. reports: receives what the notebook measures, in a thread of its own.
    imports: what its kernel's parent executes besides the notebook's own (kernels).
    """
    papermill = imported_papermill()
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    _require_python(notebook)
    logger = logging.getLogger("papermill")
    logger.setLevel(logging.WARNING)
    logger.addFilter(_is_news)
    # Its sockets and connection file are in a private folder: TCP would be open to other users of this host, Jupyter's
    # own names are the same for all kernels and lie in the working directory, and Jupyter leaves the file if killed.
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
                papermill_path(notebook),
                papermill_path(executed),
                parameters=dict(parameters),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                cwd=str(_directory_of(notebook)),
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
        metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
        known = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language")
    except OSError:
        return  # which papermill will find, too
    except (ValueError, LookupError, TypeError, AttributeError):
        raise BadInput(f"{notebook} is not a notebook") from None
    if known and str(known).lower() not in ("python", "ipython"):
        raise BadInput(f"{notebook} is a notebook in {known}: write it in Python, which is what its kernel runs")


def imported_papermill() -> Any:
    """papermill, without the grammar of IRIs that jsonschema, which it imports, would build in 2 s of CPU time.

    jsonschema does without it where it is not installed, and nothing in a notebook is an IRI.
    """
    with without("rfc3987_syntax"):
        import papermill
    return papermill


def _directory_of(notebook: Path) -> Path:
    """Where its kernel runs: in the checkout's root, or, for a notebook from elsewhere, in its own folder."""
    notebook = notebook.absolute()
    return paths.ROOT if notebook.is_relative_to(paths.ROOT) else notebook.parent


@contextlib.contextmanager
def _kernel(place: Path) -> Iterator[str]:
    """The name of a connection file, for a kernel that has ended when the block is left, also where interrupted.

    One that is just coming up is shut down by nobody else, and writes the file again, in a folder that is gone by then.
    """
    connection_file = f"{place}/kernel.json"
    with kernels.kept() as parent:
        try:
            yield connection_file
        finally:
            parent.end(connection_file)


@contextlib.contextmanager
def _nothing_left_waiting() -> Iterator[None]:
    """Tasks started in this thread's event loop have ended when the block is left, and print nothing afterwards.

    Interrupted, nbclient leaves tasks there that wait for the kernel. They fail when it is shut down, and asyncio
    prints the traceback of their error when they are collected, as nobody awaits them any more.
    """
    loop = ensure_event_loop()
    if loop.is_running():  # that of a notebook; nbclient takes a thread of its own then
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
    """A kernel's death and Ctrl-C reach whoever runs the loop anyway, also if a task that nobody awaits raised them."""
    from nbclient.exceptions import DeadKernelError

    if not isinstance(context.get("exception"), DeadKernelError | KeyboardInterrupt):
        loop.default_exception_handler(context)


def _is_news(record: logging.LogRecord) -> bool:
    """A filter of logging: papermill also raises its errors, and does not read all lines that parameters_cell does."""
    return record.levelno < logging.ERROR and not record.getMessage().startswith(("Unable to parse", "Passed unknown"))


def papermill_path(path: Path) -> str:
    """The path as papermill wants it, which replaces what is in braces by parameters."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _remove_paths(executed: Path) -> None:
    """Removes this machine's paths that papermill wrote: runs are shared. A truncated notebook is deleted."""
    try:
        notebook = json.loads(executed.read_text(encoding="utf-8"))
        for name in ("input_path", "output_path"):
            notebook["metadata"].get("papermill", {}).pop(name, None)
        executed.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
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
