"""What the store has of cells in other environments than this host's."""

from dataclasses import replace

from pairlab import Spec, store
from pairlab.measurement.estimate import measured_elsewhere
from tests.support.synthetic import FACTS, run


def test_cells_that_another_kernel_measured_are_counted_also_where_a_table_is_damaged(tmp_path):
    """A run's head has its environment; its tables are not needed for that."""
    before = {"host": FACTS["host"] | {"kernel": "1.0", "cpu_model": "a CPU"}}
    for number in range(2):
        made = store.write(replace(run([1.0], repetition=number), facts=before), tmp_path)
    for table in made.path.glob("*.parquet"):
        table.write_bytes(b"")
    specs = [made.spec.replace(repetition=number) for number in range(3)]
    (line,) = measured_elsewhere(store.outcomes(specs, tmp_path))
    assert line.startswith("2 cells were measured before, with host a CPU, 2 CPUs, now ")
    assert measured_elsewhere(store.outcomes([Spec(pairs=7)], tmp_path)) == []
