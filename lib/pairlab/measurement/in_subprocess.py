"""A measurement in a process of its own, attended from this one.

So a notebook's kernel stays responsive, and what it draws meanwhile is not done by the process that measures. The child
is this module run as a program: its standard input says what to measure, and it reports what happens as lines of JSON,
each an object of one name: owner, phase, sample, warning, and in the end run or error. It is killed when the thread
that attends it ends, and what it has built goes with it, as with any measuring process that is killed.
"""

import asyncio
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from pairlab import store
from pairlab.errors import MeasurementFailed, PairlabError, by_name
from pairlab.measurement.measure import measure
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed.cleanup import ownership, process_table
from pairlab.testbed.cleanup.child_processes import killed_with_parent
from pairlab.testbed.contracts import Progress, no_progress
from pairlab.testbed.host.live_sampler import Sample, Watch

#: How long a child that was interrupted may take to clean up before it is killed.
PATIENCE_S = 10.0
#: How long cleanup after a killed child may take: hundreds of containers take their time.
TIDY_S = 60.0
_POLL_S = 0.05
_READ_BYTES = 1 << 16
#: How much of a child's last output is quoted when it died.
_LAST_OUTPUT_BYTES = 2000

#: Waits until this descriptor can be read, or so many seconds at most. None: no descriptor; no limit.
_Pause = Callable[[int | None, float | None], Awaitable[None]]


def attend(spec: Spec, **options: Any) -> Run:
    """`measure(spec)` in a process of its own; returns the run as it is stored.

    fresh, wait, root: as of `measure`. on_phase (a Progress), on_sample (a Watch): called here, in this thread, as the
    measurement goes; an error in one of them ends it. Ctrl-C ends the child, waits until the host is clean, and is
    raised again; a second one kills the child.

    Raises what `measure` raised, and MeasurementFailed where the child died.
    """
    try:
        _attended(_pause, spec, **options).send(None)  # to its end: each of its pauses is over when it is awaited
    except StopIteration as end:
        return end.value
    raise AssertionError("a pause that waits here has nothing to wait for elsewhere")


async def attend_async(spec: Spec, **options: Any) -> Run:
    """The same in an event loop, such as that of a notebook's kernel; cancelling its task is what Ctrl-C is above."""
    return await _attended(_pause_in_loop, spec, **options)


async def _pause(descriptor: int | None, seconds: float | None) -> None:
    poll = select.poll()
    if descriptor is not None:
        poll.register(descriptor, select.POLLIN)
    poll.poll(None if seconds is None else 1000 * seconds)


async def _pause_in_loop(descriptor: int | None, seconds: float | None) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    # Not asyncio.timeout: in Python 3.11.2, one that is over cancels a task once more that was cancelled before.
    timer = None if seconds is None else loop.call_later(seconds, ready.set)
    if descriptor is not None:
        loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        if timer:
            timer.cancel()
        if descriptor is not None:
            loop.remove_reader(descriptor)


async def _attended(
    pause: _Pause,
    spec: Spec,
    *,
    fresh: bool = False,
    wait: bool = True,
    root: Path | None = None,
    on_phase: Progress = no_progress,
    on_sample: Watch | None = None,
) -> Run:
    """As `attend`, which waits by `pause` only: there it is interrupted."""
    messages = _Messages(on_phase, on_sample)
    on_phase("starting", 0, 0)
    request = {"parent": os.getpid(), "spec": spec.model_dump(), "watched": bool(on_sample)}
    request |= {"fresh": fresh, "wait": wait, "root": root and str(root)}
    with (
        _files(request) as (asked, complaints),
        subprocess.Popen(
            _command(), stdin=asked, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
        ) as child,
    ):
        assert child.stdout
        lines = _Lines(child.stdout.fileno())
        try:
            while child.poll() is None:
                await _read(pause, lines, messages)
            while not lines.ended:  # what it wrote last
                await _read(pause, lines, messages)
        except BaseException:
            await _end(pause, child, lines, messages)
            raise
        finally:
            deadline = time.monotonic() + TIDY_S
            while messages.untidy() and time.monotonic() < deadline:
                await pause(None, _POLL_S)
        return messages.outcome(child.returncode, complaints)


async def _read(pause: _Pause, lines: "_Lines", messages: "_Messages", within_s: float | None = None) -> None:
    """Waits for output of the child and passes it on; once there will be no more, waits a moment."""
    if lines.ended:
        await pause(None, _POLL_S)
        return
    await pause(lines.descriptor, within_s)
    for line in lines.read():
        messages.receive(line)


async def _end(pause: _Pause, child: subprocess.Popen, lines: "_Lines", messages: "_Messages") -> None:
    """Has it clean up and end, as Ctrl-C does; kills it where that takes too long, or at another interruption.

    A notebook's kernel ignores SIGINT between cells, so a child of its does until it says who it is: see `main`.
    """
    deadline = time.monotonic() + PATIENCE_S
    messages.mute()
    interrupted = False
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        while child.poll() is None and time.monotonic() < deadline:
            if not interrupted and (messages.owner or lines.ended):
                child.send_signal(signal.SIGINT)
                interrupted = True
            await _read(pause, lines, messages, within_s=_POLL_S)
    child.kill()
    child.wait()


