"""What was measured, and on what: for the reader of all other results."""

from collections.abc import Iterable

import pandas as pd

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.provenance import facts_of
from pairlab.model.records import STATUSES, Run
from pairlab.store.dataset import Runs

#: Facts that facts_of does not have, and where Run.facts has them.
_MORE = {
    "distribution": ("host", "distribution"),
    "cgroup": ("host", "cgroup"),
    "docker": ("network", "docker"),
    "mtu": ("network", "mtu_bytes"),
}


def measured(runs: Runs) -> pd.DataFrame:
    """What each experiment had in each backend, as text: a row each; how many runs count, how many do
    not, and the minutes that all of them took.
    """
    rows = []
    for (experiment, backend), part in runs.index.groupby(["experiment", "backend"], sort=True):
        ok = part[part["status"] == "ok"]
        shown = ok if len(ok) else part
        cells = shown.drop(columns=["key", "repetition", "status", "reasons", "skew_s", "measured_at"])
        repetitions = shown.groupby(list(cells.columns), dropna=False)["repetition"].nunique()
        rows.append(
            {
                "Experiment": experiment,
                "Backend": backend,
                "Drivers": ", ".join(ordered(shown["driver"])),
                "Workloads": ", ".join(sorted(shown["workload"].unique())),
                "Pairs": ", ".join(map(str, sorted(shown["pairs"].unique()))),
                "Repetitions": span(repetitions),
                "Runs": str(len(ok)),
                "Left out": str(len(part) - len(ok)),
                "Minutes": f"{sum(sum(runs[key].times_s.values()) for key in part['key']) / 60:.0f}",
            }
        )
    return pd.DataFrame(rows).set_index(["Experiment", "Backend"])


def skews(runs: Runs) -> pd.DataFrame:
    """How far apart the clients of a run started, by backend and pair count: median and largest over runs, in ms."""
    ok = runs.index[(runs.index["status"] == "ok") & runs.index["skew_s"].notna()]
    found = ok.groupby(["backend", "pairs"], sort=True)["skew_s"].agg(["median", "max", "size"])
    table = found[["median", "max"]].mul(1e3).map("{:.2f}".format).assign(runs=found["size"].astype(str))
    return table.set_axis(["Median (ms)", "Largest (ms)", "Runs"], axis=1)


def values(runs: Runs) -> Values:
    r"""The keyed numbers of the testbed, all below `testbed/`.

    - host/<fact>: as recorded; several values are listed, "not recorded" where there is none; host/kernel: with the
      backend of each, where backends were measured on several; host/switch: the versions of Open vSwitch;
    - runs (that count), left-out, invalid, failed, skipped, damaged; experiments (how many), backends (a list);
    - <backend>/runs; most-pairs; skew-median (ms): of the runs with so many; skew-most: of all; versions: of the tools,
      as text.
    """
    found = Values("testbed")
    counted = [run for run in runs if run.status == "ok"]
    for fact, text in (facts_of(runs) | _kernels(counted)).items():
        found.text(f"host/{fact}", text)
    for fact, (part, name) in _MORE.items():
        known = {str((run.facts.get(part) or {}).get(name) or "") for run in counted} - {""}
        found.text(f"host/{fact}", ", ".join(sorted(known)) or "not recorded")
    switches = {run.ground.switch for run in counted if run.spec.driver == "ovs"} - {""}
    found.text("host/switch", ", ".join(sorted(switches)) or "not recorded")
    tools = {_tool(*each) for run in counted for each in (run.facts.get("versions") or {}).items() if each[1]}
    found.text("versions", ", ".join(sorted(tools)) or "not recorded")
    index = runs.index
    found.number("runs", len(counted), 0)
    found.number("left-out", len(runs) - len(counted) + len(runs.unread), 0)
    found.number("damaged", len(runs.unread), 0)
    for status in STATUSES[1:]:
        found.number(status, (index["status"] == status).sum(), 0)
    ok = index[index["status"] == "ok"]
    found.number("experiments", ok["experiment"].nunique(), 0)
    found.names("backends", sorted(ok["backend"].unique()))
    for backend, part in ok.groupby("backend"):
        found.number(f"{backend}/runs", len(part), 0)
        found.number(f"{backend}/most-pairs", part["pairs"].max(), 0)
        if part["skew_s"].notna().any():
            largest = part[part["pairs"] == part["pairs"].max()]
            found.number(f"{backend}/skew-median", largest["skew_s"].median() * 1e3, 2, "ms")
            found.number(f"{backend}/skew-most", part["skew_s"].max() * 1e3, 1, "ms")
    return found


def _kernels(runs: Iterable[Run]) -> dict[str, str]:
    """The kernels with their backends, where these were measured on several; empty where all share one."""
    places = {(run.ground.kernel, run.spec.backend) for run in runs if run.ground.kernel}
    if len({kernel for kernel, _ in places}) < 2:
        return {}
    return {"kernel": ", ".join(f"{kernel} ({backend})" for kernel, backend in sorted(places))}


def _tool(name: str, version: str) -> str:
    return version if version.startswith(name) else f"{name} {version}"
