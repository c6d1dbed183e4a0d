"""From the kernel's records to collapsed stacks."""

import struct

import pytest

from pairlab.testbed.host import profiler
from pairlab.testbed.host.profiler import Sample, Symbols, decode, folded

KERNEL_MARK, USER_MARK = 2**64 - 128, 2**64 - 512
KALLSYMS = """\
ffffffff81000000 T entry
ffffffff81000100 t tcp_sendmsg
ffffffff81000200 t copy.isra.0
ffffffff81000200 t copy_alias
ffffffff81000300 D data
ffffffffc0000000 t ovs_vport_send\t[openvswitch]
"""
ENTRY, SEND, COPY, OVS = 0xFFFFFFFF81000000, 0xFFFFFFFF81000100, 0xFFFFFFFF81000200, 0xFFFFFFFFC0000000


def record(kind, misc, body):
    return struct.pack("=IHH", kind, misc, 8 + len(body)) + body


def sample(pid, *chain, misc=1):
    return record(9, misc, struct.pack(f"=QIIQ{len(chain)}Q", chain[1] if chain else 7, pid, pid, len(chain), *chain))


def named(pid, thread, name):
    return record(3, 0, struct.pack("=II16s", pid, thread, name))


def test_samples_are_counted_by_process_and_chain_without_marks():
    in_kernel = sample(7, KERNEL_MARK, COPY, SEND)
    found = decode(in_kernel + sample(8, misc=2) + in_kernel)
    assert found.samples == {Sample(7, (COPY, SEND)): 2, Sample(8, ()): 1}
    assert found.lost == 0


def test_names_are_those_that_processes_took_and_not_their_threads():
    found = decode(named(7, 7, b"iperf") + named(8, 9, b"a thread") + named(7, 7, b"iperf later"))
    assert found.names == {7: "iperf later"}


def test_lost_samples_are_counted_and_a_record_that_is_not_whole_ends_it():
    lost = record(2, 0, struct.pack("=QQ", 1, 5))
    found = decode(lost + lost + sample(7, KERNEL_MARK, COPY)[:-4])
    assert (found.lost, found.samples.total()) == (10, 0)
    assert decode(b"\0" * 16).samples.total() == 0


def test_a_function_has_the_addresses_up_to_the_next_one():
    functions = Symbols(KALLSYMS)
    assert functions.name(ENTRY + 0xFF) == "entry"
    assert functions.name(SEND) == "tcp_sendmsg"
    assert functions.name(COPY + 0x150) == "copy"  # data has no code; of two names the first; .isra.0 is left out
    assert functions.name(OVS + 1) == "ovs_vport_send [openvswitch]"
    assert functions.name(5) == "[unknown]"


def test_a_stack_begins_with_its_program_and_ends_with_what_ran():
    names = {7: "iperf", 8: "odd;name"}
    samples = {Sample(7, (COPY, SEND + 9, ENTRY + 9)): 3, Sample(8, ()): 2, Sample(9, (COPY,)): 1}
    assert folded(samples, names, Symbols(KALLSYMS)) == {
        "iperf;entry;tcp_sendmsg;copy": 3,
        "odd:name;[user]": 2,
        "[unknown];copy": 1,
    }


def test_a_caller_whose_call_is_its_last_instruction_is_not_taken_for_the_next_function():
    assert list(folded({Sample(7, (COPY, SEND)): 1}, {7: "x"}, Symbols(KALLSYMS))) == ["x;entry;copy"]


@pytest.mark.parametrize(("cpus", "lasts_s", "frequency_hz"), [(2, 2, 499), (2, 300, 163), (500, 3600, 1)])
def test_a_long_run_on_many_cpus_is_sampled_less_often_so_that_its_profile_is_bounded(
    monkeypatch, cpus, lasts_s, frequency_hz
):
    monkeypatch.setattr(profiler.perf_events, "online_cpus", lambda: list(range(cpus)))
    made = profiler.Profiler(lasts_s)
    assert made.facts() == {"frequency_hz": frequency_hz, "samples": 0, "lost": 0}


def test_programs_have_their_names(tmp_path):
    for pid, name in ((1, "init"), (77, "ovs-vswitchd")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "99").mkdir()  # it has just ended
    (tmp_path / "self").mkdir()
    assert profiler.program_names(tmp_path) == {0: "swapper", 1: "init", 77: "ovs-vswitchd"}


def test_hidden_addresses_are_a_lack_with_its_remedy_and_the_setting_that_hides_them(tmp_path, monkeypatch):
    file, level = tmp_path / "kallsyms", tmp_path / "kptr_restrict"
    file.write_text("0000000000000000 T entry\n" * 200)
    monkeypatch.setattr(profiler, "RESTRICT", level)
    assert "(kptr_restrict is unknown)" in profiler.missing_symbols(file).what
    level.write_text("2\n")
    assert "(kptr_restrict is 2)" in profiler.missing_symbols(file).what
    assert "sudo sysctl -w kernel.kptr_restrict=0" in profiler.missing_symbols(file).remedy
    file.write_text("0000000000000000 A fixed\n" + KALLSYMS)
    assert profiler.missing_symbols(file) is None
    assert "CONFIG_KALLSYMS" in profiler.missing_symbols(tmp_path / "none").remedy


def test_a_kernel_that_refuses_is_a_lack_with_its_remedy(monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(profiler.perf_events, "open_event", refused)
    (lack,) = profiler.missing()
    assert "samples of all CPUs may not be read here" in lack.what
    assert "run pairlab as root" in lack.remedy
