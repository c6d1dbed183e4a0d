"""A workload whose clients report planted results, and processes that have ended."""

from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.process_launcher import Process
from pairlab.testbed.workloads.flowgen import Flowgen


class Reporting(Flowgen):
    """Each client's flow has the planted report of the number that its client printed."""

    def __init__(self, reports):
        self._reports = reports

    def parse(self, stdout, served=""):
        return [self._reports[int(stdout)]]


def ended(name, **values):
    endpoint = Endpoint(name, "10.77.0.1", lambda *_: None)
    return Process(name, endpoint, (), **{"ready": True, "ended": True, "start_ns": 0, "exit_code": 0, **values})
