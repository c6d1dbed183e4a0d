"""The measured experiments and their testbed, for the reader of all other results."""

import re
from collections.abc import Iterable

import pandas as pd

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.provenance import facts_of, listed, recorded
from pairlab.model.records import STATUSES, Run
from pairlab.store.dataset import Runs

#: Facts that facts_of lacks, with their names in Run.facts.
_MORE = {"distribution": "distribution", "cgroup": "cgroup", "docker": "docker", "mtu": "mtu_bytes"}


def _tool(workload: str, text: str) -> str:
    """A tool and its version, by what it printed for a workload: "iperf 2.1.8"."""
    own = text.split()[0].rstrip(",")
    name = own if workload.startswith(own) or own == "flowgen" else workload
    version = re.search(r"\d+(\.\d+)+\S*", text)
    return f"{name} {version[0]}" if version else text


def measured(runs: Runs) -> pd.DataFrame:
    """The cells of each experiment in each backend, as text, with the numbers of runs that count and that do not, and
    the minutes of all.
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
    """The spread of the clients' starts, by backend and pair count: median and largest over runs, in ms."""
    ok = runs.index[(runs.index["status"] == "ok") & runs.index["skew_s"].notna()]
    by_cell = ok.groupby(["backend", "pairs"], sort=True)["skew_s"].agg(["median", "max", "size"])
    table = by_cell[["median", "max"]].mul(1e3).map("{:.2f}".format).assign(runs=by_cell["size"].astype(str))
    return table.set_axis(["Median (ms)", "Largest (ms)", "Runs"], axis=1)


def values(runs: Runs) -> Values:
    r"""The keyed numbers of the testbed, all below `testbed/`.

    - host/<fact>: as recorded; several values are listed, "not recorded" without any; host/kernel: with the backend of
      each, if backends were measured on several; host/switch: the versions of Open vSwitch;
    - runs (that count), left-out, invalid, failed, skipped, damaged; experiments (a number), backends (a list);
    - <backend>/runs; most-pairs; skew-median (ms): of the runs with most pairs; skew-most: of all; versions: of the
      tools, as text.
    """
    keyed = Values("testbed")
    counted = [run for run in runs if run.status == "ok"]
    for fact, text in (facts_of(runs) | _kernels(counted)).items():
        keyed.text(f"host/{fact}", text)
    for fact, name in _MORE.items():
        keyed.text(f"host/{fact}", listed(value for value in recorded(counted, name) if value))
    keyed.text("host/switch", listed(run.environment.switch for run in counted if run.spec.driver == "ovs"))
    tools = {each for run in counted for each in (run.facts.get("versions") or {}).items() if each[1]}
    keyed.text("versions", listed(_tool(*each) for each in tools))
    index = runs.index
    keyed.number("runs", len(counted), 0)
    keyed.number("left-out", len(runs) - len(counted) + len(runs.unread), 0)
    keyed.number("damaged", len(runs.unread), 0)
    for status in STATUSES[1:]:
        keyed.number(status, (index["status"] == status).sum(), 0)
    ok = index[index["status"] == "ok"]
    keyed.number("experiments", ok["experiment"].nunique(), 0)
    keyed.names("backends", sorted(ok["backend"].unique()))
    for backend, part in ok.groupby("backend"):
        keyed.number(f"{backend}/runs", len(part), 0)
        keyed.number(f"{backend}/most-pairs", part["pairs"].max(), 0)
        if part["skew_s"].notna().any():
            largest = part[part["pairs"] == part["pairs"].max()]
            keyed.number(f"{backend}/skew-median", largest["skew_s"].median() * 1e3, 2, "ms")
            keyed.number(f"{backend}/skew-most", part["skew_s"].max() * 1e3, 1, "ms")
    return keyed


def _kernels(runs: Iterable[Run]) -> dict[str, str]:
    """The kernels' versions, without what a distribution adds; with their backends, if there are several."""
    places = {(run.environment.kernel.partition("-")[0], run.spec.backend) for run in runs if run.environment.kernel}
    versions = sorted({kernel for kernel, _ in places})
    if len(versions) < 2:
        return {"kernel": versions[0]} if versions else {}
    return {"kernel": ", ".join(f"{kernel} ({backend})" for kernel, backend in sorted(places))}
