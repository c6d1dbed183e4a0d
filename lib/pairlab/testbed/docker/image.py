"""The container image: built from lib/image/Dockerfile, or without a registry from Debian's packages."""

import contextlib
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import docker
from docker.errors import BuildError, ImageNotFound

from pairlab import paths
from pairlab.base import study_file
from pairlab.base.temporary_folder import TemporaryFolder
from pairlab.errors import Unavailable
from pairlab.testbed.contracts import Progress
from pairlab.testbed.docker.answers import failure, optional, required
from pairlab.testbed.docker.daemon import DOCKER_ERRORS
from pairlab.testbed.requirements import Program

REPOSITORY = "pairlab"
SUITE = "bookworm"
MMDEBSTRAP = Program("mmdebstrap", "mmdebstrap")

PHASE = "building the container image"
#: The builder's output for a step of a Dockerfile: "Step 2/3 : COPY packages.txt /tmp/packages.txt".
_STEP = re.compile(r"Step (\d+)/(\d+) : ")
#: Steps of mmdebstrap 1.3, as it prints them: "I: extracting archives...". The last one is Docker's import.
_STEPS = (
    "running apt-get update",
    "downloading packages",
    "extracting archives",
    "installing essential packages",
    "installing remaining packages",
    "cleaning package lists",
    "creating tarball",
    "importing",
)

#: How long mmdebstrap may take to remove its files, when it is stopped.
_ENDS_WITHIN_S = 10.0


def tag() -> str:
    """The image's name; its tag is a hash of its sources, so that a change builds a new one."""
    sources = (paths.IMAGE / "Dockerfile").read_bytes() + "".join(f"{name}\n" for name in packages()).encode()
    return f"{REPOSITORY}:{hashlib.sha256(sources).hexdigest()[:12]}"


def packages() -> list[str]:
    """Debian packages in the image: pairlab's own, and the study's (pairlab.toml)."""
    own = (paths.IMAGE / "packages.txt").read_text().split()
    return [*own, *(name for name in study_file.image_packages() if name not in own)]


def ensure(client: docker.DockerClient, progress: Progress) -> str:
    """The image's id; built in about half a minute where it does not exist yet.

    Raises Unavailable where neither way works, with both reasons.
    """
    try:
        return _id(client)
    except ImageNotFound:
        progress(PHASE, 0, 0)
    try:
        return _build(client, progress)
    except (BuildError, *DOCKER_ERRORS) as error:
        from_registry = f"docker build failed ({str(error).strip().splitlines()[0][:200]})"
    if missing := MMDEBSTRAP.missing():
        raise Unavailable(f"the container image: {from_registry}, and without a registry {missing}")
    try:
        return _from_packages(client, progress)
    except (subprocess.CalledProcessError, *DOCKER_ERRORS) as error:
        output = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise Unavailable(
            f"the container image: {from_registry}, and mmdebstrap failed too ({output[-1] if output else error}):"
            " is a mirror of Debian reachable, and are we root?"
        ) from error


def _id(client: docker.DockerClient) -> str:
    return str(required(client.images.get(tag()).attrs, "Id"))


def _build(client: docker.DockerClient, progress: Progress) -> str:
    """By the daemon, from the Dockerfile. Raises BuildError."""
    with TemporaryFolder() as place:
        shutil.copy(paths.IMAGE / "Dockerfile", place)
        (Path(place) / "packages.txt").write_text("".join(f"{name}\n" for name in packages()))
        for message in client.api.build(path=str(place), tag=tag(), rm=True, network_mode="host", decode=True):
            if why := failure(message):
                raise BuildError(why, iter(()))
            if step := _STEP.match(optional(message, "stream") or ""):
                progress(PHASE, int(step[1]) - 1, int(step[2]))
    return _id(client)


def _from_packages(client: docker.DockerClient, progress: Progress) -> str:
    """By mmdebstrap, which needs a mirror of Debian and no registry. Raises CalledProcessError."""
    with TemporaryFolder() as place:
        archive = Path(place) / "rootfs.tar"
        _bootstrap(archive, progress)
        progress(PHASE, len(_STEPS) - 1, len(_STEPS))
        repository, version = tag().split(":")
        client.api.import_image_from_file(str(archive), repository=repository, tag=version)
    return _id(client)


def _bootstrap(archive: Path, progress: Progress) -> None:
    include = f"--include={','.join(packages())}"
    command = [MMDEBSTRAP.command, "--variant=minbase", include, SUITE, str(archive)]
    trouble = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        try:
            for line in running.stderr or ():
                if (step := _step(line)) is not None:
                    progress(PHASE, step, len(_STEPS))
                elif not line.startswith("I: "):
                    trouble.append(line)
        except BaseException:  # a notebook's stop button interrupts this process only
            running.terminate()  # then it removes what it has made, unlike where it is killed
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(_ENDS_WITHIN_S)
            running.kill()
            raise
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command, stderr="".join(trouble))


def _step(line: str) -> int | None:
    """The step that begins with this line of mmdebstrap's, or None."""
    return next((number for number, name in enumerate(_STEPS) if line.startswith(f"I: {name}")), None)
