"""The virtual machine: this checkout goes in on a disk, pytest's words and report come out on another."""

import collections
import contextlib
import selectors
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from pairlab import paths
from pairlab.testbed.cleanup.child_processes import killed_with_parent
from tests.kernels.image import Image

#: /dev/kvm may be there and guests hang nevertheless, on hosts that are virtual machines themselves: so never KVM.
#: Memory is for three Docker hosts, which are refused with less; the machine takes of its host's only what it uses.
MACHINE = ("-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "4096", "-nodefaults", "-no-user-config", "-no-reboot")
#: Messages of the initial ramdisk and the kernel's own are left out, but for errors; a panic ends the machine at once.
#: cx16: Debian's 6.12 uses cmpxchg16b to allocate memory, after which QEMU 7.2 has wrong flags, and the kernel crashes.
COMMAND_LINE = "root=/dev/vda rw console=ttyS0 quiet loglevel=4 panic=-1 clearcpuid=cx16 init=/first-process"
SENT = ("lib", "tests", "pyproject.toml", "Makefile", "sweeps", "notebooks")
RESULTS_BYTES = 16 << 20
#: Lines of the console that a failure quotes.
LAST_LINES = 15


class NoReport(Exception):
    """The machine ended, or was ended, before it reported; its last words."""


def run(image: Image, words: Sequence[str], place: Path, timeout_s: float) -> Path:
    """Boots it, runs pytest with these words in it, shows its console, and returns the folder of what it reported.

    place: an empty folder. Raises NoReport. However this ends, the machine has ended.
    """
    checkout, results = place / "checkout.tar", place / "results.raw"
    _pack(checkout, place, words)
    with open(results, "wb") as file:
        file.truncate(RESULTS_BYTES)
    last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
    end = "it ended"
    with _booted(image, checkout, results) as machine:
        for line in _lines(machine, time.monotonic() + timeout_s):
            last.append(line)
            print(f"  {line}", flush=True)
        if machine.poll() is None:
            end = f"it had {timeout_s:g} s"
    reported = place / "reported"
    reported.mkdir()
    subprocess.run(["tar", "-x", "--no-same-owner", "-f", results, "-C", reported], check=True)
    if not any(reported.iterdir()):  # the disk is as it was: zeros, which is an archive of nothing
        tail = "\n".join(last)
        raise NoReport(f"the virtual machine reported nothing: {end}. Its last words:\n{tail}")
    return reported


def _pack(checkout: Path, place: Path, words: Sequence[str]) -> None:
    """A tar archive of this checkout as it is, what is not committed included, and pytest's words."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *SENT]
    names = subprocess.run(listed, cwd=paths.ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    (place / "words").write_text("\0".join(words))
    with tarfile.open(checkout, "w") as archive:
        archive.add(place / "words", "words")
        for name in (*filter(None, names), str(paths.flowgen().relative_to(paths.ROOT))):
            if (paths.ROOT / name).exists():  # not one that was removed and not committed yet
                archive.add(paths.ROOT / name, name)


@contextlib.contextmanager
def _booted(image: Image, checkout: Path, results: Path) -> Iterator[subprocess.Popen]:
    disks = [
        f"file={image.root},format=raw,if=virtio,snapshot=on",  # so that each begins with the same
        f"file={checkout},format=raw,if=virtio,readonly=on",
        f"file={results},format=raw,if=virtio",
    ]
    command = ["qemu-system-x86_64", *MACHINE, "-display", "none", "-serial", "stdio"]
    command += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", COMMAND_LINE]
    command += [word for disk in disks for word in ("-drive", disk)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(killed_with_parent(command), **pipes) as machine:
        try:
            yield machine
        finally:
            machine.kill()


def _lines(machine: subprocess.Popen, deadline: float) -> Iterator[str]:
    """What it prints, line by line, until it ends or its time is over."""
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(machine.stdout, selectors.EVENT_READ)
        while (left_s := deadline - time.monotonic()) > 0:
            if not selector.select(left_s):
                break
            read = machine.stdout.read1()
            if not read:
                machine.wait()
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
    if rest:
        yield rest.decode(errors="replace")
