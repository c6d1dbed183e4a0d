"""Names of the kernel's functions, by address."""

from bisect import bisect_right
from pathlib import Path

from pairlab.testbed.requirements import Lack, kernel_setting

FILE = Path("/proc/kallsyms")
RESTRICT = Path("/proc/sys/kernel/kptr_restrict")


class Symbols:
    """The functions of a kernel. text: as /proc/kallsyms has it: "ffffffff81000110 T __switch_to_asm [module]"."""

    def __init__(self, text: str):
        found: dict[int, str] = {}
        for line in text.splitlines():
            words = line.split()
            if len(words) >= 3 and words[1] in "tTwW":
                name = words[2].partition(".")[0]  # name.isra.0 and name.cold are parts of that function
                found.setdefault(int(words[0], 16), " ".join([name, *words[3:]]))
        self._addresses = sorted(found)
        self._names = [found[address] for address in self._addresses]

    def name(self, address: int) -> str:
        """The function that has that address, with its module in brackets."""
        place = bisect_right(self._addresses, address) - 1
        return self._names[place] if place >= 0 else "[unknown]"


def lack(file: Path = FILE) -> Lack | None:
    """What is missing for the kernel to tell its functions' addresses; all of them are 0 to who may not see them."""
    try:
        with open(file) as lines:
            told = any(int(line.split()[0], 16) for line, _ in zip(lines, range(100), strict=False))
    except OSError as error:
        return Lack(f"{file} cannot be read: {error.strerror}", "a kernel with CONFIG_KALLSYMS")
    if told:
        return None
    return Lack(
        f"the kernel hides the addresses of its functions (kptr_restrict is {kernel_setting(RESTRICT)})",
        "run pairlab as root, or sudo sysctl -w kernel.kptr_restrict=0",
    )
