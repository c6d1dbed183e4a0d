"""A workload without a class: two command lines and the patterns of their results, in [workloads.NAME] of pairlab.toml.

    [workloads.blast]
    server = ["blast-server", "--port", "{port}"]
    client = ["blast", "--to", "{target}", "--port", "{port}", "--seconds", "{duration_s}"]
    reports = {flow_bytes = 'sent (\\d+) bytes', duration_s = "$.elapsed"}
    scale = {duration_s = 1e-3}
    packages = {blast = "blast-tools"}

Templates have {address} (of the server, to listen at), {target} (to connect to), {port}, {pair} and each field of Spec;
{duration_s} is the time to send. A report begins with $. for a path in JSON, such as $.end.sum[0].bytes, else it is a
regular expression whose first group is the number (in its last match); both are searched in the client's output, and
then in the server's. Names are columns of the table flows, or, with the unit as suffix, metrics of the command's own
(Metric).
"""

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from pairlab import paths
from pairlab.base import study_file
from pairlab.errors import BadInput, BadSpec
from pairlab.model.metrics import UNITS, Metric, unit_of
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, Site, Workload
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

_KEYS = {
    "server": list,
    "client": list,
    "reports": dict,
    "scale": dict,
    "packages": dict,
    "summary": str,
    "version": list,
    "features": list,
}
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class CommandWorkload(Workload):
    """A workload declared by a table of pairlab.toml."""

    declared: ClassVar[Mapping[str, Any]]

    def check(self, spec: Spec) -> None:
        super().check(spec)
        try:
            self._filled("client", spec, "", "", 0, 0)
            self._filled("server", spec, "", "", 0, 0)
        except (KeyError, IndexError, ValueError) as error:
            raise BadSpec(f"workload {self.name!r}: its command has no such field: {error}") from None

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return self._filled("server", spec, pair.server.address, pair.target, pair.port, pair.index)

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return self._filled("client", spec, pair.server.address, pair.target, pair.port, pair.index)

    def _filled(self, side: str, spec: Spec, address: str, target: str, port: int, pair: int) -> list[str]:
        values = {**spec.model_dump(), "duration_s": f"{spec.total_s:g}"}
        values |= {"address": address, "target": target, "port": port, "pair": pair}
        return [word.format_map(values) for word in self.declared[side]]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        flow = {}
        for name, pattern in self.declared["reports"].items():
            value = next((number for text in (stdout, served) if (number := _read(pattern, text)) is not None), None)
            if value is None:
                raise ValueError(f"{self.name} printed no {name} ({pattern}): {stdout.strip()[-120:]!r}")
            flow[name] = value * self.declared.get("scale", {}).get(name, 1)
        if "throughput_bps" not in flow and {"flow_bytes", "duration_s"} <= flow.keys():
            flow["throughput_bps"] = flow["flow_bytes"] * 8 / flow["duration_s"]
        return [FlowReport({name: int(value) if name == "flow_bytes" else value for name, value in flow.items()})]


def _read(pattern: str, text: str) -> float | None:
    """The number at that path or match in a tool's output; None: not found."""
    try:
        if pattern.startswith("$"):
            value: Any = json.loads(text)
            for name, index in _STEP.findall(pattern[1:]):
                value = value[int(index)] if index else value[name]
            return float(value)
        matches = re.findall(pattern, text, re.MULTILINE)
        return float(matches[-1][0] if isinstance(matches[-1], tuple) else matches[-1])
    except (ValueError, LookupError, TypeError):
        return None


def declared() -> dict[str, type[Workload]]:
    """The workloads that the study declares, by name. Raises BadInput, naming the problem."""
    return {name: _made(name, table) for name, table in study_file.commands().items()}


def _made(name: str, table: Mapping[str, Any]) -> type[Workload]:
    from pairlab.model.tables import TABLES  # imports pandas, which most commands do without

    def fail(why: str) -> BadInput:
        return BadInput(f"[workloads.{name}] in {paths.STUDY_FILE}: {why}")

    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise fail("a name has small letters, digits and single dashes")
    for key, value in table.items():
        if key not in _KEYS or not isinstance(value, _KEYS[key]):
            keys = ", ".join(f"{key} ({kind.__name__})" for key, kind in _KEYS.items())
            raise fail(f"{key}: there are {keys}")
    if missing := [key for key in ("server", "client", "reports") if not table.get(key)]:
        raise fail(f"it has no {' and no '.join(missing)}")
    if not all(isinstance(word, str) for word in (*table["server"], *table["client"])):
        raise fail("server and client are lists of words, each a text")
    reports: Mapping[str, Any] = table["reports"]
    if "throughput_bps" not in reports and not {"flow_bytes", "duration_s"} <= reports.keys():
        raise fail("reports: throughput_bps is needed, or flow_bytes and duration_s")
    for column, pattern in reports.items():
        try:
            groups = re.compile(str(pattern)).groups if not str(pattern).startswith("$") else 1
        except re.error as error:
            raise fail(f"reports: {column}: {pattern!r} is no regular expression: {error}") from None
        if not groups:
            raise fail(f"reports: {column}: {pattern!r} has no group, such as (\\d+), that is the number")
    packages: Mapping[str, str] = table.get("packages", {})
    programs = dict.fromkeys(words[0] for words in (table["server"], table["client"]))
    values: dict[str, Any] = {
        "name": name,
        "summary": table.get("summary", f"the study's command {table['client'][0]}"),
        "declared": table,
        "features": frozenset(table.get("features", ["time"])),
        "programs": tuple(Program(each, packages.get(each, ""), f"install {each}") for each in programs),
        "version_argv": tuple(table.get("version", ())),
        "metrics": tuple(_metric(column) for column in reports if column not in TABLES["flows"]),
    }
    return type(name.title().replace("-", ""), (CommandWorkload,), values)


def _metric(column: str) -> Metric:
    unit = unit_of(column)
    return Metric(column, unit, column.removesuffix(UNITS[unit]).replace("_", " "), less_is_better=unit == "s")
