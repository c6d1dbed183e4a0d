"""Which layer a stack belongs to, on stacks that were captured on Linux 6.18 over each driver."""

import pytest

from pairlab import paths
from pairlab.analysis import layers

CAPTURED = paths.ROOT / "tests" / "support" / "captured"


def captured(name):
    """Stacks with their samples: `count stack` in each line."""
    lines = (CAPTURED / f"stacks-linux-6.18-{name}.txt").read_text().splitlines()
    return [(stack, int(count)) for count, stack in (line.split(" ", 1) for line in lines)]


@pytest.mark.parametrize(
    ("stack", "layer"),
    [
        ("iperf;[user]", "user space"),
        ("ovs-vswitchd;[user]", "OVS in user space"),
        ("iperf;do_syscall_64;tcp_sendmsg;_copy_from_iter;rep_movs_alternative", "copy"),
        ("iperf;do_syscall_64;tcp_sendmsg;sk_page_frag_refill;unheard_of", "memory allocation"),
        ("swapper;cpu_startup_entry;do_idle;default_idle", "idle"),
        ("swapper;cpu_startup_entry;do_idle;handle_softirqs;net_rx_action;br_handle_frame", "bridge"),
        ("iperf;tcp_write_xmit;hrtimer_start_range_ns;_raw_spin_unlock_irqrestore", "timers"),
        ("iperf;tcp_write_xmit;hrtimer_start_range_ns;_raw_spin_lock_irqsave", "locks"),
        ("iperf;ip_output;nf_hook_slow;ipt_do_table [ip_tables]", "netfilter"),
        ("iperf;dev_hard_start_xmit;ovs_vport_receive [openvswitch];clone [openvswitch]", "OVS"),
        ("iperf;unheard_of;neither", "other"),
        ("iperf", "other"),
    ],
)
def test_the_first_known_function_from_the_one_that_ran_decides(stack, layer):
    assert layers.layer_of(stack) == layer


def test_a_layer_is_never_that_of_another_driver():
    for name, own, others in (
        ("bridge", {"bridge", "veth"}, {"macvlan", "OVS", "OVS in user space"}),
        ("macvlan", {"macvlan"}, {"bridge", "veth", "OVS", "OVS in user space"}),
        ("ovs", {"OVS in user space", "veth"}, {"bridge", "macvlan"}),
        ("host", set(), {"bridge", "veth", "macvlan", "OVS", "OVS in user space"}),
    ):
        found = set(layers.counts(captured(name)))
        assert found >= own | {"copy", "TCP", "socket", "softirq and device"}, name
        assert not found & others, name


@pytest.mark.parametrize("name", ["bridge", "macvlan", "ovs", "host"])
def test_shares_add_up_to_one_without_idle_cpus_and_almost_nothing_is_unknown(name):
    stacks = captured(name)
    shares = layers.shares([*stacks, ("swapper;do_idle;default_idle", 10**6)])
    assert sum(shares.values()) == pytest.approx(1)
    assert list(shares) == layers.names()
    assert "idle" not in shares
    assert shares["other"] < 0.02
    assert shares["copy"] > 0.1


def test_without_samples_no_share_is_known():
    assert all(share != share for share in layers.shares([]).values())
