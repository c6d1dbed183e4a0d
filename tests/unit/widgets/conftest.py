"""What the tests of widgets share."""

import pytest

from tests.unit.widgets.fakes import Host


@pytest.fixture
def host():
    """A host that has everything; a test may take something away."""
    return Host()
