"""Specs, sweep files and stored heads of any content: read, or refused in words, in bounded time (promise: bad input).

pairlab reads no file of flow sizes or their distribution: flows have one size, or two (elephant_share). The files of
numbers that it does read are the sweeps, the ledger of claims, the published tables, and what it stored itself, a
host's calibration among that.
"""

import json
import math
import re
import time

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from pairlab import paths, store
from pairlab.analysis import published
from pairlab.analysis.claims import ledger
from pairlab.analysis.comparison import noise_floor
from pairlab.base import safe_yaml
from pairlab.batch.sweep_file import MOST_CELLS, cells, load
from pairlab.errors import BadInput, BadSpec, BadSweep, DamagedRun, SchemaMismatch, StoreError
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from tests.support.edited import edited, places

BOUNDED_S = 60.0  # what has no bound takes hours, or all memory

quick = settings(max_examples=60)
with_files = settings(quick, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

any_text = st.text(st.characters(), max_size=20)  # half characters and NULs, too
any_json = st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | any_text


def nested(values):
    return st.recursive(
        values, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3), max_leaves=6
    )


any_value = nested(any_json)


def tells(refused):
    """Each refusal is a line of words."""
    told = str(refused)
    assert told
    assert "\n" not in told


# --- specs


def values_of(schema):
    """Values that one field may have, by its JSON schema: a field added later is tried as well."""
    if "const" in schema:
        return st.just(schema["const"])
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    match schema["type"]:
        case "integer":
            return st.integers(low, high)
        case "number":
            return st.floats(
                low, high, exclude_min="exclusiveMinimum" in schema, allow_nan=False, allow_infinity=False
            ) | st.integers(1, int(min(high or 1e6, 1e6)))
        case "boolean":
            return st.booleans()
        case "string" if "enum" in schema:
            return st.sampled_from(schema["enum"])
        case "string":
            return st.from_regex(schema["pattern"].removesuffix("$") + r"\Z", fullmatch=True)
    raise AssertionError(f"no values are known of {schema}")


FIELDS = Spec.model_json_schema()["properties"]
one_value = st.sampled_from(sorted(FIELDS)).flatmap(lambda name: values_of(FIELDS[name]).map(lambda of: {name: of}))
some_values = st.lists(st.sampled_from(sorted(FIELDS)), max_size=5, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: values_of(FIELDS[name]) for name in names})
)


@quick
@given(some_values)
def test_every_spec_that_is_valid_comes_back_from_json_with_the_same_key(values):
    try:
        spec = Spec.stored(values)
    except BadSpec as refused:
        tells(refused)
        assume(False)
    again = Spec.stored(json.loads(json.dumps(spec.model_dump(), allow_nan=False)))
    assert again == spec
    assert again.key == spec.key
    assert re.fullmatch("[0-9a-f]{16}", spec.key)
    assert hash(again) == hash(spec)
    assert str(again) == str(spec)


@quick
@given(some_values, some_values)
def test_specs_are_equal_exactly_when_their_keys_are(one, other):
    try:
        one, other = Spec.stored(one), Spec.stored(other)
    except BadSpec:
        assume(False)
    assert (one == other) == (one.key == other.key)


@quick
@given(one_value)
def test_each_value_other_than_the_default_is_part_of_the_key(values):
    try:
        spec = Spec.stored(values)
    except BadSpec:
        assume(False)
    assert (spec.key == Spec().key) == (spec == Spec())


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no")


any_object = nested(any_json | st.integers(1, 6000).map(lambda power: 10**power) | st.binary() | st.builds(Unshowable))


@quick
@pytest.mark.parametrize("make", [Spec.stored, lambda values: Spec(**values)], ids=["stored", "named here"])
@given(values=st.dictionaries(st.sampled_from(sorted(FIELDS)) | any_text, any_object, max_size=5))
def test_any_values_make_a_spec_or_a_bad_spec_and_nothing_else(make, values):
    try:
        spec = make(values)
    except BadSpec as refused:
        tells(refused)
    else:
        assert all(math.isfinite(value) for value in spec.model_dump().values() if isinstance(value, float))


