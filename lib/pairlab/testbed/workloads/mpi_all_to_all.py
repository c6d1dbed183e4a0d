"""MPI_Alltoall by MPICH and mpi4py, one rank in each container, by the method of all-to-all."""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from pairlab.testbed import mpi
from pairlab.testbed.requirements import Program
from pairlab.testbed.workloads.all_to_all import USUAL_MESSAGE_BYTES, AllToAll

_REMEDY = "pip install 'pairlab[mpi]', which has mpich and mpi4py, or take workload 'all-to-all', which needs neither"

_HERE = Path(mpi.__file__).parent


@dataclass(frozen=True)
class PythonPackage(Program):
    """A package of the Python that pairlab runs with, which endpoints without an image of their own have, too."""

    def path(self):
        found = importlib.util.find_spec(self.name)
        return found.origin if found else None


class MpiAllToAll(AllToAll):
    """MPI_Alltoall in rounds: all-to-all as programs of MPI have it, with the algorithms and the polling of MPICH.

    Ranks reach each other by TCP over their endpoints' links, also those on one host, and never by shared memory. They
    are started without mpiexec (testbed/mpi/join.py). MPICH polls, so that a rank that waits uses all of a CPU.
    """

    name = "mpi-all-to-all"
    summary = "MPI_Alltoall by MPICH and mpi4py: rounds between all containers, and their latencies"
    programs = (PythonPackage("mpi4py", "", _REMEDY),)
    serves_once = True

    @classmethod
    def version_command(cls, flowgen):
        told = "from mpi4py import MPI; print('mpi4py', MPI.Get_library_version().split('\\n')[0])"
        return (sys.executable, "-c", told)

    def prepare(self, spec, directory):
        """Needs no files."""

    def server(self, pair, spec, site):
        argv = super().server(pair, spec, site)
        return [each for each in argv if each != "--wait"]

    def _rank(self, pair, endpoint, spec, site):
        (own,) = [number for number, rank in enumerate(pair.ranks) if rank.endpoint == endpoint.name]
        first, mine = pair.ranks[0], pair.ranks[own]
        argv = [sys.executable, str(_HERE / "join.py"), "--rank", str(own), "--ranks", str(len(pair.ranks))]
        argv += ["--manager", f"{first.address}:{first.port}", "--interface", site.interface_of(endpoint.name)]
        argv += ["--listen", f"{mine.address}:{mine.port}"] if endpoint == pair.server else []
        messages = str(spec.message_bytes or USUAL_MESSAGE_BYTES)
        times = (f"{spec.warmup_s:g}", f"{spec.duration_s:g}")
        return [*argv, "--", sys.executable, str(_HERE / "rounds.py"), messages, *times]