class _Lines:
    """The lines that a process writes into a pipe, as they come. ended: there will be no more."""

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        self.ended = False
        self._rest = b""
        os.set_blocking(descriptor, False)

    def read(self) -> list[bytes]:
        """What has come and is whole; waits for nothing."""
        try:
            new = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        self.ended = not new
        *whole, self._rest = (self._rest + new).split(b"\n")
        return whole


def _command() -> list[str]:
    return killed_with_parent([sys.executable, "-P", "-m", "pairlab.measurement.in_subprocess"])


@contextlib.contextmanager
def _files(request: Mapping[str, Any]) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The child's standard input, with that, and its standard error: files without a name never fill up as pipes do."""
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as complaints:
        asked.write(json.dumps(request).encode())
        asked.seek(0)
        yield asked, complaints


class _Messages:
    """What a child reports, passed on as it comes, and its result. owner: who the child is; empty until it says."""

    def __init__(self, on_phase: Progress, on_sample: Watch | None):
        self._on_phase = on_phase
        self._on_sample = on_sample
        self.owner = ""
        self._run: Path | None = None
        self._error: PairlabError | None = None

    def mute(self) -> None:
        self._on_phase, self._on_sample = no_progress, lambda sample: None

    def receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # a part of one that it died over, or output of others from before it had its output for itself
        match message:
            case {"owner": owner}:
                self.owner = owner
            case {"phase": [name, done, total]}:
                self._on_phase(name, done, total)
            case {"sample": sample}:
                if self._on_sample:
                    self._on_sample(Sample(**{**sample, "client_bps": tuple(sample["client_bps"])}))
            case {"warning": text}:
                warnings.warn(text, stacklevel=5)
            case {"run": path}:
                self._run = Path(path)
            case {"error": [kind, message]}:
                self._error = by_name(kind)(message)

    def untidy(self) -> bool:
        """Whether processes that the child started still run, where it died."""
        if self._run or self._error or not self.owner:
            return False
        return any(each.owner == self.owner and not each.zombie for each in process_table.read_processes().values())

    def outcome(self, status: int, complaints: IO[bytes]) -> Run:
        """The stored run, when the child has ended with that status. Raises what stopped it."""
        if self._run:
            return store.read(self._run)
        if self._error:
            raise self._error
        how = f"was killed ({signal.Signals(-status).name})" if status < 0 else f"ended with status {status}"
        size = complaints.seek(0, os.SEEK_END)
        complaints.seek(max(0, size - _LAST_OUTPUT_BYTES))
        output = complaints.read().decode(errors="replace").strip()
        left = "its testbed was not removed whole: run `pairlab clean`" if self.untidy() else "its testbed was removed"
        next_step = "does `dmesg` report a lack of memory? Fewer pairs need less" if status < 0 else "try again"
        raise MeasurementFailed(
            f"the measuring process {how}; {left}; {next_step}{'. Last output: ' + output if output else ''}"
        )


class _Outlet:
    """Lines of JSON to the attending process, which may be busy: only the end waits for it.

    While one line is being written, others that only report progress are dropped.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._left = b""
        os.set_blocking(descriptor, False)

    def send_if_free(self, **message: Any) -> None:
        """Reports progress, or drops it. Raises BrokenPipeError, which ends the measurement, if no process attends."""
        self._push()
        if not self._left:
            self.send(**message)

    def send(self, **message: Any) -> None:
        """Sends what must arrive, now or later."""
        self._left += json.dumps(message).encode() + b"\n"
        self._push()

    def flush(self) -> None:
        """Returns when all has been written."""
        os.set_blocking(self._descriptor, True)
        self._push()

    def _push(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._left:
                self._left = self._left[os.write(self._descriptor, self._left) :]


def _own_output() -> int:
    """Standard output, for us alone: what anybody else prints, here or in a child, goes to standard error."""
    ours = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return ours


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been inherited as ignored
    request = json.load(sys.stdin)
    if os.getppid() != request["parent"]:
        return 1  # the parent has ended already
    out = _Outlet(_own_output())
    out.send(owner=ownership.me())
    warnings.showwarning = lambda message, *_: out.send(warning=str(message))
    try:
        run = measure(
            Spec(**request["spec"]),
            fresh=request["fresh"],
            wait=request["wait"],
            root=request["root"] and Path(request["root"]),
            progress=lambda *phase: out.send_if_free(phase=phase),
            watch=(lambda sample: out.send_if_free(sample=asdict(sample))) if request["watched"] else None,
        )
        if run.path:
            out.send(run=str(run.path.absolute()))
    except PairlabError as error:
        out.send(error=[type(error).__name__, str(error)])
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
