"""Fractional factorial designs: what they measure, and what they cannot tell apart."""

import itertools

import pytest

from pairlab.batch import designs, sweep_file
from pairlab.errors import BadSweep

#: The resolution of each design by the tables of Box, Hunter and Hunter (Statistics for Experimenters, table 12.15), by
#: factors and generators.
RESOLUTIONS = {(factors, 1): factors for factors in range(3, 10)}
RESOLUTIONS |= {(5, 2): 3, (6, 2): 4, (7, 2): 4, (8, 2): 5, (9, 2): 6}
RESOLUTIONS |= {(6, 3): 3, (7, 3): 4, (8, 3): 4, (9, 3): 4, (7, 4): 3, (8, 4): 4, (9, 4): 4, (9, 5): 3}
#: Of minimum aberration: how many words of four factors, by Fries and Hunter 1980.
WORDS_OF_FOUR = {(6, 2): 3, (7, 2): 1, (7, 3): 7, (8, 3): 3, (8, 4): 14, (9, 3): 1, (9, 4): 6}

FOUR = {"driver": ["bridge", "host"], "pairs": [1, 5], "mtu_bytes": [1500, 9000], "flows_per_pair": [1, 4]}


def design_of(factors, generators):
    axes = {f"x{place}": [-1, 1] for place in range(factors)} | {"fixed": ["same"]}
    design = designs.fraction(axes, f"1/{2**generators}")
    return design, [tuple(cell[f"x{place}"] for place in range(factors)) for cell in design.combinations(axes)]


@pytest.mark.parametrize(("factors", "generators"), RESOLUTIONS)
def test_every_level_meets_every_other_equally_often_as_far_as_the_resolution_says(factors, generators):
    design, cells = design_of(factors, generators)
    assert design.resolution == RESOLUTIONS[factors, generators]
    assert len(set(cells)) == len(cells) == design.cells == 2 ** (factors - generators)
    strength = design.resolution - 1
    for some in itertools.combinations(range(factors), strength):
        levels = [tuple(cell[place] for place in some) for cell in cells]
        assert {levels.count(each) for each in itertools.product((-1, 1), repeat=strength)} == {len(cells) >> strength}
    four = sum(
        abs(sum(a * b * c * d for a, b, c, d in (tuple(cell[place] for place in some) for cell in cells))) == len(cells)
        for some in itertools.combinations(range(factors), 4)
    )
    assert four == WORDS_OF_FOUR.get((factors, generators), four)


def test_planted_effects_are_found_and_those_that_are_aliased_are_added_up():
    axes = {name: [-1, 1] for name in "abcd"}
    design = designs.fraction(axes, "1/2")
    cells = list(design.combinations(axes))
    measured = [10 + 3 * x["a"] - 2 * x["d"] + 1.5 * x["a"] * x["b"] + 0.25 * x["c"] * x["d"] for x in cells]

    def effect(*factors):
        signs = [1 if sum(x[each] < 0 for each in factors) % 2 == 0 else -1 for x in cells]
        return sum(sign * value for sign, value in zip(signs, measured, strict=True)) / len(cells)

    assert [effect(name) for name in "abcd"] == [3, 0, 0, -2]
    assert design.aliases() == [["a × b", "c × d"], ["a × c", "b × d"], ["a × d", "b × c"]]
    assert effect("a", "b") == effect("c", "d") == 1.75
    assert effect("a", "c") == 0


def test_a_design_of_resolution_three_says_with_which_interaction_each_effect_is_aliased():
    design = designs.fraction({name: [0, 1] for name in "abc"}, "1/2")
    assert design.aliases() == [["a", "b × c"], ["b", "a × c"], ["c", "a × b"]]
    assert design.describe() == ("2^(3-1) design of resolution III, 4 of 8 combinations; generators: c = a × b")


def test_a_sweep_measures_the_fraction_of_its_grid(tmp_path):
    sweep = sweep_file.SweepFile(name="half", experiments={"throughput": {**FOUR, "fraction": "1/2", "duration_s": 2}})
    cells = sweep_file.cells(sweep)
    assert len(set(cells)) == len(cells) == 8
    for name, values in FOUR.items():
        assert [sum(getattr(spec, name) == value for spec in cells) for value in values] == [4, 4]
    ((experiment, design),) = sweep_file.fractions(sweep)
    assert (experiment, design.factors) == ("throughput", tuple(FOUR))


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ({**FOUR, "pairs": [1, 2, 5], "fraction": "1/2"}, "each axis must have two values, and pairs has 3"),
        ({**FOUR, "fraction": "1/4"}, "1/4 of the combinations of 4 axes with two values are too few"),
        ({"pairs": [1, 2], "driver": ["bridge", "host"], "fraction": "1/2"}, "1/2 of the combinations of 2 axes"),
        ({"pairs": 1, "fraction": "1/2"}, "1/2 of the combinations of 0 axes"),
        ({**FOUR, "fraction": "1/2", "sample": 4}, "give either sample or fraction, not both"),
        ({**FOUR, "fraction": "1/3"}, "input should be '1/2', '1/4', '1/8', '1/16' or '1/32'"),
    ],
)
def test_what_is_no_fraction_of_two_level_factors_is_refused(tmp_path, grid, why):
    from pairlab.base import safe_yaml

    file = tmp_path / "sweep.yaml"
    file.write_text(safe_yaml.text({"name": "refused", "experiments": {"throughput": grid}}))
    with pytest.raises(BadSweep, match=why.replace("(", r"\(")):
        sweep_file.cells(sweep_file.load(file))


def test_more_factors_than_generators_are_known_for_are_refused():
    with pytest.raises(designs.BadSpec, match="at most 9 axes may have two values, not 10"):
        designs.fraction({f"x{place}": [0, 1] for place in range(10)}, "1/2")
