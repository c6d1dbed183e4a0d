"""What a form can offer on this host, and what is missing for the rest."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pairlab.apps import doctor
from pairlab.testbed import registry

AUTO = "auto"


class Choice(NamedTuple):
    """An option. missing: what this host lacks for it and how to get it; empty where it is available."""

    name: str
    summary: str
    missing: str = ""

    @property
    def label(self) -> str:
        return f"{self.name} (not on this host)" if self.missing else self.name


class Choices:
    """Backends, drivers, workloads and pinnings, with the findings of `pairlab doctor` at the last `refresh`."""

    def __init__(self, examine=doctor.examine):
        self._examine = examine
        self.refresh()

    def refresh(self) -> None:
        """Examines the host again."""
        self._backends: Mapping[str, Any] = self._examine()["backends"]

    def of(self, parameter: str, backend: str) -> Sequence[Choice]:
        """The options of that parameter in that backend; empty where it takes any value."""
        if parameter == "backend":
            return _choices(self._backends)
        if parameter == "pinning":
            return [Choice(name, registry.pinnings.get(name).summary) for name in registry.pinnings.names()]
        found = self._backends.get(backend, {})
        if parameter == "driver":
            return _choices(found.get("drivers", {}))
        if parameter == "background_workload":
            found_there = found.get("workloads", {})
            return _choices({name: found_there[name] for name in found_there if registry.workloads.get(name).endless})
        if parameter == "workload":
            auto = Choice(AUTO, "iperf where it is installed and can do what is asked, else flowgen")
            return [auto, *_choices(found.get("workloads", {}))]
        return []


def _choices(findings: Mapping[str, Any]) -> list[Choice]:
    return [
        Choice(name, each["summary"], "; ".join(f"{lack['what']}: {lack['remedy']}" for lack in each["missing"]))
        for name, each in findings.items()
    ]
