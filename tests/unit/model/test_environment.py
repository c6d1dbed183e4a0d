"""Which host a run was measured on: one name in frames, comparisons and checks."""

from pairlab.model.environment import Environment, host_names

ONE = Environment(host="A CPU, 2 CPUs", machine="0123456789ab", kernel="6.1")
OTHER = ONE._replace(machine="ba9876543210")


def test_a_host_is_named_by_its_cpus_and_by_its_machine_where_there_are_several_of_that_kind():
    assert host_names([ONE, ONE._replace(kernel="6.18")]) == {
        ONE: "A CPU, 2 CPUs",
        ONE._replace(kernel="6.18"): "A CPU, 2 CPUs",
    }
    assert host_names([ONE, OTHER]) == {
        ONE: "A CPU, 2 CPUs (machine 0123456789ab)",
        OTHER: "A CPU, 2 CPUs (machine ba9876543210)",
    }


def test_a_machine_that_was_not_recorded_is_none_that_is_known():
    older = ONE._replace(machine="")
    assert host_names([ONE, older]) == {
        ONE: "A CPU, 2 CPUs (machine 0123456789ab)",
        older: "A CPU, 2 CPUs (which machine was not recorded)",
    }
    assert not older.agrees(ONE)
    assert older.agrees(older._replace(kernel=""))
    assert older.changes(ONE) == "machine none, now 0123456789ab"
