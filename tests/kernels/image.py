"""The machine's root file system and kernel: made of Debian's packages, once, and kept in .cache/kernels."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pairlab import paths
from pairlab.testbed.cleanup.child_processes import killed_with_parent
from pairlab.testbed.requirements import Program

CACHE = paths.ROOT / ".cache" / "kernels"
SUITE = "bookworm"
SOURCES = tuple(
    f"deb http://deb.debian.org/{archive} {suite} main"
    for archive, suite in (
        ("debian", SUITE),
        ("debian", f"{SUITE}-updates"),
        ("debian-security", f"{SUITE}-security"),
        ("debian", f"{SUITE}-backports"),  # apt takes a package from there only where it is told to
    )
)
#: Python of that suite: the wheels are for it, whatever Python .venv has.
PYTHON = "3.11"
PACKAGES = (
    "python3",
    "iproute2",
    "iptables",
    "kmod",
    "nftables",
    "bird2",
    "openvswitch-switch",
    "iperf",
    "iperf3",
    "netcat-openbsd",
    "sockperf",
    "docker.io",
    "busybox-static",  # all that there is in the containers' image
)
#: What the tests import beyond the library's own dependencies.
TEST_PACKAGES = ("pytest", "hypothesis")
LOCK = paths.ROOT / "lib" / "requirements" / "pairlab.lock"
UV = paths.ROOT / ".venv" / "uv" / "bin" / "uv"
NEEDED = (
    Program("mmdebstrap", "mmdebstrap"),
    Program("mke2fs", "e2fsprogs"),
    Program("qemu-system-x86_64", "qemu-system-x86"),
)
SIZE = "4G"  # it is sparse

#: The machine's first process: unpacks this checkout, which comes on a disk of its own, and leaves the rest to it.
FIRST_PROCESS = """#!/bin/sh
tar -x -f /dev/vdb -C /pairlab && exec sh /pairlab/tests/kernels/guest.sh
"""


@dataclass(frozen=True)
class Image:
    """The files to boot from."""

    directory: Path

    @property
    def root(self) -> Path:
        return self.directory / "root.ext4"

    @property
    def kernel(self) -> Path:
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        return self.directory / "initrd"


class CannotBuild(Exception):
    """What is missing, or which step failed, and what to do."""


def ensure(kernel: str) -> Image:
    """The image with that Debian package as its kernel; made in a minute or two where it does not exist yet.

    kernel: as apt-get install takes it; NAME/bookworm-backports is the one of Debian's backports.
    Raises CannotBuild.
    """
    missing = [program.package for program in NEEDED if program.missing()]
    if missing:
        raise CannotBuild(f"needs {', '.join(missing)}: apt-get install --no-install-recommends {' '.join(missing)}")
    if not UV.exists():
        raise CannotBuild("needs uv, which make setup could not install: is PyPI reachable?")
    name = kernel.replace("/", "-")
    image = Image(CACHE / f"{name}-{_ingredients(kernel)}")
    if image.directory.exists():
        return image
    if os.geteuid():
        raise CannotBuild("making its root file system needs root: sudo make test-kernels")
    print(f"making a root file system with {kernel}: a minute or two, once", flush=True)
    draft = CACHE / f"{name}.draft"
    try:
        _build(kernel, draft)
        for old in CACHE.glob(f"{name}-{'?' * 12}"):
            shutil.rmtree(old)
        draft.rename(image.directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return image


def _ingredients(kernel: str) -> str:
    """A hash of what the image is made of, this recipe included."""
    parts = [
        kernel.encode(),
        Path(__file__).read_bytes(),
        LOCK.read_bytes(),
        (paths.ROOT / "pyproject.toml").read_bytes(),
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def _build(kernel: str, draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)  # of one that was killed
    draft.mkdir(parents=True)
    root = draft / "root"
    include = f"--include={','.join((kernel, *PACKAGES))}"
    _step("mmdebstrap", "--variant=minbase", "--format=directory", include, SUITE, root, *SOURCES)
    for name, there in (("vmlinuz", draft / "vmlinuz"), ("initrd.img", draft / "initrd")):
        (found,) = (root / "boot").glob(f"{name}-*")
        shutil.move(found, there)
    _add_python(root / "venv")
    (root / "pairlab").mkdir()
    (root / "first-process").write_text(FIRST_PROCESS)
    (root / "first-process").chmod(0o755)
    (root / "etc/hostname").write_text("kernels\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost kernels\n")
    _step("chroot", root, "python3", "-m", "compileall", "-q", "-j", "0", "/venv")
    _step("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", root, draft / "root.ext4", SIZE)
    shutil.rmtree(root)


def _add_python(venv: Path) -> None:
    """A virtual environment of the machine's Python: the library's dependencies as locked, and this checkout's lib."""
    packages = venv / "lib" / f"python{PYTHON}" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to("/usr/bin/python3")
    (venv / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {PYTHON}\n")
    (packages / "pairlab.pth").write_text("/pairlab/lib\n")
    platform = ("--python-version", PYTHON, "--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:")
    wanted = ("--requirements", paths.ROOT / "pyproject.toml", "--constraints", LOCK, *TEST_PACKAGES)
    _step(UV, "pip", "install", "--quiet", "--no-config", "--target", packages, *platform, *wanted)


def _step(*words: object) -> None:
    """Runs that command in namespaces of its own, so that it ends, with its mounts, where this process is killed."""
    apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *map(str, words)]
    environment = os.environ | {"UV_NATIVE_TLS": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(killed_with_parent(apart), capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise CannotBuild(f"{Path(str(words[0])).name} ended with {done.returncode}; its last words:\n{last}")
