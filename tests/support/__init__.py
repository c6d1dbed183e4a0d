"""What tests of several tiers share: made-up runs, stand-ins, captured output of real tools, the state of the host."""

from pathlib import Path

#: Output of real tools, the version in the file's name.
CAPTURED = Path(__file__).parent / "captured"
#: The same, of the tools of the packages in plugins/ too.
CAPTURED_BY_ALL = (CAPTURED, *sorted(Path(__file__).parents[2].glob("plugins/*/tests/captured")))
