"""What flowgen's commands are asked, and what they refuse."""

from __future__ import annotations

import pytest

from tests.host.flowgen.helpers import run

CLIENT = ["client", "--connect", "127.0.0.1:9", "--duration", "1"]
UDP = ["client", "--udp", "--connect", "127.0.0.1:9"]
RR = ["rr", "--connect", "127.0.0.1:9", "--duration", "1"]
ALL = ["all-to-all", "--ranks", "127.0.0.1:9,127.0.0.1:10", "--duration", "1"]
HOLD = ["hold", "--control", "nowhere", "--slot", "a"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "no command"),
        (["serve"], "'serve'"),
        (["server"], "--port is missing"),
        (["server", "--port"], "--port needs a value"),
        (["server", "--port", "0"], "--port '0'"),
        (["server", "--port", "65536"], "--port '65536'"),
        (["server", "--port", "0x50"], "--port '0x50'"),
        (["server", "--port", " 80"], "--port ' 80'"),
        (["server", "--port", "+80"], "--port '+80'"),
        (["server", "--port", "80x"], "--port '80x'"),
        (["server", "--port", ""], "--port ''"),
        (["server", "--port", "99999999999999999999"], "--port '9999"),
        (["server", "--port", "80", "--port", "81"], "--port is given twice"),
        (["server", "--port", "80", "--bind", "localhost"], "--bind 'localhost'"),
        (["server", "--port", "80", "--por", "81"], "unknown option '--por'; there are: --port, --bind"),
        (["server", "--port", "80", "extra"], "unexpected argument 'extra'"),
        (["server", "--port", "80", "--", "ls"], "'--'"),
        (["client", "--duration", "1"], "--connect is missing"),
        (["client", "--connect", "127.0.0.1:9"], "--duration is missing, or --bytes"),
        (["client", "--connect", "127.0.0.1", "--duration", "1"], "--connect '127.0.0.1'"),
        (["client", "--connect", "127.0.0.1:0", "--duration", "1"], "--connect '127.0.0.1:0'"),
        (["client", "--connect", "127.0.0.1:9x", "--duration", "1"], "--connect '127.0.0.1:9x'"),
        (["client", "--connect", "::1:9", "--duration", "1"], "--connect '::1:9'"),
        (["client", "--connect", "[::1]9", "--duration", "1"], "--connect '[::1]9'"),
        (["client", "--connect", "[127.0.0.1]:9", "--duration", "1"], "--connect '[127.0.0.1]:9'"),
        (["client", "--connect", "[::x]:9", "--duration", "1"], "--connect '[::x]:9'"),
        (["client", "--connect", f"[{'1:' * 30}:]:9", "--duration", "1"], "--connect '[1:1:"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "0"], "--duration '0'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "-1"], "--duration '-1'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "nan"], "--duration 'nan'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "inf"], "--duration 'inf'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "1s"], "--duration '1s'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "1e"], "--duration '1e'"),
        ([*CLIENT, "--interval", "0"], "--interval '0'"),
        (["client", "--connect", "127.0.0.1:9", "--duration", "2000", "--interval", "0.001"], "1000000 intervals"),
        ([*CLIENT, "--bytes", "1"], "--duration and --bytes exclude each other"),
        ([*CLIENT, "--limit", "1"], "--limit is for --bytes"),
        ([*CLIENT, "--direction", "left"], "--direction 'left' is none of up, down and both"),
        ([*CLIENT, "--direction", "down", "--udp"], "--direction is for TCP"),
        ([*CLIENT, "--stoppable", "--direction", "both"], "--stoppable is for one flow up by TCP"),
        (["server", "--port", "5201", "--answer", "--sends"], "--answer and --sends exclude each other"),
        ([*CLIENT, "--stoppable", "--flows", "2"], "--stoppable is for one flow up by TCP with a --duration"),
        ([*CLIENT, "--stoppable", "--udp"], "--stoppable is for one flow up by TCP with a --duration"),
        (["busy", "--load", "1.5"], "--load"),
        (["busy", "--load", "0"], "--load"),
        (["client", "--connect", "127.0.0.1:9", "--bytes", "0"], "--bytes '0'"),
        (
            ["client", "--connect", "127.0.0.1:9", "--bytes", "1", "--limit", "2000", "--interval", "0.001"],
            "1000000 intervals",
        ),
        ([*CLIENT, "--rate", "1"], "--rate is for --udp"),
        ([*UDP], "--duration is missing"),
        ([*UDP, "--bytes", "1"], "--bytes is for TCP"),
        ([*UDP, "--duration", "1", "--congestion", "reno"], "--congestion is for TCP"),
        ([*UDP, "--duration", "1", "--write-bytes", "23"], "--write-bytes '23'"),
        ([*UDP, "--duration", "1", "--write-bytes", "65508"], "--write-bytes '65508'"),
        ([*UDP, "--duration", "1", "--rate", "1e6"], "--rate '1e6'"),
        ([*UDP, "--udp"], "--udp is given twice"),
        ([*CLIENT, "--flows", "0"], "--flows '0'"),
        ([*CLIENT, "--flows", "1001"], "--flows '1001'"),
        ([*CLIENT, "--write-bytes", "0"], "--write-bytes '0'"),
        ([*CLIENT, "--write-bytes", "1.5"], "--write-bytes '1.5'"),
        ([*CLIENT, "--congestion", "longer-than-the-kernel-allows"], "--congestion"),
        (["rr", "--duration", "1"], "--connect is missing"),
        (["rr", "--connect", "127.0.0.1:9"], "--duration is missing"),
        ([*RR, "--request-bytes", "0"], "--request-bytes '0'"),
        ([*RR, "--response-bytes", "4194305"], "--response-bytes '4194305'"),
        ([*RR, "--connections", "1001"], "--connections '1001'"),
        ([*RR, "--rate", "0"], "--rate '0' is not a number from 0.001"),
        ([*RR, "--timeout", "1"], "--timeout is for --udp"),
        ([*RR, "--udp", "--request-bytes", "31"], "--request-bytes '31' is no size of a datagram from 32 to 65507"),
        ([*RR, "--udp", "--response-bytes", "65508"], "--response-bytes '65508' is no size of a datagram"),
        ([*RR, "--udp", "--connect-per-request"], "--connect-per-request is for TCP"),
        (["rr-server"], "--port is missing"),
        (["rr-server", "--port", "80", "--bind", "localhost"], "--bind 'localhost'"),
        ([*HOLD, "--start-after", "-1", "--", "true"], "--start-after '-1'"),
        ([*HOLD, "--start-after", "1", "--", "true"], "--start-after counts from the opening of the gate: give --gate"),
        ([*HOLD], "after '--'"),
        ([*HOLD, "--"], "after '--'"),
        (["hold", "--slot", "a", "--", "true"], "--control is missing"),
        (["hold", "--control", "nowhere", "--", "true"], "--slot is missing"),
        ([*HOLD, "--gate", "g", "--listen", "80", "--", "true"], "--gate and --listen"),
        ([*HOLD, "--gate", "g", "--listen-udp", "80", "--", "true"], "--gate and --listen-udp"),
        ([*HOLD, "--cpus", "0,", "--", "true"], "--cpus '0,'"),
        ([*HOLD, "--cpus", "3-2", "--", "true"], "--cpus '3-2'"),
        ([*HOLD, "--cpus", "8192", "--", "true"], "--cpus '8192'"),
        ([*HOLD, "--cpus", "all", "--", "true"], "--cpus 'all'"),
        ([*HOLD, "--resolve", "server-0", "--", "true"], "--resolve 'server-0' is no address"),
        ([*HOLD, *["--cgroup", "g"] * 17, "--", "true"], "--cgroup is given more than 16 times"),
        ([*HOLD, "--diagnose-after", "0", "--", "true"], "--diagnose-after '0'"),
        ([*HOLD, "--listen", "http", "--", "true"], "--listen 'http'"),
        (["hold", "--control", "nowhere", "--slot", "a\nb", "--", "true"], "--slot"),
        (["hold", "--control", "nowhere", "--slot", "é", "--", "true"], "--slot"),
        (["hold", "--control", "nowhere", "--slot", "", "--", "true"], "--slot is empty"),
        (["hold", "--control", "nowhere", "--slot", "a" * 129, "--", "true"], "--slot is longer than 128"),
        (["hold", "--control", "n" * 200, "--slot", "a", "--", "true"], "--control"),
        ([*ALL, "--rank", "2"], "--rank '2' is none of the 2"),
        ([*ALL[:1], "--ranks", "127.0.0.1:9", *ALL[3:], "--rank", "0"], "at least two"),
        ([*ALL[:1], "--ranks", "127.0.0.1:9,,", *ALL[3:], "--rank", "0"], "--ranks: '' is not an address"),
        ([*ALL, "--rank", "0", "--message-bytes", "0"], "--message-bytes '0'"),
        (["facts"], "--link is missing"),
        (["facts", "--link", "n" * 16], "--link 'nnnn"),
        (["pause", "now"], "'now'"),
        (["pause", "--", "true"], "pause runs nothing"),
        (["pause", "--for", "1"], "unknown option '--for'; there are: --lifeline"),
    ],
)
def test_a_wrong_argument_is_refused_by_name_on_one_line(flowgen, arguments, named):
    done = run(flowgen, *arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert done.stderr.startswith("flowgen")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_help_lists_every_command_and_version_prints_one(flowgen):
    for arguments in (["--help"], ["client", "--help"]):
        done = run(flowgen, *arguments)
        assert done.returncode == 0
        assert all(
            f"flowgen {name}" in done.stdout
            for name in ("server", "client", "rr-server", "rr", "all-to-all", "hold", "pause", "facts", "version")
        )
    assert run(flowgen, "version").stdout.split()[0] == "flowgen"
