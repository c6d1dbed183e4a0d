"""The tools for CPU load beside the pairs."""

from collections.abc import Collection

from pairlab.model.spec import Spec
from pairlab.testbed.requirements import Program

STRESS_NG = Program("stress-ng", "stress-ng")


def programs(spec: Spec) -> Collection[Program]:
    """The programs of a worker, besides pairlab's own generator."""
    return (STRESS_NG,) if spec.interference_workers and spec.interference_tool == "stress-ng" else ()


def command(spec: Spec, flowgen: str) -> list[str]:
    """A worker's command, which runs until it is stopped. flowgen: the path of pairlab's own generator in the endpoint.

    stress-ng: one CPU stressor, which goes through all of its methods (stress-ng(1)).
    """
    load = spec.interference_load
    if spec.interference_tool == "stress-ng":
        share = ["--cpu-load", f"{load * 100:.0f}"] if load < 1 else []
        return [STRESS_NG.name, "--cpu", "1", *share, "--temp-path", "/tmp", "--quiet"]
    return [flowgen, "busy", *(["--load", f"{load:g}"] if load < 1 else [])]
