"""A measurement in a process of its own, attended from this one.

So a notebook's kernel stays responsive, and what it draws meanwhile is not done by the process that measures. The child
is this module run as a program: what to measure comes on its standard input, and what happens goes out as lines of
JSON, each an object of one name: owner, phase, sample, warning, and in the end run or error. It is killed when the
thread that attends it ends, and what it has built goes with it, as with any measuring process that is killed.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from pairlab import store
from pairlab.errors import MeasurementFailed, PairlabError, by_name
from pairlab.measurement import measure
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.testbed import kin, owner
from pairlab.testbed.contracts import Progress, silent
from pairlab.testbed.live import Sample, Watch
from pairlab.testbed.mortal import mortal

#: How long a child that was interrupted may take to clean up before it is killed.
PATIENCE_S = 10.0
#: How long what tidies up after a killed child may take: hundreds of containers take their time.
TIDY_S = 60.0
_AGAIN_S = 0.05
#: The longest line that is read; a sample of 5000 clients has 100 kB.
_LINE_BYTES = 1 << 22
#: How much is told of what a child complained of before it died.
_LAST_WORDS_BYTES = 2000


def attend(
    spec: Spec,
    *,
    fresh: bool = False,
    wait: bool = True,
    root: Path | None = None,
    on_phase: Progress = silent,
    on_sample: Watch | None = None,
) -> Run:
    """`measure(spec)` in a process of its own; returns the run as it is stored.

    fresh, wait, root: as of `measure`. on_phase, on_sample: called here, in this thread, as the measurement goes; an
    error in one of them ends it. Ctrl-C ends the child, waits until the host is clean, and is raised again; a second
    one kills the child.

    Raises what `measure` raised, and MeasurementFailed where the child died.
    """
    account = _Account(on_phase, on_sample)
    on_phase("starting", 0, 0)
    with (
        _files(spec, fresh, wait, root, bool(on_sample)) as (request, complaints),
        subprocess.Popen(
            _command(), stdin=request, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
        ) as child,
    ):
        try:
            for line in child.stdout:
                account.hear(line)
            child.wait()
        except BaseException:
            _end(child)
            raise
        finally:
            _await_tidy(account)
        return account.outcome(child.returncode, complaints)


async def attend_async(
    spec: Spec,
    *,
    fresh: bool = False,
    wait: bool = True,
    root: Path | None = None,
    on_phase: Progress = silent,
    on_sample: Watch | None = None,
) -> Run:
    """The same in an event loop, such as that of a notebook's kernel; cancelling its task is what Ctrl-C is above."""
    account = _Account(on_phase, on_sample)
    on_phase("starting", 0, 0)
    with _files(spec, fresh, wait, root, bool(on_sample)) as (request, complaints):
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *_command(),
                stdin=request,
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,
                limit=_LINE_BYTES,
            )
        )
        try:
            child = await asyncio.shield(starting)  # cancelled, asyncio would kill it, whatever it has built by then
            while line := await child.stdout.readline():
                account.hear(line)
            await child.wait()
        except BaseException:
            await _end_async(await starting, account)
            raise
        finally:
            await _await_tidy_async(account)
        return account.outcome(child.returncode, complaints)


def _command() -> list[str]:
    return mortal([sys.executable, "-P", "-m", "pairlab.attended"])


@contextlib.contextmanager
def _files(
    spec: Spec, fresh: bool, wait: bool, root: Path | None, watched: bool
) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """What the child is asked, and where it may complain; files without a name, as nobody can get stuck over them."""
    asked = {
        "parent": os.getpid(),
        "spec": spec.model_dump(),
        "fresh": fresh,
        "wait": wait,
        "root": None if root is None else str(root),
        "watched": watched,
    }
    with tempfile.TemporaryFile() as request, tempfile.TemporaryFile() as complaints:
        request.write(json.dumps(asked).encode())
        request.seek(0)
        yield request, complaints


