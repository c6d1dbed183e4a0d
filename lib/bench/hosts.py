"""Several hosts: how long they take to come up, and what goes through them, beside Mininet and the same by hand."""

import subprocess
import tempfile
import time
from pathlib import Path

from bench.table import DOCKER_CLI, leave_out, missing, note, out
from bench.testbed import beside, mininet, missing_mininet, up_and_down
from pairlab import Spec, measure, open_testbed
from pairlab.testbed.contracts import no_progress
from pairlab.testbed.docker import image
from pairlab.testbed.requirements import Program

#: Two namespaces on a bridge, and with "vxlan" a VXLAN over it with a bridge and a veth pair at each end; iperf from
#: one to the other for as many seconds, whose last line is its report.
BY_HAND = """
mount -t tmpfs tmpfs /run && mkdir -p /run/netns
ip link set lo up
ip link add wire type bridge && ip link set wire up
for n in 1 2; do
    ip netns add host$n
    ip link add port$n master wire type veth peer name wire0 netns host$n && ip link set port$n up
    on="ip -n host$n"
    $on link set lo up && $on addr add 10.9.0.$n/24 dev wire0 && $on link set wire0 up
    if [ "$1" = vxlan ]; then
        $on link add br0 type bridge && $on link set br0 mtu 1450 up
        $on link add vx master br0 type vxlan id 5 local 10.9.0.$n remote 10.9.0.$((3 - n)) dstport 4789 dev wire0
        $on link set vx mtu 1450 up
        ip netns add end$n
        $on link add port master br0 type veth peer name eth0 netns end$n && $on link set port mtu 1450 up
        at="ip -n end$n" && $at addr add 10.8.0.$n/24 dev eth0
        $at link set eth0 mtu 1450 up && $at link set lo up
    fi
done
[ "$1" = vxlan ] && kind=end net=10.8 || { kind=host; net=10.9; }
ip netns exec ${kind}2 iperf -s > /dev/null &
while ! ip netns exec ${kind}2 ss -tln | grep -q :5001; do sleep 0.1; done
ip netns exec ${kind}1 iperf -c $net.0.2 -t $2 -y C | tail -n 1
"""


def over_mininet_hosts(n=5, pairs=25):
    what = f"netns, overlay, 2 hosts and {pairs} pairs: {{}} over Mininet's (2 LinuxBridges linked, {2 * pairs} hosts)"
    if lacks := missing_mininet():
        return leave_out(what.format("time"), lacks)
    spec = Spec(driver="overlay", hosts=2, placement="across", pairs=pairs)
    beside(what, n, spec, "Mininet", lambda: mininet(2, pairs), most=1 / 3)


def two_hosts_over_one(n=9, sizes=(25, 50, 100)):
    """What a pair costs to bring up and down on two hosts, over what it costs on one.

    sizes: how many pairs. Also without what a second host costs once: each pair from the least to the most. And up
    alone, as the kernel takes links down behind our back, with a grace period of RCU, some 15 ms in which it does
    nothing, for each bridge and VXLAN link.
    """
    one = Spec(driver="overlay")
    two = one.replace(hosts=2, placement="across")
    least, middle, most = sizes
    took = {(spec, pairs): [] for spec in (one, two) for pairs in sizes}
    up_and_down(two.replace(pairs=middle))  # what is loaded once
    for _ in range(n):
        for spec, pairs in took:
            took[spec, pairs].append(up_and_down(spec.replace(pairs=pairs)))
    whole, ups, further = [], [], []
    for number in range(n):
        of = {key: sum(values[number]) for key, values in took.items()}
        whole.append(of[two, middle] / of[one, middle])
        ups.append(took[two, middle][number][0] / took[one, middle][number][0])
        further.append((of[two, most] - of[two, least]) / (of[one, most] - of[one, least]))
    named = {f"{middle} pairs: up and down": whole, f"{middle} pairs: up": ups, "each further pair": further}
    for what, ratios in named.items():
        note(f"netns, overlay, {what}, 2 hosts over one", ratios, at_most=1.3)


def docker_hosts(n=5, pairs=10, unmeasured=1):
    """Two Docker daemons in a swarm, and pairs on its overlay network beside `docker run` there, all at once.

    unmeasured: so many go before, as the first loads and builds what is needed once.
    """
    spec = Spec(backend="docker", driver="overlay", hosts=2, placement="across", pairs=pairs)
    what = f"docker, overlay, {pairs} pairs across 2 hosts: {{}}"
    if lacks := missing(spec, DOCKER_CLI):
        return leave_out(what.format("time"), lacks)
    before, ratios, downs = [], [], []
    for number in range(-unmeasured, n):
        moments = {}

        def tell(phase, done, total, moments=moments):
            moments.setdefault((phase, done), time.monotonic())

        begun = time.monotonic()
        with open_testbed(spec, progress=tell) as bed:
            first, last = moments["bringing up", 0], moments["bringing up", 2 * pairs]
            by_hand_s = _docker_run(bed.directory, pairs)
            down = time.monotonic()
        if number >= 0:
            before.append(first - begun)
            ratios.append((last - first) / by_hand_s)
            downs.append(time.monotonic() - down)
            out.print(
                f"  daemons and swarm {first - begun:.2f} s, containers {last - first:.2f} s, by hand {by_hand_s:.2f} s"
            )
    note(what.format("two daemons and their swarm up"), before, at_most=12, unit=" s")
    note(what.format("containers up over `docker run` all at once"), ratios, at_most=1.3)
    note(what.format("down"), downs, "none", True, " s")


def _docker_run(directory, count):
    """Seconds that as many containers on each host take from a shell, on the network of that testbed."""
    network = directory.name  # of the same name
    run = " ".join(
        f"docker --host unix://{directory.parent}/host-{host}/docker.sock run --detach --network {network}"
        f" --name bench-{number} {image.tag()} sleep 1000 >/dev/null & "
        for host in (0, 1)
        for number in range(count)
    )
    begun = time.monotonic()
    subprocess.run(["sh", "-c", f"{run} wait"], check=True)
    return time.monotonic() - begun


def over_by_hand(n=5, seconds=5):
    """The throughput of one pair between two hosts over that of iperf by hand on the same links, in turn."""
    for driver, kind, least in (("process", "plain", 0.97), ("overlay", "vxlan", 0.95)):
        what = f"netns, {driver}, 1 pair across 2 hosts: throughput over iperf's by hand"
        spec = Spec(
            driver=driver, hosts=2, placement="across", workload="iperf", duration_s=float(seconds), telemetry=False
        )
        if lacks := missing(spec, *(Program(name, "iproute2") for name in ("ip", "ss")), root=True):
            leave_out(what, lacks)
            continue
        ratios = []
        with tempfile.TemporaryDirectory() as place:
            for number in range(n):
                run = measure(spec.replace(repetition=number), progress=no_progress, root=Path(place))
                ours_bps, theirs_bps = run.total_throughput_bps, _by_hand(kind, seconds)
                out.print(f"  {driver}: ours {ours_bps / 1e9:.2f}, by hand {theirs_bps / 1e9:.2f} Gbit/s")
                ratios.append(ours_bps / theirs_bps)
        note(what, ratios, at_least=least)


def _by_hand(kind, seconds):
    command = ["unshare", "-nmpf", "--mount-proc", "sh", "-ec", BY_HAND, "sh", kind, str(seconds)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.strip().split(",")[-1])
