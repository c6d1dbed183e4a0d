"""What tests of the command line are made of: a run in the store, a sweep's file."""

import json
from datetime import UTC, datetime

from pairlab import store
from pairlab.records import Run, table
from pairlab.spec import Spec


def made_up(**spec):
    flows = table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 4.2e9}])
    facts = {"host": {"fingerprint": "a machine"}}
    return store.write(Run(Spec(**spec), "ok", (), datetime(2024, 5, 1, 12, tzinfo=UTC), facts=facts, flows=flows))


def sweep_file(tmp_path, **parameters):
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps({"name": "small", "experiments": {"throughput": {"workload": "flowgen", **parameters}}}))
    return str(file)
