"""Programs that are killed when the thread that started them ends."""

import shutil
from collections.abc import Sequence

#: Of util-linux, as unshare is.
SETPRIV = shutil.which("setpriv")


def killed_with_parent(argv: Sequence[str]) -> list[str]:
    """The command that runs this one with a parent-death signal (setpriv(1), prctl(2)).

    Without setpriv, the command as it is.
    """
    return [*([SETPRIV, "--pdeathsig", "KILL"] if SETPRIV else []), *argv]
