"""A library is imported without something that it imports only where that is installed."""

import importlib
import sys

import pytest

from pairlab.base.environment import without


@pytest.fixture
def optional(tmp_path, monkeypatch):
    (tmp_path / "optional_of_a_test.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield "optional_of_a_test"
    sys.modules.pop("optional_of_a_test", None)


def test_in_the_block_it_cannot_be_imported_and_afterwards_it_can(optional):
    with without(optional), pytest.raises(ImportError):
        importlib.import_module(optional)
    assert importlib.import_module(optional).__name__ == optional


def test_one_that_is_imported_stays(optional):
    module = importlib.import_module(optional)
    with without(optional):
        assert importlib.import_module(optional) is module
    assert sys.modules[optional] is module
