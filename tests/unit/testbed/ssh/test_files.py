"""Files that come from other machines: the same bytes, no more than they may be, and nothing else."""

import base64
import os

import pytest

from pairlab.errors import TestbedError
from pairlab.testbed.ssh import packed, unpacked


def test_a_file_comes_as_it_was():
    content = os.urandom(1000) + bytes(100_000)
    assert len(packed(content)) < 3000
    assert unpacked(packed(content), 200_000) == content


def test_of_a_file_that_is_larger_than_it_may_be_no_more_is_unpacked():
    assert len(unpacked(packed(bytes(100_000_000)), 1000)) == 1000


@pytest.mark.parametrize("text", ["no base64", base64.b64encode(b"no zlib").decode()])
def test_what_is_no_file_is_refused(text):
    with pytest.raises(TestbedError, match="a file came damaged"):
        unpacked(text, 1000)
