"""Runs a program as one rank of MPI, without mpiexec and without ssh: `python join.py --rank I --ranks N ... -- ARGV`.

Ranks tell each other where they listen through a process manager, which mpiexec is as a rule. Here it is a process
beside the rank that listens at its address, which speaks the protocol by which MPICH asks one, PMI-1 (simple, over
TCP: PMI_PORT). All ranks count as being on hosts of their own, so that what they exchange goes through the network.

With --tell-all, every rank prints what the program of rank 0 printed, and a last line in JSON with how long its own
took: programs of MPI print at rank 0 alone.

It runs inside endpoints, with nothing but Python's standard library.
"""

import argparse
import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from typing import Any
from urllib.parse import quote, unquote

#: How long a rank waits for the process manager to listen, and that for ranks once the process beside it is gone.
PATIENCE_S, LINGER_S = 30.0, 2.0

#: The longest names and values, as MPICH is told.
_MAXES = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096 rc=0"

#: Under which name the process manager keeps what rank 0 printed.
_PRINTED = "pairlab-printed"


class ProcessManager:
    """What the ranks have put, and who waits in the barrier. `answer` takes a line of a rank, and returns replies."""

    def __init__(self, ranks: int):
        self.ranks = ranks
        self._values: dict[str, str] = {}
        self._waiting: list = []

    def answer(self, line: str, sender: Any) -> list[tuple[Any, str]]:
        """The replies to one line: pairs of a rank, as `sender` names it, and the text for it."""
        asked = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        command = asked.get("cmd", "")
        if command == "barrier_in":
            self._waiting.append(sender)
            if len(self._waiting) < self.ranks:
                return []
            released, self._waiting = self._waiting, []
            return [(each, "cmd=barrier_out rc=0") for each in released]
        if command == "initack":
            told = [f"set size={self.ranks}", f"set rank={asked.get('pmiid', '0')}", "set debug=0"]
            return [(sender, f"cmd={text}") for text in ("initack", *told)]
        if command == "put":
            self._values[asked.get("key", "")] = asked.get("value", "")
            return [(sender, "cmd=put_result rc=0 msg=success")]
        if command == "get":
            value = self._values.get(asked.get("key", ""))
            found = "rc=-1 msg=unknown value=unknown" if value is None else f"rc=0 msg=success value={value}"
            return [(sender, f"cmd=get_result {found}")]
        known = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": _MAXES,
            "get_appnum": "cmd=appnum appnum=0 rc=0",
            "get_my_kvsname": "cmd=my_kvsname kvsname=pairlab rc=0",
            "get_universe_size": f"cmd=universe_size size={self.ranks} rc=0",
            "finalize": "cmd=finalize_ack rc=0",
        }
        return [(sender, known.get(command, f"cmd={command} rc=-1 msg=unknown"))]


def serve(listener: socket.socket, ranks: int, parent: int) -> None:
    """Until all ranks have gone, or the process that started it has for a while."""
    manager, met, gone_s = ProcessManager(ranks), 0, 0.0
    said: dict[socket.socket, bytes] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, listener)
        while met < ranks or said:
            ready = selector.select(0.5)
            if os.getppid() != parent and not gone_s:
                gone_s = time.monotonic() + LINGER_S
            if gone_s and time.monotonic() > gone_s:
                return
            for key, _ in ready:
                sock = key.data
                if sock is listener:
                    peer, _ = listener.accept()
                    selector.register(peer, selectors.EVENT_READ, peer)
                    said[peer] = b""
                    continue
                try:
                    part = sock.recv(65536)
                except ConnectionError:
                    part = b""
                if not part:
                    selector.unregister(sock)
                    sock.close()
                    del said[sock]
                    continue
                *lines, said[sock] = (said[sock] + part).split(b"\n")
                for line in lines:
                    met += line.startswith(b"cmd=initack")
                    for receiver, text in manager.answer(line.decode(errors="replace"), sock):
                        with contextlib.suppress(ConnectionError):  # a rank that is gone needs no answer
                            receiver.sendall(text.encode() + b"\n")


def environment(rank: int, manager: str, interface: str) -> dict[str, str]:
    """By which MPICH joins, and uses TCP over that link only: by UCX, or by libfabric where it has no UCX."""
    return {
        "PMI_PORT": manager,
        "PMI_ID": str(rank),
        "MPIR_CVAR_NOLOCAL": "1",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "UCX_TLS": "tcp",
        "UCX_NET_DEVICES": interface,
        "UCX_WARN_UNUSED_ENV_VARS": "n",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": interface,
    }


def listen(address: str) -> socket.socket:
    """A socket that listens there, and that a program keeps that is executed."""
    host, port = address.rsplit(":", 1)
    listener = socket.create_server((host, int(port)), backlog=512)
    listener.set_inheritable(True)
    return listener


def await_manager(address: str) -> socket.socket:
    """A connection to who listens there. Ends the program where nobody does for too long."""
    host, port = address.rsplit(":", 1)
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=1)
        except OSError as error:
            if time.monotonic() > until_s:
                sys.exit(f"join: no process manager at {address}: {error}; the rank that listens there must run")
            time.sleep(0.01)


def shared(manager: socket.socket, rank: int, text: str) -> str:
    """What rank 0 printed, once all ranks are here. text: what this rank printed."""
    manager.settimeout(None)
    with manager, manager.makefile("rw", encoding="ascii", newline="\n") as lines:

        def ask(line: str) -> str:
            lines.write(line + "\n")
            lines.flush()
            return lines.readline()

        if rank == 0:
            ask(f"cmd=put key={_PRINTED} value={quote(text)}")
        ask("cmd=barrier_in")
        answer = ask(f"cmd=get key={_PRINTED}")
    words = dict(word.split("=", 1) for word in answer.split() if "=" in word)
    if words.get("rc") != "0":
        sys.exit("join: rank 0 did not tell what its program printed: it has failed")
    return unquote(words.get("value", ""))


def run(asked: argparse.Namespace, manager: socket.socket) -> None:
    """Runs the program, and prints what that of rank 0 printed. Ends as the program does where that fails."""
    begun_s = time.monotonic()
    done = subprocess.run(asked.argv, stdout=subprocess.PIPE, text=True, check=False)
    lasted_s = time.monotonic() - begun_s
    if done.returncode:
        sys.exit(done.returncode)
    print(shared(manager, asked.rank, done.stdout), end="")
    print(json.dumps({"event": "ended", "lasted_s": lasted_s, "message_bytes": asked.tell_all}), flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="join", description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--manager", required=True, help="ADDR:PORT where the process manager listens")
    parser.add_argument("--listen", default="", help="ADDR:PORT to listen at, so that others see that this one is up")
    parser.add_argument("--interface", required=True)
    parser.add_argument("--tell-all", type=int, metavar="BYTES", help="share the report; of messages of BYTES")
    parser.add_argument("argv", nargs="+")
    asked = parser.parse_args(arguments)
    if asked.listen:
        listener = listen(asked.listen)
    beside = 0
    if asked.listen == asked.manager:
        parent = os.getpid()
        beside = os.fork()
        if beside == 0:
            serve(listener, asked.ranks, parent)
            os._exit(0)
    manager = await_manager(asked.manager)
    os.environ.update(environment(asked.rank, asked.manager, asked.interface))
    if asked.tell_all is not None:
        run(asked, manager)
        if beside:
            os.waitpid(beside, 0)  # whoever started this one ends what it leaves, and other ranks may still ask
        return
    manager.close()
    os.execvp(asked.argv[0], asked.argv)


if __name__ == "__main__":
    main(sys.argv[1:])
