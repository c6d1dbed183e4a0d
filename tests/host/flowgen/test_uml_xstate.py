"""What is preloaded into linux.uml: registers set whole from a part of them, by the real kernel."""

import ctypes
import os
import subprocess
import sys

import pytest

from pairlab import paths
from pairlab.testbed.uml import kernel

GET, SET, DETACH, PEEKDATA, ATTACH = 0x4204, 0x4205, 17, 2, 16
NT_X86_XSTATE = 0x202
XMM0, HAS, YMM_UPPER = 160, 512, 576  # offsets within the image: Intel SDM 1, 13.4
SSE, AVX = 1 << 1, 1 << 2

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="user-mode Linux is of x86")


class Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def ptrace_of(library):
    function = ctypes.CDLL(library, use_errno=True).ptrace
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return function


@pytest.fixture(scope="module")
def ours():
    return ptrace_of(str(paths.native() / kernel.PRELOADED))


@pytest.fixture
def traced():
    trace = ptrace_of(None)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert trace(ATTACH, process.pid, None, None) == 0
        os.waitpid(process.pid, 0)
        yield process.pid
    finally:
        trace(DETACH, process.pid, None, None)
        process.kill()
        process.communicate()


def image_of(pid, length=1 << 16):
    image = ctypes.create_string_buffer(length)
    vector = Iovec(ctypes.addressof(image), length)
    assert ptrace_of(None)(GET, pid, NT_X86_XSTATE, ctypes.addressof(vector)) == 0
    return image, vector


def components(image):
    return int.from_bytes(image[HAS : HAS + 8], "little")


@pytest.fixture
def small(traced):
    """The first part of its registers, without AVX, of which it has some."""
    whole, vector = image_of(traced)
    if vector.length <= YMM_UPPER:
        pytest.skip("this CPU has no AVX")
    whole[HAS : HAS + 8] = (components(whole) | SSE | AVX).to_bytes(8, "little")
    whole[YMM_UPPER : YMM_UPPER + 16] = b"u" * 16
    assert ptrace_of(None)(SET, traced, NT_X86_XSTATE, ctypes.addressof(vector)) == 0
    return image_of(traced, YMM_UPPER)


def test_the_kernel_refuses_a_part(traced, small):
    assert ptrace_of(None)(SET, traced, NT_X86_XSTATE, ctypes.addressof(small[1])) == -1


def test_a_part_is_set_again_and_again_and_what_it_has_no_room_for_is_in_its_initial_state(ours, traced, small):
    image, vector = small
    for mark in (b"a", b"b"):
        image[XMM0 : XMM0 + 16] = mark * 16
        assert ours(SET, traced, NT_X86_XSTATE, ctypes.addressof(vector)) == 0
        found, _ = image_of(traced)
        assert found[XMM0 : XMM0 + 16] == mark * 16
        assert not components(found) & AVX
        assert found[YMM_UPPER : YMM_UPPER + 16] == bytes(16)


def test_the_whole_is_set_as_it_is(ours, traced, small):
    whole, vector = image_of(traced)
    whole[XMM0 : XMM0 + 16] = b"w" * 16
    assert ours(SET, traced, NT_X86_XSTATE, ctypes.addressof(vector)) == 0
    found, _ = image_of(traced)
    assert found[: vector.length] == whole[: vector.length]
    assert components(found) & AVX


def test_a_word_of_a_process_is_what_it_returns(ours, traced):
    with open(f"/proc/{traced}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    with open(f"/proc/{traced}/mem", "rb") as memory:
        memory.seek(start)
        word = int.from_bytes(memory.read(8), "little", signed=True)
    assert ours(PEEKDATA, traced, start, None) == word


def test_a_process_that_is_not_traced_is_refused(ours):
    assert ours(PEEKDATA, os.getpid(), 0, None) == -1
    assert ours(SET, os.getpid(), NT_X86_XSTATE, ctypes.addressof(Iovec())) == -1


def test_where_it_is_not_built_hosts_with_such_a_kernel_lack_it_and_are_told_the_remedy(monkeypatch, tmp_path):
    assert kernel.PRELOADED not in repr(kernel.missing())
    monkeypatch.setattr(paths, "native", lambda: tmp_path)
    assert [each for each in kernel.missing() if kernel.PRELOADED in each.what and each.remedy == "make setup"]
