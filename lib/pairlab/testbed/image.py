"""The container image: from lib/image/Dockerfile, or, with no registry, from Debian's packages."""

import hashlib
import subprocess
import tempfile
from pathlib import Path

import docker
from docker.errors import BuildError, ImageNotFound

from pairlab import paths
from pairlab.errors import Unavailable
from pairlab.testbed.contracts import Program, Progress
from pairlab.testbed.lifeline import DOCKER_ERRORS

REPOSITORY = "pairlab"
SUITE = "bookworm"
MMDEBSTRAP = Program("mmdebstrap", "mmdebstrap")


def tag() -> str:
    """The image's name; its tag is made from what it is built from, so that a change builds anew."""
    files = (paths.IMAGE / "Dockerfile", paths.IMAGE / "packages.txt")
    return f"{REPOSITORY}:{hashlib.sha256(b''.join(file.read_bytes() for file in files)).hexdigest()[:12]}"


def packages() -> list[str]:
    """Debian packages in the image."""
    return (paths.IMAGE / "packages.txt").read_text().split()


def ensure(client: docker.DockerClient, progress: Progress) -> str:
    """The image's id; built, which takes about half a minute, where it is not there yet.

    Raises Unavailable where neither way works, with both reasons.
    """
    try:
        return client.images.get(tag()).id
    except ImageNotFound:
        progress("building the container image", 0, 0)
    try:
        return _build(client)
    except (BuildError, *DOCKER_ERRORS) as error:
        from_registry = f"docker build failed ({str(error).strip().splitlines()[0][:200]})"
    if missing := MMDEBSTRAP.lack():
        raise Unavailable(f"the container image: {from_registry}, and without a registry {missing}")
    try:
        return _from_packages(client)
    except (subprocess.CalledProcessError, *DOCKER_ERRORS) as error:
        told = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise Unavailable(
            f"the container image: {from_registry}, and mmdebstrap failed too ({told[-1] if told else error}):"
            " is a mirror of Debian reachable, and are we root?"
        ) from error


def _build(client: docker.DockerClient) -> str:
    image, _ = client.images.build(path=str(paths.IMAGE), tag=tag(), rm=True, network_mode="host")
    return image.id


def _from_packages(client: docker.DockerClient) -> str:
    with tempfile.TemporaryDirectory(prefix="pairlab-image-") as place:
        archive = Path(place) / "rootfs.tar"
        subprocess.run(
            [
                MMDEBSTRAP.path(),
                "--quiet",
                "--variant=minbase",
                f"--include={','.join(packages())}",
                SUITE,
                str(archive),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
        repository, version = tag().split(":")
        client.api.import_image_from_file(str(archive), repository=repository, tag=version)
    return client.images.get(tag()).id
