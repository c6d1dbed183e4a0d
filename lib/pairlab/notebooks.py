"""Executes a notebook with parameters, and gives back the error it stopped with as one of ours."""

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.manager import AsyncKernelManager
from jupyter_core.utils import ensure_event_loop
from traitlets.config import Config

from pairlab import paths
from pairlab.errors import MeasurementFailed, PairlabError, StoreError, by_name
from pairlab.progress import relay
from pairlab.testbed.contracts import Progress, silent
from pairlab.testbed.mortal import mortal
from pairlab.testbed.workdir import working_directory


class MortalKernelManager(AsyncKernelManager):
    """Its kernels end with whoever started them; Jupyter's look for themselves once a second, when they are up."""

    def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
        return mortal(super().format_kernel_cmd(extra_arguments))


def execute(notebook: Path, executed: Path, parameters: Mapping[str, Any], progress: Progress = silent) -> None:
    """Runs it with papermill into `executed`, which is written even where it stops. Raises what stopped it.

    That is MeasurementFailed where its kernel died, and StoreError where `executed` cannot be written. progress: hears
    of the phases of what the notebook measures, in a thread of its own.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    logger = logging.getLogger("papermill")
    logger.setLevel(logging.WARNING)
    logger.addFilter(_is_no_error)
    # Its sockets, and the file that tells of them, in a folder of our own: not over TCP, as others may be on this host;
    # not by jupyter's names, which are the same for all kernels and lie in the working directory; and gone with us,
    # while Jupyter leaves the file behind when it is killed.
    with (
        working_directory() as place,
        relay.heard(place, progress),
        _nothing_left_waiting(),
        _ended(f"{place}/kernel.json") as connection_file,
    ):
        progress("starting the notebook", 0, 0)
        kernel = Config(
            KernelManager={"transport": "ipc", "connection_file": connection_file},
            NotebookClient={
                "kernel_manager_class": "pairlab.notebooks.MortalKernelManager",
                "extra_arguments": ["--log-level=CRITICAL"],  # it tells of being shut down, else
            },
        )
        try:
            papermill.execute_notebook(
                papermill_path(notebook),
                papermill_path(executed),
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
        except RuntimeError as error:  # how Jupyter says that a kernel did not come up
            raise MeasurementFailed(
                f"the kernel of the notebook {notebook.name} did not start: {str(error).strip()}. Is there memory left,"
                " and does `python -m ipykernel --version` answer? Then try again"
            ) from error
        except OSError as error:
            raise StoreError(
                f"the notebook {notebook.name} could not be executed into {paths.shown(executed.parent)}:"
                f" {error.strerror or error}. Is there room on the disk, and is the folder yours to write?"
                " `pairlab clean --dry-run` lists what can go"
            ) from error
        finally:
            _forget_places(executed)


@contextlib.contextmanager
def _ended(connection_file: str) -> Iterator[str]:
    """The kernel of that connection file has ended when the block is left, also where we are interrupted.

    One that is just coming up is shut down by nobody else, and writes the file again, in a folder that is gone by then.
    """
    try:
        yield connection_file
    finally:
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error):
                if connection_file in child.cmdline():
                    child.kill()
                    child.wait()


@contextlib.contextmanager
def _nothing_left_waiting() -> Iterator[None]:
    """What was begun in this thread's event loop has ended when the block is left, and says nothing afterwards.

    Interrupted, nbclient leaves tasks there that wait for the kernel. While it is being shut down they find it dead,
    and asyncio tells of their error with a traceback when they are collected, as nobody asks for it any more.
    """
    loop = ensure_event_loop()
    if loop.is_running():  # that of a notebook; nbclient takes a thread of its own then
        yield
        return
    loop.set_exception_handler(_tell_what_is_told_nowhere_else)
    try:
        yield
    finally:
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))


def _tell_what_is_told_nowhere_else(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Who runs the loop hears of a kernel's death, and of Ctrl-C, also where that came over a task that nobody asks."""
    from nbclient.exceptions import DeadKernelError

    if not isinstance(context.get("exception"), DeadKernelError | KeyboardInterrupt):
        loop.default_exception_handler(context)


def _is_no_error(record: logging.LogRecord) -> bool:
    """A filter of logging: papermill raises its errors, too, and who catches them tells them."""
    return record.levelno < logging.ERROR


def papermill_path(path: Path) -> str:
    """The path as papermill wants it, which takes what is in braces for parameters to be filled in."""
    return str(path).replace("{", "{{").replace("}", "}}")


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
