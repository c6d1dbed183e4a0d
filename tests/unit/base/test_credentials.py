"""The file by which a scheduler, its workers and who sweeps know each other: who may read it, and what is refused."""

import os
import stat
from pathlib import Path

import pytest

from pairlab.base import credentials
from pairlab.errors import BadInput, Unavailable


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch, tmp_path):
    monkeypatch.delenv(credentials.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_once_for_its_owner_alone_whatever_the_umask(monkeypatch, tmp_path):
    before = os.umask(0)
    try:
        credentials.make(credentials.file())
    finally:
        os.umask(before)
    path = tmp_path / "settings" / "pairlab" / "scheduler.pem"
    assert (credentials.file(), mode(path), mode(path.parent)) == (path, 0o600, 0o700)
    content = path.read_text()
    assert [line for line in content.splitlines() if "BEGIN" in line] == [
        f"-----BEGIN {what}-----" for what in ("PRIVATE KEY", "CERTIFICATE")
    ]
    credentials.make(path)
    assert path.read_text() == content
    assert [*path.parent.iterdir()] == [path]
    assert credentials.security(path).require_encryption


def test_another_scheduler_has_a_key_of_its_own(tmp_path):
    for name in "ab":
        credentials.make(tmp_path / name)
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_which_file_is_named_by_whom(monkeypatch):
    assert credentials.file("/some.pem") == Path("/some.pem")
    monkeypatch.setenv(credentials.VARIABLE, "/its.pem")
    assert credentials.file() == Path("/its.pem")
    assert credentials.file("mine.pem") == Path.cwd() / "mine.pem"


def test_one_that_is_not_there_is_said_with_where_it_comes_from(tmp_path):
    with pytest.raises(BadInput, match=r"no credentials in .*a.pem \(No such file.*: `pairlab scheduler` makes them"):
        credentials.security(tmp_path / "a.pem")


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620])
def test_one_that_others_can_read_or_write_is_refused(tmp_path, bits):
    credentials.make(tmp_path / "a.pem")
    (tmp_path / "a.pem").chmod(bits)
    with pytest.raises(BadInput, match=r"a.pem is open to others, who could run commands as you: chmod 600 "):
        credentials.security(tmp_path / "a.pem")


def test_one_of_another_user_is_refused(tmp_path, monkeypatch):
    credentials.make(tmp_path / "a.pem")
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "a.pem").stat().st_uid + 1)
    with pytest.raises(BadInput, match=r"a.pem is another user's, who could run commands as you"):
        credentials.security(tmp_path / "a.pem")


def test_what_is_no_credentials_is_refused(tmp_path):
    (tmp_path / "a.pem").touch(mode=0o600)
    with pytest.raises(BadInput, match=r"a.pem is not the file that `pairlab scheduler` makes"):
        credentials.security(tmp_path / "a.pem")


def test_without_openssl_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"a.pem cannot be made: No such file or directory: install openssl"):
        credentials.make(tmp_path / "a.pem")
    assert not [*tmp_path.iterdir()]


def test_where_nothing_can_be_written_another_file_is_asked_for(tmp_path):
    (tmp_path / "full").touch()
    with pytest.raises(Unavailable, match=r"cannot be made: .*: name another file by --credentials"):
        credentials.make(tmp_path / "full" / "a.pem")
