"""A study measures with what is its own: a driver in plugins/, and a workload that is two command lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import need

PAIRLAB = Path(sys.executable).parent / "pairlab"
SERVER = (
    "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); c = s.accept()[0]; n = 0\n"
    "while d := c.recv(65536): n += len(d)\n"
    "print('received', n, 'bytes', flush=True)"
)
CLIENT = (
    "import json, socket, sys, time; c = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
    "b = time.monotonic(); n = 0\n"
    "while time.monotonic() < b + float(sys.argv[3]): n += c.send(bytes(65536))\n"
    "c.shutdown(1); c.recv(1); print(json.dumps(dict(sum=[dict(bytes=n, ms=1000 * (time.monotonic() - b))])))"
)


def test_an_own_driver_and_an_own_command_measure_together(tmp_path, clean_host):
    need("netns")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PAIRLAB_")}
    environment |= {"PAIRLAB_FLOWGEN": os.environ.get("PAIRLAB_FLOWGEN", "")}

    def pairlab(*words, place):
        done = subprocess.run(
            [PAIRLAB, *words], cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert pairlab("init", "mine", place=tmp_path)[0] == 0
    study = tmp_path / "mine"
    words = {
        "server": [sys.executable, "-c", SERVER.replace("{", "{{"), "{address}", "{port}"],
        "client": [sys.executable, "-c", CLIENT.replace("{", "{{"), "{target}", "{port}", "{duration_s}"],
    }
    declared = "\n".join(f"{side} = {json.dumps(argv)}" for side, argv in words.items())
    reports = "reports = {flow_bytes = '$.sum[0].bytes', duration_s = '$.sum[0].ms'}\nscale = {duration_s = 1e-3}\n"
    with open(study / "pairlab.toml", "a") as file:
        file.write(f"\n[workloads.blast]\nsummary = 'python'\n{declared}\n{reports}")
    busy = ("-p", "max_foreign_cpu=1", "-p", "max_skew_s=5")
    status, said = pairlab("run", "flooding", "-p", "driver=hub", "-p", "workload=blast", *busy, place=study / "sweeps")
    assert "flooding: blast over hub, 2 pairs" in said, said
    assert status in (0, 1), said
    listed = json.loads(pairlab("ls", "--json", place=study)[1])
    assert [(row["driver"], row["workload"], row["failed_flows"]) for row in listed] == [("hub", "blast", 0)]
    assert listed[0]["total_throughput_bps"] > 1e6
    assert Path(listed[0]["path"]).is_relative_to(study / "runs" / "flooding")
