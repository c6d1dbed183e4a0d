"""flowgen's build."""

from __future__ import annotations

import shutil

import pytest

from tests.host.flowgen.helpers import SOURCE, needs_compiler, run


@pytest.mark.whole
def test_the_build_is_free_of_warnings_and_takes_a_compiler_of_several_words(tmp_path):
    needs_compiler()
    copy = shutil.copytree(SOURCE, tmp_path / "flowgen", ignore=shutil.ignore_patterns("build"))
    built = run("make", "-C", copy, "CC=env cc", patience_s=300)
    assert built.returncode == 0, built.stderr
    assert built.stderr == ""
    assert all(flag in built.stdout for flag in ("env cc", "-Wall", "-Wextra", "-Werror", "-static"))
    assert [path.name for path in (copy / "build").iterdir()] == ["flowgen"]
