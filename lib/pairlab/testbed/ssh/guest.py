"""The agent in a sandbox that is a host on another machine."""

import os
import shutil
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.testbed.links.lan import in_memory
from pairlab.testbed.netns.agent import serve
from pairlab.testbed.own_kernels import HERE, TO_US
from pairlab.testbed.own_kernels.guest import Guest
from pairlab.testbed.own_kernels.relay import Inner
from pairlab.testbed.ssh import packed, text_of


class SshGuest(Guest):
    """What can be called in such a host."""

    kernel = f"the kernel of {os.uname().nodename}"

    def _make_uplink(self) -> None:
        pass  # the keeper has made it

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
        """As Guest.spawn, with the files that outputs go to, which a traffic tool may write as nobody, too."""
        for _, argv in calls:
            for option in ("--stdout", "--stderr"):
                file = Path(argv[argv.index(option) + 1])
                if file.parent == HERE:
                    file.touch()
                    file.chmod(0o666)
        return super().spawn(calls)

    def put(self, files: Mapping[str, Sequence[Any]]) -> None:
        """Writes these files where processes look for them: by name, text and mode."""
        for name, (text, mode) in files.items():
            (HERE / name).write_text(text, encoding="utf-8", errors="surrogateescape")
            (HERE / name).chmod(mode & 0o777)

    def texts(self, names: Sequence[str]) -> dict[str, str]:
        """What these files have by now; without those that are not here."""
        return {name: text_of(HERE / name) for name in names if (HERE / name).exists()}

    def files(self, names: Sequence[str]) -> dict[str, str]:
        """These files, packed; without those that are not here."""
        return {name: packed((HERE / name).read_bytes()) for name in names if (HERE / name).exists()}

    def absent(self, commands: Sequence[str]) -> list[str]:
        """Those of these commands that this machine does not have."""
        return [each for each in commands if not shutil.which(each)]


def main(flowgen: int, line: int, relayed: int) -> None:
    for each in (flowgen, line, relayed):
        os.set_inheritable(each, False)
    in_memory(Path("/run"))
    HERE.mkdir()
    (HERE / "flowgen").write_bytes(Path(f"/proc/self/fd/{flowgen}").read_bytes())
    (HERE / "flowgen").chmod(0o755)
    files = HERE / "files"
    files.mkdir()
    Inner(Connection(relayed), HERE / "control").start()
    connection = Connection(line)
    connection.send_bytes(TO_US)
    try:
        serve(connection, SshGuest(files, connection.fileno()))
    finally:
        os._exit(0)
