"""`python lib/size.py`: how large this checkout is: the library and the tests by folder, the notebooks, the clone."""

import json
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tracked() -> list[Path]:
    """The files that git tracks, as in the working tree, relative to ROOT."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for path in map(Path, listed.split("\0")) if (ROOT / path).is_file()]


def lines_of(path: Path) -> int:
    return len((ROOT / path).read_bytes().splitlines())


def rooms(files: list[Path], folder: str) -> None:
    """Lines and modules of each room, which is a folder directly below `folder`, and of all of them."""
    lines, modules = Counter(), Counter()
    for path in (path for path in files if path.suffix == ".py" and path.is_relative_to(folder)):
        inner = path.relative_to(folder).parts
        room = inner[0] if len(inner) > 1 else "."
        lines[room] += lines_of(path)
        modules[room] += 1
    print(f"\n{folder}: {lines.total():,} lines in {modules.total()} modules")
    for room, count in lines.most_common():
        print(f"  {room:<28} {count:7,} {modules[room]:5}")


def notebooks(files: list[Path]) -> None:
    """Lines of code in each notebook; blank lines and comments are none."""
    print("\nnotebooks: lines of code")
    for path in sorted(path for path in files if path.suffix == ".ipynb"):
        cells = json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code").splitlines()
        count = sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in code)
        print(f"  {path!s:<62} {count:5}")


def main() -> None:
    files = tracked()
    for folder in ("lib/pairlab", "tests", "lib/bench", "lib/soak", "plugins"):
        rooms(files, folder)
    notebooks(files)
    size = sum((ROOT / path).lstat().st_size for path in files)
    print(f"\nclone: {len(files):,} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
