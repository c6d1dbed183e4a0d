"""What root writes into another user's folder becomes that user's, and nothing else does."""

import os

import pytest

from pairlab import store
from pairlab.base.atomic import give_to_owner, make_directory
from tests.support.runs import made_up

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can write into another user's folder")
USER = 12345


@pytest.fixture
def theirs(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    os.chown(folder, USER, USER)
    return folder


def owners(folder):
    return {str(path.relative_to(folder)): path.lstat().st_uid for path in folder.rglob("*")}


def test_a_store_that_root_wrote_into_stays_its_owners(theirs):
    run = store.write(made_up(raw={"client-0.out": "x"}), theirs / "runs")
    store.remember_sweep("mine", [run.spec], theirs / "runs")
    store.pack("throughput", theirs / "runs")
    with store.running("mine", ["netns"], theirs / "runs"):
        assert set(owners(theirs).values()) == {USER}
    assert len(owners(theirs)) > 10


def test_links_what_has_another_name_and_what_is_not_roots_stay_as_they_are(theirs, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("")
    place = theirs / "place"
    make_directory(place / "deep")
    (place / "link").symlink_to(outside)
    os.link(outside, place / "hard")
    (place / "another's").write_text("")
    os.chown(place / "another's", 23456, 23456)
    (place / "deep" / "own").write_text("")
    give_to_owner(place)
    assert owners(theirs) == {
        "place": USER,
        "place/deep": USER,
        "place/deep/own": USER,
        "place/link": 0,
        "place/hard": 0,
        "place/another's": 23456,
    }
    assert outside.stat().st_uid == 0


def test_in_roots_own_folder_nothing_is_given_away(tmp_path):
    make_directory(tmp_path / "a" / "b")
    assert set(owners(tmp_path).values()) == {0}


def test_a_folder_that_became_a_link_meanwhile_gives_nothing_away(theirs, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("")
    (theirs / "place").symlink_to(elsewhere)
    give_to_owner(theirs / "place")
    assert (elsewhere.stat().st_uid, (elsewhere / "secret").stat().st_uid) == (0, 0)
