"""flowgen traffic: one client requests flows of sizes from a distribution from all servers, at a load."""

from pathlib import Path

from pairlab.errors import BadSpec
from pairlab.model import traffic_parameters
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowgenWorkload, FlowReport, FlowTable, Site, reports, token_options
from pairlab.testbed.endpoints import Pair, with_port

#: flowgen's own limit: schedule.h.
MOST_SERVERS = 16

#: The flows' longest time beyond duration_s, if requests are due until then.
AFTER_S = 5.0

#: Files in the testbed's working directory: the distribution's points, and the flows as the client writes them.
_SIZES, _FLOWS = "flow-sizes", "flows"

_AS_RECORDED = ("received_bytes", "intended_ns", "start_ns", "first_byte_ns", "completed_ns")


class Traffic(FlowgenWorkload):
    """Flows as in a data centre: one client, the first pair's, requests them from the servers of all pairs.

    A request is for a flow of a size from flow_sizes, from one server; with fan_out, for equal parts from several. The
    client keeps flows_per_pair connections to each server; a flow waits if all of them are busy, and its completion
    time counts from its due time (intended_fct_s) and from its request (fct_s). At a load, due times are independent of
    other requests; in a closed loop, flows_per_pair requests are outstanding. With may_fall_behind, all requests are
    made, within duration_s, even if hosts or network carry less than the offered load.

    Each flow is a row of `flows`, whose pair is its server's.
    """

    name = "traffic"
    summary = "flowgen traffic: flows of sizes from a distribution, from all servers to one client"
    features = frozenset({"time", "sizes", "flows", "ipv6"})
    one_client = True

    def check(self, spec: Spec) -> None:
        if spec.pairs > MOST_SERVERS:
            raise BadSpec(f"pairs: traffic has one client for at most {MOST_SERVERS} servers, not {spec.pairs}")
        if not spec.flow_sizes:
            raise BadSpec("flow_sizes: traffic makes flows from a distribution: name one, or a file")
        if (
            spec.requests
            and spec.offered_load_bps
            and (lasts_s := traffic_parameters.expected_s(spec)) > spec.duration_s
        ):
            load = f"{spec.offered_load_bps / 1e6:g} Mbit/s"
            raise BadSpec(
                f"duration_s: {spec.requests:,} requests at {load} take about {lasts_s:.3g} s, not"
                f" {spec.duration_s:g}: give more time, fewer requests, or a higher load"
            )

    def prepare(self, spec: Spec, directory: Path) -> None:
        from pairlab.model import flow_sizes  # imports numpy, which specs do without

        super().prepare(spec, directory)
        flow_sizes.write(flow_sizes.load(spec.flow_sizes), directory / _SIZES)
        (directory / _SIZES).chmod(0o644)  # a container's user is not ours
        (directory / _FLOWS).touch()
        (directory / _FLOWS).chmod(0o666)

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return [*self.listening(pair, site), "--answer"]

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = [site.flowgen, "traffic", *token_options(site)]
        for address, port in pair.targets:
            argv += ["--server", with_port(address, port)]
        for servers, weight in traffic_parameters.fan_outs(spec.fan_out).items():
            argv += ["--fan-out", f"{servers}={weight}"]
        argv += ["--sizes", f"{site.directory}/{_SIZES}", "--records", f"{site.directory}/{_FLOWS}"]
        argv += ["--load", str(round(spec.offered_load_bps)), "--connections", str(spec.flows_per_pair)]
        argv += ["--seed", str(seed_of(spec))]
        argv += ["--fixed-gaps"] if spec.arrivals == "fixed" else []
        argv += [] if spec.offered_load_bps else ["--at-once", str(spec.flows_per_pair)]
        if spec.requests:
            # Without a limit, flowgen gives up some time after the last request's due time, even with flows waiting.
            argv += ["--limit", f"{spec.duration_s:g}"] if spec.may_fall_behind else []
            return [*argv, "--requests", str(spec.requests), "--within", f"{spec.duration_s:g}"]
        return [*argv, "--duration", f"{spec.duration_s:g}", "--within", f"{spec.duration_s + AFTER_S:g}"]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        lines = reports.json_lines("traffic", stdout)
        if len(lines) != 1:
            raise ValueError(f"traffic printed no complete report: {len(lines)} lines, not one")
        (line,) = lines
        with reports.read("traffic"):
            if line["event"] != "traffic":
                raise ValueError("traffic printed no report of its flows")
            if not line["flow_bytes"]:
                return [FlowReport({}, error=f"traffic: {line.get('error') or 'no flow was complete'}")]
            totals = {key: float(line[key]) for key in ("flow_bytes", "duration_s")}
            return [FlowReport({**totals, "throughput_bps": float(line["achieved_bps"])})]

    def flow_table(self, spec: Spec, directory: Path) -> FlowTable:
        import numpy as np

        from pairlab.model import flow_records

        flows = flow_records.read(directory / _FLOWS)
        if not len(flows):
            raise ValueError("traffic recorded no flow")
        flows = flows[np.lexsort((flows["server"], flows["request"]))]
        return FlowTable(
            pair=flows["server"].astype(np.int64),
            request=flows["request"],
            size_bytes=flows["flow_bytes"],
            errno=flows["error"],
            **{name: flows[name] for name in _AS_RECORDED},
        )


def seed_of(spec: Spec) -> int:
    """flowgen's seed: it differs between repetitions, and is equal for all drivers and backends."""
    return (spec.seed * 1_000_003 + spec.repetition) % 10**15