# --- sweep files


def refusal(file, text):
    file.write_text(text, encoding="utf-8")
    begun = time.monotonic()
    with pytest.raises(BadSweep) as caught:
        cells(load(file))
    assert time.monotonic() - begun < BOUNDED_S
    assert len(str(caught.value)) < 2000
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "sweep.yaml"


def test_a_grid_of_a_billion_cells_is_refused_before_it_is_expanded(file):
    axes = {name: list(range(1, 1001)) for name in ("pairs", "interval_s", "duration_s")}
    told = refusal(file, json.dumps({"name": "x", "experiments": {"throughput": axes}}))
    assert "1,000,000,000 measurements" in told
    assert f"at most {MOST_CELLS:,} are allowed: shorten an axis" in told


def test_repetitions_count_and_so_do_all_grids_together(file):
    told = refusal(
        file, "name: x\nrepetitions: 10000\nexperiments: {throughput: {pairs: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}}"
    )
    assert "110,000 measurements" in told
    grids = [{"workload": "flowgen", "pairs": list(range(begin, begin + 5))} for begin in range(1, 200, 5)]
    told = refusal(file, yaml.safe_dump({"name": "x", "repetitions": 1000, "experiments": {"throughput": grids}}))
    assert "sweep 'x' has 105,000 measurements" in told


def bomb(start, link):
    """Each line stands for ten of the one before."""
    lines = [f"a: &a {start}"]
    lines += [f"{chr(98 + i)}: &{chr(98 + i)} {link(', '.join([f'*{chr(97 + i)}'] * 10))}" for i in range(20)]
    return "\n".join(lines)


NO_SWEEPS = {
    "aliases": (bomb("[1, 2]", lambda ten: f"[{ten}]"), "has more than 100000 values, aliases expanded"),
    "merges": (bomb("{k: 1, l: 2}", lambda ten: f"{{<<: [{ten}]}}"), "has more than 100000 values, aliases expanded"),
    "cycle": ("name: x\nexperiments: &a {throughput: {pairs: *a}}", "has an alias inside the value that it names"),
    "large": ("name: " + "x" * safe_yaml.MOST_BYTES, "is larger than 1048576 bytes"),
    "deep": ("[" * 1500, "is not YAML"),
    "twice": ("name: x\nrepetitions: 1\nrepetitions: 2\n", "has the key 'repetitions' twice, in lines 2 and 3"),
    "blocks": ("a:\n  b:\n    pairs: [1]\n    pairs: [2]\n", "has the key 'pairs' twice, in lines 3 and 4"),
    "flow": ("{name: x, name: y}", "has the key 'name' twice, in lines 1 and 1"),
    "bool": ("name: !!bool x", "is not YAML: a value does not fit its tag"),
    "int": ("name: !!int ''", "is not YAML: a value does not fit its tag"),
    "timestamp": ("name: !!timestamp x", "is not YAML: a value does not fit its tag"),
    "python": ("name: !!python/object/apply:os.system [true]", "could not determine a constructor for the tag"),
    "date": ("name: !!timestamp 2026-02-31", "is not YAML"),
}


@pytest.mark.parametrize("kind", NO_SWEEPS)
def test_what_would_not_end_or_is_no_value_is_refused_in_words(file, kind):
    text, told = NO_SWEEPS[kind]
    assert told in refusal(file, text)


def test_a_file_without_an_end_is_not_read_to_it():
    with pytest.raises(BadSweep, match="is larger than 1048576 bytes"):
        load("/dev/zero")


@pytest.mark.parametrize("name", [".", "/proc/self/mem", "no such file", "a\0b"])
def test_what_is_no_file_is_no_sweep(name):
    with pytest.raises(BadSweep):
        load(name)


