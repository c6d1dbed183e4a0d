"""What is published says where the project is, and its page on PyPI leads there."""

import email
import os
import re
import subprocess
import sys

import pytest

from pairlab import paths

#: What GitHub Actions says in a release.
RELEASE = {"GITHUB_SERVER_URL": "https://example.org", "GITHUB_REPOSITORY": "a/b", "GITHUB_REF_NAME": "v1.2.3"}
MAKES = """
import sys
sys.path.insert(0, "lib")
from setuptools import Distribution
distribution = Distribution({"name": "pairlab"})
distribution.parse_config_files()
command = distribution.get_command_obj("egg_info")
command.egg_base = sys.argv[1]
command.ensure_finalized()
distribution.metadata.write_pkg_info(sys.argv[1])
"""


@pytest.fixture
def metadata(tmp_path):
    """Of what is built in this environment."""

    def made(variables):
        others = {name: value for name, value in os.environ.items() if name not in RELEASE}
        command = [sys.executable, "-c", MAKES, str(tmp_path)]
        subprocess.run(command, cwd=paths.ROOT, env=others | variables, check=True, capture_output=True)
        return email.message_from_bytes((tmp_path / "PKG-INFO").read_bytes())

    return made


def links(page):
    """Where the links of a page in Markdown lead."""
    return re.findall(r"\]\(([^)]+)\)", page)


def test_a_release_has_the_addresses_of_its_repository_and_no_link_that_leads_nowhere(metadata):
    released = metadata(RELEASE)
    assert "Source, https://example.org/a/b" in released.get_all("Project-URL")
    page = released.get_payload()
    assert "](https://example.org/a/b/blob/v1.2.3/docs/start.md)" in page
    assert "](https://example.org/a/b/raw/v1.2.3/figures/reference/throughput-total.png)" in page
    assert all(link.startswith("https://") for link in links(page))


def test_a_build_elsewhere_invents_no_address(metadata):
    built = metadata({})
    assert built.get_all("Project-URL") is None
    assert "docs/start.md" in links(built.get_payload())
