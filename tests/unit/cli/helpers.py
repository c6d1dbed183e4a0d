"""What tests of the command line are made of: a run in the store, a sweep's file."""

import json
from datetime import UTC, datetime

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from tests.support.runs import block_of

WHEN = datetime(2024, 5, 1, 12, tzinfo=UTC)


def made_up(at=WHEN, status="ok", facts=None, rate_bps=4.2e9, **spec):
    flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": rate_bps}])
    spec = Spec(**spec)
    facts = {"block": block_of(spec.repetition)} | (facts or {})
    times = {"up_s": 0.5, "traffic_s": 3.0}
    return store.write(Run(spec, status, (), at, times_s=times, facts=facts, flows=flows))


def sweep_file(tmp_path, **parameters):
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps({"name": "small", "experiments": {"throughput": {"workload": "flowgen", **parameters}}}))
    return str(file)
