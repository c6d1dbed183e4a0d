"""Which congestion control a run's TCP had, and who saw to it."""

from collections.abc import Iterable, Mapping
from typing import Any

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Measured
from pairlab.testbed.endpoints import Task
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.plans import Plan
from pairlab.testbed.requirements import ROUTED


def unless_chosen(network: Mapping[str, Any]) -> str:
    """What TCP uses where its tool chooses nothing else: that of the routes, else the default; empty: not known.

    network: a run's facts["network"].
    """
    return str(network.get(ROUTED) or network.get("tcp_congestion_control") or "")


def of_flow(spec: Spec, task: Task, measured: Measured, client: Process, unless_chosen: str) -> dict[str, str]:
    """A flow's column congestion_control: as its tool reports it, else the kernel; left out where neither did.

    Raises ValueError where it is not the one asked for; that it is the one set by `unless_chosen` is taken from nobody
    reporting another.
    """
    if task.protocol != "tcp" or measured.error:
        return {}
    seen = measured.flow.get("congestion_control") or client.diag_congestion_control
    used = seen or unless_chosen
    if spec.congestion_control and used != spec.congestion_control:
        raise ValueError(f"its congestion control was {used or 'not reported'}, not {spec.congestion_control}")
    return {"congestion_control": seen} if seen else {}


def recorded(plan: Plan, network: Mapping[str, Any], flows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """facts["congestion_control"]: the one `in_force`, and by what: `route`, `tool` (its option), or `default`.

    flows: rows of the table `flows`. What these report counts, as their tools or the kernel saw it; several are listed.
    """
    seen = {str(row["congestion_control"]) for row in flows if row.get("congestion_control")}
    option = plan.spec.congestion_control and plan.workload and plan.workload.chooses_congestion_control
    return {
        "in_force": ", ".join(sorted(seen)) or unless_chosen(network),
        "by": "route" if plan.is_routed else "tool" if option else "default",
    }
