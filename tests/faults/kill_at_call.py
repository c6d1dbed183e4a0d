"""Runs work in a forked child under ptrace(2), and kills it between any two system calls that change files.

What a process has left on the disk when it is killed depends on which of these calls it has come to, and on nothing
else: to kill it before the first, the second, and so on until it ends by itself, is to try every accident there is.
"""

import ctypes
import itertools
import os
import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

TRACEME, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
TRACESYSGOOD, EXITKILL = 0x1, 0x100000
ENTRY = 1

#: The calls on x86_64 that change what is in files, and how they tell which: a descriptor, or paths at these arguments.
BY_DESCRIPTOR = {1: "write", 18: "pwrite64", 20: "writev", 40: "sendfile", 73: "flock", 74: "fsync", 75: "fdatasync"}
BY_DESCRIPTOR |= {77: "ftruncate", 91: "fchmod", 326: "copy_file_range"}
BY_PATH = {76: ("truncate", (0,)), 82: ("rename", (0, 1)), 83: ("mkdir", (0,)), 84: ("rmdir", (0,))}
BY_PATH |= {86: ("link", (0, 1)), 87: ("unlink", (0,)), 88: ("symlink", (0, 1)), 90: ("chmod", (0,))}
BY_PATH |= {258: ("mkdirat", (1,)), 263: ("unlinkat", (1,)), 264: ("renameat", (1, 3)), 265: ("linkat", (1, 3))}
BY_PATH |= {268: ("fchmodat", (1,)), 316: ("renameat2", (1, 3)), 452: ("fchmodat2", (1,))}
OPENAT = 257

libc = ctypes.CDLL(None, use_errno=True)


class SyscallInfo(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("rest", ctypes.c_uint64 * 2),
    )


@dataclass
class Trace:
    """The calls that the child has made, each with the paths it is about; done: it came to its end."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    done: bool = False


def run_until_call(number: int | None, work: Callable[[], object]) -> Trace:
    """Runs `work` in a child and kills it before its `number`-th call that changes files.

    None, or a number higher than it makes calls: it runs to its end.
    """
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are noted for x86_64 only")
    child = os.fork()
    if not child:
        try:
            libc.ptrace(TRACEME, 0, 0, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)
    trace = Trace()
    os.waitpid(child, 0)
    _ptrace(SETOPTIONS, child, 0, TRACESYSGOOD | EXITKILL)
    passed_on = 0
    while True:
        _ptrace(SYSCALL, child, 0, passed_on)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == 0, "the work itself failed"
            trace.done = True
            return trace
        stop = os.WSTOPSIG(status)
        passed_on = 0 if stop in (signal.SIGTRAP, signal.SIGTRAP | 0x80) else stop
        if stop == signal.SIGTRAP | 0x80 and (call := _call_of(child)):
            if len(trace.calls) + 1 == number:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return trace
            trace.calls.append(call)


def kill_before_every_call(
    work: Callable[[], object], prepare: Callable[[], object], check: Callable[[Trace], object], *, every: int = 1
) -> int:
    """For every n, or each `every`-th: prepare(), `work` killed before its n-th call that changes files, check(trace).

    Returns how many of these calls there are.
    """
    for number in itertools.count(1, every):
        prepare()
        trace = run_until_call(number, work)
        if trace.done:
            return len(trace.calls)
        try:
            check(trace)
        except BaseException as error:
            error.add_note(f"killed before call {number}, after {trace.calls[-3:]}")
            raise


def _ptrace(request: int, child: int, address: int, data: object) -> int:
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    done = libc.ptrace(request, child, address, data)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def _call_of(child: int) -> tuple[str, ...] | None:
    """The call that the child is about to make, where it is one that changes files."""
    info = SyscallInfo()
    _ptrace(GET_SYSCALL_INFO, child, ctypes.sizeof(info), ctypes.addressof(info))
    if info.op != ENTRY:
        return None
    if info.number in BY_DESCRIPTOR:
        return BY_DESCRIPTOR[info.number], os.readlink(f"/proc/{child}/fd/{info.arguments[0]}")
    if info.number in BY_PATH:
        name, places = BY_PATH[info.number]
        return name, *(_text(child, info.arguments[place]) for place in places)
    if info.number == OPENAT and info.arguments[2] & os.O_CREAT:
        return "create", _text(child, info.arguments[1])
    return None


def _text(child: int, address: int) -> str:
    with open(f"/proc/{child}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return os.fsdecode(memory.read(4096).partition(b"\0")[0])
