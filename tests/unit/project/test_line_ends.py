"""Every clone has the line ends of Linux, whatever the user's git makes of them elsewhere."""

import shutil
import subprocess

import pytest

from pairlab import paths


def git(*arguments, at=paths.ROOT):
    done = subprocess.run(["git", "-C", at, *arguments], capture_output=True, check=True)
    return done.stdout


def test_a_file_is_of_lines_that_end_as_on_linux_or_of_none():
    for line in git("ls-files", "--eol", "-z").decode().rstrip("\0").split("\0"):
        stored, _, asked = line.partition("\t")[0].split(maxsplit=2)
        assert stored in ("i/lf", "i/none", "i/-text"), line
        assert asked.strip() == "attr/-text" or "eol=lf" in asked, line


@pytest.mark.parametrize("settings", [("core.autocrlf=true",), ("core.autocrlf=false", "core.eol=crlf")])
def test_a_clone_by_git_for_windows_has_no_carriage_returns(settings, tmp_path):
    names = [".gitattributes", "lib/tools.sh", "Makefile", "notebooks/experiments/01-throughput.ipynb"]
    for name in names:
        (tmp_path / "original" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.ROOT / name, tmp_path / "original" / name)
    (tmp_path / "original" / "runs.pack").write_bytes(b"a\r\nb\n\0")
    git("init", "--quiet", at=tmp_path / "original")
    git("-c", "core.autocrlf=false", "add", ".", at=tmp_path / "original")
    by = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")
    git(*by, "commit", "--quiet", "--message", "all", at=tmp_path / "original")
    options = [word for each in settings for word in ("-c", each)]
    git(*options, "clone", "--quiet", "original", "clone", at=tmp_path)
    for name in [*names, "runs.pack"]:
        assert (tmp_path / "clone" / name).read_bytes() == (tmp_path / "original" / name).read_bytes(), name
    assert git(*options, "status", "--porcelain", at=tmp_path / "clone") == b""
