"""Programs that end with whoever started them."""

import shutil
from collections.abc import Sequence

#: Of util-linux, as unshare is.
SETPRIV = shutil.which("setpriv")


def mortal(argv: Sequence[str]) -> list[str]:
    """The command that runs this one, and has it killed when the thread that started it ends (setpriv(1), prctl(2)).

    Where there is no setpriv, the command as it is.
    """
    return [*([SETPRIV, "--pdeathsig", "KILL"] if SETPRIV else []), *argv]
