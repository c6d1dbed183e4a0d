"""What a wheel of pairlab has besides its modules: notebooks, sweeps, the paper's template, the image's list, flowgen.

They are in the wheel as in a checkout, below pairlab/shipped (pairlab/paths.py). flowgen is linked statically, so that
the wheel's tag needs no libc; another machine's, with ziglang: FLOWGEN_ARCH=aarch64 pip wheel --no-deps .

The repository's address is declared by who publishes: GitHub Actions says where it builds. Then the metadata have the
project's pages, and README's links and pictures lead there, as those within a repository lead nowhere on PyPI.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = (
    "notebooks/compare.ipynb",
    "notebooks/workbench.ipynb",
    "notebooks/experiments/*.ipynb",
    "notebooks/analysis/*.ipynb",
    "sweeps/*.yaml",
    "paper/main.tex",
    "paper/report.tex",
    "paper/pairlab.sty",
    "paper/latexmkrc",
    "lib/image/*",
)
ARCHITECTURE = os.environ.get("FLOWGEN_ARCH") or os.uname().machine


class BuildPy(build_py):
    """Copies them, and builds flowgen; not for an editable install, which finds them in the checkout."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib) / "pairlab" / "shipped"
        for pattern in SHIPPED:
            files = sorted(ROOT.glob(pattern))
            if not files:
                raise FileNotFoundError(f"{pattern} is not here, and belongs into the wheel: see MANIFEST.in")
            for file in files:
                target = place / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
        build_flowgen(place / "lib" / "flowgen" / "build")


class EggInfo(egg_info):
    """Adds the addresses of the repository, where they are known."""

    def finalize_options(self):
        super().finalize_options()
        server, name, ref = (os.environ.get(f"GITHUB_{each}") for each in ("SERVER_URL", "REPOSITORY", "REF_NAME"))
        if server and name and ref:
            home, metadata = f"{server}/{name}", self.distribution.metadata
            metadata.project_urls = {
                "Source": home,
                "Documentation": f"{home}/blob/{ref}/docs/index.md",
                "Changelog": f"{home}/blob/{ref}/CHANGELOG.md",
                "Issues": f"{home}/issues",
            }
            metadata.long_description = with_absolute_links(metadata.long_description, home, ref)


def with_absolute_links(markdown: str, home: str, ref: str) -> str:
    """The page with its links and pictures of the repository as they are at that tag or branch."""
    relative = re.compile(r"(!?)(\[[^]]*\])\((?![a-z]+:|#)([^)]+)\)")
    return relative.sub(
        lambda link: f"{link[1]}{link[2]}({home}/{'raw' if link[1] else 'blob'}/{ref}/{link[3]})", markdown
    )


class BdistWheel(bdist_wheel):
    """A wheel for each architecture, and for any Python 3 there."""

    def finalize_options(self):
        self.distribution.has_ext_modules = lambda: True  # a program is no less of one machine
        super().finalize_options()

    def get_tag(self):
        return "py3", "none", f"manylinux_2_17_{ARCHITECTURE}.manylinux2014_{ARCHITECTURE}"


def build_flowgen(target: Path) -> None:
    """By CC, else the system's compiler for its own architecture, else by ziglang."""
    own = os.uname().machine == ARCHITECTURE and "FLOWGEN_ARCH" not in os.environ and shutil.which("cc")
    zig = f"{shlex.quote(sys.executable)} -m ziglang cc -target {ARCHITECTURE}-linux-musl"
    compiler = os.environ.get("CC") or ("cc" if own else zig)
    sources = target.parent / "sources"
    shutil.copytree(ROOT / "lib" / "flowgen", sources, ignore=shutil.ignore_patterns("build", "fuzz"))
    try:
        subprocess.run(["make", "-s", "-C", str(sources), f"CC={compiler}"], check=True)
        shutil.copytree(sources / "build", target, dirs_exist_ok=True)
    finally:
        shutil.rmtree(sources)