# As people write them: whole sweeps, in which one thing, anywhere, is another.
WHOLE = [yaml.safe_load(path.read_text()) for path in sorted(paths.SWEEPS.glob("*.yaml"))]
tags = st.sampled_from(
    ["!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary", "!!set", "!!omap", "!!pairs"]
)
tagged = st.builds("{} {}".format, tags, st.sampled_from(["''", "x", "[]", "{}", "[1, 2]", "0x", "1:1", "-", "1e999"]))
lines = st.lists(
    st.builds("{}{}: {}".format, st.sampled_from(["", "  ", "- "]), any_text.map(json.dumps), tagged) | tagged,
    max_size=4,
)


def with_another(chosen):
    whole, path, value = chosen
    return edited(whole, path, value)


damaged = st.sampled_from(WHOLE).flatmap(
    lambda whole: st.tuples(st.just(whole), st.sampled_from(list(places(whole))), any_value).map(with_another)
)


@settings(with_files, max_examples=50)
@given(damaged.map(json.dumps) | any_value.map(json.dumps) | lines.map("\n".join) | any_text)
def test_any_sweep_file_has_cells_or_is_a_bad_sweep(file, text):
    file.write_bytes(text.encode(errors="surrogatepass"))
    try:
        todo = cells(load(file))
    except BadSweep as refused:
        tells(refused)
    else:
        assert len({spec.key for spec in todo}) == len(todo) > 0


# --- the ledger and the published tables


@with_files
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["id", "statement", "effect", "drivers", "than"]), any_value), max_size=2
    ).map(json.dumps)
    | lines.map("\n".join)
    | any_value.map(json.dumps)
)
@example(text=r'[{"\n": null}]')
def test_any_ledger_is_read_or_is_bad_input(file, text):
    file.write_bytes(text.encode(errors="surrogatepass"))
    try:
        ledger.load(file)
    except BadInput as refused:
        tells(refused)


@pytest.mark.parametrize("name", sorted(path.stem for path in published.FOLDER.glob("*.csv")))
def test_every_number_of_a_published_table_is_one(name):
    table = published.load(name)
    assert set(table["paper"]) <= set(published.PAPERS)
    assert table["source"].str.contains("table|figure|section").all()
    for column in table.select_dtypes("number"):
        assert all(math.isfinite(value) for value in table[column].dropna()), column
    for column in table:
        if column.endswith(("_bps", "_s", "pairs", "_percent", "quantile")):
            assert table[column].dtype.kind in "if", f"{column} holds what is no number"


# --- what was stored


@with_files
@given(
    any_value.map(json.dumps)
    | any_text
    | st.dictionaries(st.sampled_from(["schema", "host", "backend", "floors"]), any_value).map(json.dumps)
)
def test_any_record_of_a_calibration_is_read_or_is_damaged(tmp_path, text):
    place = noise_floor.file_of(tmp_path, "a host", "netns")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, errors="replace")
    with pytest.raises(StoreError):
        noise_floor.find(tmp_path, "a host", "netns")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return store.write(Run(Spec(), "failed", ("on purpose",)), tmp_path_factory.mktemp("runs"))


@with_files
@given(st.data())
def test_any_head_of_a_run_is_read_or_makes_a_damaged_run(stored, data):
    head = stored.path / "run.json"
    whole = head.read_text()
    told = json.loads(whole)
    damaged = st.tuples(st.just(told), st.sampled_from(list(places(told))), any_value).map(with_another)
    head.write_text(data.draw((damaged | any_value).map(json.dumps) | any_text), errors="replace")
    try:
        store.read(stored.path)
    except (DamagedRun, SchemaMismatch) as refused:
        tells(refused)
    finally:
        head.write_text(whole)
    assert store.status(stored.spec, stored.path.parents[1]) == "failed"


@quick
@given(st.data())
def test_any_list_of_a_sweeps_cells_is_read_or_is_damaged(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("runs")
    (place / ".sweeps" / "x").mkdir(parents=True)
    (place / ".sweeps" / "x" / "netns.json").write_text(
        data.draw(any_value.map(json.dumps) | any_text), errors="replace"
    )
    try:
        assert all(isinstance(key, str) for key in store.keys_of_sweep("x", place))
    except StoreError as refused:
        tells(refused)
