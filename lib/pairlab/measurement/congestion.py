"""The congestion control of a run's TCP, and what set it."""

from collections.abc import Iterable, Mapping
from typing import Any

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport
from pairlab.testbed.endpoints import Task
from pairlab.testbed.plans import Plan
from pairlab.testbed.process_launcher import Process
from pairlab.testbed.requirements import ROUTED


def unless_chosen(network: Mapping[str, Any]) -> str:
    """TCP's congestion control if the tool sets none: the route's, else the default; empty: unknown.

    network: a run's facts["network"].
    """
    return str(network.get(ROUTED) or network.get("tcp_congestion_control") or "")


def of_flow(spec: Spec, task: Task, measured: FlowReport, client: Process, unless_chosen: str) -> dict[str, str]:
    """A flow's column congestion_control: as its tool reports it, else the kernel; left out where neither did.

    Raises ValueError where it is not the requested one; without a report, `unless_chosen` is assumed.
    """
    if task.protocol != "tcp" or measured.error:
        return {}
    reported = measured.flow.get("congestion_control") or client.diag_congestion_control
    used = reported or unless_chosen
    if spec.congestion_control and used != spec.congestion_control:
        raise ValueError(f"its congestion control was {used or 'not reported'}, not {spec.congestion_control}")
    return {"congestion_control": reported} if reported else {}


def recorded(plan: Plan, network: Mapping[str, Any], flows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """facts["congestion_control"]: the one `in_force`, and by what: `route`, `tool` (its option), or `default`.

    flows: rows of the table `flows`, whose reports (by tool or kernel) take precedence; several are listed.
    """
    reported = {str(row["congestion_control"]) for row in flows if row.get("congestion_control")}
    option = plan.spec.congestion_control and plan.workload and plan.workload.chooses_congestion_control
    return {
        "in_force": ", ".join(sorted(reported)) or unless_chosen(network),
        "by": "route" if plan.is_routed else "tool" if option else "default",
    }
