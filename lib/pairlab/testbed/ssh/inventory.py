"""The machines that can be hosts, from hosts.yaml in the study's folder."""

from pathlib import Path
from typing import Annotated

import pydantic
import yaml
from pydantic import BaseModel, ConfigDict, Field

from pairlab import paths
from pairlab.base import study_file
from pairlab.errors import BadInput

#: The file's name.
NAME = "hosts.yaml"


class Machine(BaseModel):
    """One machine. ssh: where to connect to, as ssh(1) takes it; options: more words for ssh(1). interface: its link to
    the other machines, over which the traffic goes. python: its Python, 3.11 or newer. sudo: whether the user needs
    sudo(8), without a password, to be root there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    ssh: Annotated[str, Field(pattern=r"^[^-\s][^\s]*$")]
    interface: Annotated[str, Field(pattern=r"^[^\s/]{1,15}$")]
    options: tuple[str, ...] = ()
    python: str = "python3"
    sudo: bool = False


class _Inventory(BaseModel):
    model_config = ConfigDict(extra="forbid")

    hosts: list[Machine]


def file() -> Path:
    return paths.STUDY / NAME


def machines() -> list[Machine]:
    """All machines, in the order of the file; none where there is no file. Raises BadInput for a file that is
    wrong, or another user's.
    """
    try:
        study_file.require_trusted(NAME)
        content = yaml.safe_load(file().read_text())
    except FileNotFoundError:
        return []
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{file()} cannot be read: {error}") from error
    try:
        found = _Inventory.model_validate(content).hosts
    except pydantic.ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise BadInput(f"{file()}: {wrong}: see docs/how-to/several-machines.md for an example") from None
    names = [each.name for each in found]
    if len({*names}) < len(names):
        raise BadInput(f"{file()}: two hosts have one name: give each its own")
    return found
