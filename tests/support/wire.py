"""What is on the wire between the hosts of a testbed, seen from the sandbox's own namespace, which takes root."""

import contextlib
import json
import subprocess

from pairlab.testbed.cleanup import process_table

#: IP's protocols, as IANA numbers them.
PROTOCOLS = {"ipip": 4, "tcp": 6, "udp": 17, "esp": 50}


def on_the_wire(bed, *command, **options):
    """What this command says where the wire is."""
    children = [each for each in process_table.read_processes().values() if each.parent in bed.site.root_pids()]
    inside = ["nsenter", "--target", str(children[0].pid), "--net", *command]
    return subprocess.run(inside, capture_output=True, text=True, check=True, **options).stdout


def sent_to_hosts(bed):
    """Bytes that the wire has sent to each host, by its name."""
    table = on_the_wire(bed, "cat", "/proc/self/net/dev")
    counts = {line.split(":")[0].strip(): line.split(":")[1].split() for line in table.splitlines()[2:]}
    return {name: int(fields[8]) for name, fields in counts.items() if name.startswith("host-")}


@contextlib.contextmanager
def bytes_by_protocol(bed, host):
    """What that host sends in the block, by IP's protocol; the dict is filled at its end."""
    rules = [f"ip protocol {number} counter" for number in PROTOCOLS.values()]
    chain = f'type filter hook ingress device "{host}" priority 0'
    on_the_wire(
        bed, "nft", "-f", "-", input="\n".join(["table netdev seen {", "chain sent {", chain, *rules, "}", "}", ""])
    )
    found = {}
    yield found
    listed = json.loads(on_the_wire(bed, "nft", "-j", "list", "table", "netdev", "seen"))["nftables"]
    on_the_wire(bed, "nft", "delete", "table", "netdev", "seen")
    counters = [each["rule"]["expr"][1]["counter"]["bytes"] for each in listed if "rule" in each]
    found |= zip(PROTOCOLS, counters, strict=True)