class _Account:
    """What a child tells, passed on as it comes, and what came of it. owner: who the child is; empty until it says."""

    def __init__(self, on_phase: Progress, on_sample: Watch | None):
        self._on_phase = on_phase
        self._on_sample = on_sample
        self.owner = ""
        self._run: Path | None = None
        self._error: PairlabError | None = None

    def hear(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except ValueError:
            return  # what it died over, or what others printed before it had its output for itself
        match told:
            case {"owner": told}:
                self.owner = told
            case {"phase": [name, done, total]}:
                self._on_phase(name, done, total)
            case {"sample": told}:
                self._on_sample(Sample(**{**told, "client_bps": tuple(told["client_bps"])}))
            case {"warning": text}:
                warnings.warn(text, stacklevel=3)
            case {"run": path}:
                self._run = Path(path)
            case {"error": [kind, message]}:
                self._error = by_name(kind)(message)

    def untidy(self) -> bool:
        """Whether something that the child started still runs, where it did not come to its own end."""
        if self._run or self._error or not self.owner:
            return False
        return any(each.owner == self.owner and not each.zombie for each in kin.processes().values())

    def outcome(self, status: int, complaints: IO[bytes]) -> Run:
        """The stored run, when the child has ended with that status. Raises what stopped it."""
        if self._run:
            return store.read(self._run)
        if self._error:
            raise self._error
        how = f"was killed ({signal.Signals(-status).name})" if status < 0 else f"ended with status {status}"
        words = _last_words(complaints)
        left = "not all of its testbed is gone: `pairlab clean`" if self.untidy() else "its testbed is gone"
        next_step = "does `dmesg` tell of memory running out? Fewer pairs need less" if status < 0 else "try again"
        raise MeasurementFailed(
            f"the measuring process {how}; {left}; {next_step}{'. It said last: ' + words if words else ''}"
        )


def _last_words(complaints: IO[bytes]) -> str:
    size = complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, size - _LAST_WORDS_BYTES))
    return complaints.read().decode(errors="replace").strip()


def _end(child: subprocess.Popen) -> None:
    """Has it clean up and end, as Ctrl-C does; kills it where that takes too long, or at another Ctrl-C."""
    child.send_signal(signal.SIGINT)
    try:
        child.communicate(timeout=PATIENCE_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()


async def _end_async(child: asyncio.subprocess.Process, account: _Account) -> None:
    """The same, where another cancelling is the other Ctrl-C.

    A notebook's kernel ignores SIGINT between cells, so a child of its does until it says who it is: see `main`.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not account.owner and (line := await child.stdout.readline()):
                account.hear(line)
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGINT)
            await child.wait()
    except (TimeoutError, asyncio.CancelledError):
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def _await_tidy(account: _Account) -> None:
    """Waits until what tidies up after a child that died has done so."""
    deadline = time.monotonic() + TIDY_S
    while account.untidy() and time.monotonic() < deadline:
        time.sleep(_AGAIN_S)


async def _await_tidy_async(account: _Account) -> None:
    deadline = time.monotonic() + TIDY_S
    while account.untidy() and time.monotonic() < deadline:
        await asyncio.sleep(_AGAIN_S)


class _Outlet:
    """Lines of JSON to who attends, who may be busy: writing waits for nobody but at the end.

    While one line is on its way, others that only say how it goes are left out.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._left = b""
        os.set_blocking(descriptor, False)

    def mention(self, **told: Any) -> None:
        """Says how it goes, if somebody listens. Raises BrokenPipeError, which ends the measurement, if nobody will."""
        self._push()
        if not self._left:
            self.tell(**told)

    def tell(self, **told: Any) -> None:
        """Says what must be heard, now or later."""
        self._left += json.dumps(told).encode() + b"\n"
        self._push()

    def finish(self) -> None:
        """Comes back when all has been taken."""
        os.set_blocking(self._descriptor, True)
        self._push()

    def _push(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._left:
                self._left = self._left[os.write(self._descriptor, self._left) :]


def _own_output() -> int:
    """Standard output, for us alone: what anybody else prints, here or in a child, goes with the complaints."""
    ours = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return ours


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been inherited as ignored
    asked = json.load(sys.stdin)
    if os.getppid() != asked["parent"]:
        return 1  # who asked is dead already
    out = _Outlet(_own_output())
    out.tell(owner=owner.me())
    warnings.showwarning = lambda message, *_: out.tell(warning=str(message))
    try:
        run = measure(
            Spec(**asked["spec"]),
            fresh=asked["fresh"],
            wait=asked["wait"],
            root=asked["root"] and Path(asked["root"]),
            progress=lambda *phase: out.mention(phase=phase),
            watch=(lambda sample: out.mention(sample=asdict(sample))) if asked["watched"] else None,
        )
        out.tell(run=str(run.path.absolute()))
    except PairlabError as error:
        out.tell(error=[type(error).__name__, str(error)])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    out.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
