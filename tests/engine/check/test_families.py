"""What every kernel family must bring to be timed and tuned."""

import pytest

from engine.check.families import sizes_of
from engine.model.config import SHAPES
from engine.tune.tiles import TABLES, shipped_table
from engine.tune.user_tiles import MEASURED_FIELDS
from kernels.common.family import load_families

MODELS = [sizes_of(name, config) for name, config in SHAPES.items()]
FAMILIES = load_families()


def problems_of(family, rows):
    return [one for sizes in MODELS for one in family.timed(sizes, rows)] if family.timed else []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
@pytest.mark.parametrize("rows", [1, 32])
def test_problems_name_functions_of_their_family_and_their_bytes(family, rows):
    for one in problems_of(family, rows):
        assert one.op in family.ops
        assert one.rows == rows
        assert one.num_bytes > 0
        assert one.case is None or one.case.op in family.ops
        assert {peer.name for peer in one.peers} >= set(one.bar.min_speed_up if one.bar else ())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_a_problem_has_one_name_at_a_shape(family):
    for sizes in MODELS:
        found = family.timed(sizes, 8) if family.timed else ()
        names = [(one.op, one.name, one.format_name) for one in found]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_every_tunable_has_problems_and_reads_what_it_writes(family):
    for tunable in family.tunables:
        found = [
            one
            for rows in tunable.rows
            for one in problems_of(family, rows)
            if one.op == tunable.op
        ]
        assert found
        for problem in found:
            key = tunable.key(problem)
            candidates = tunable.candidates(key)
            assert tuple(key) == tunable.key_fields
            assert tunable.default(key) in candidates
            # of a round, or where the tile serves no round, of the fewest that it serves
            assert 1 <= tunable.case(problem).sizes["T"] <= (32 if min(tunable.rows) <= 32 else 64)
            for tile in candidates:
                row = {"op": tunable.op, **key, **tunable.to_row(tile)}
                assert tunable.from_row(row) == tile
                assert tunable.find([row], key) == tile


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
@pytest.mark.parametrize("capability", TABLES)
def test_tiles_that_ship_are_candidates(family, capability):
    """A table that `tune` writes may hold them, and one that is read must hold candidates."""
    tunables = {one.op: one for one in family.tunables}
    for row in shipped_table(family.name, capability):
        tunable = tunables.get(row.get("op"))
        if tunable is not None:
            key = {name: row[name] for name in tunable.key_fields}
            assert tunable.from_row(row) in tunable.candidates(key)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_no_field_of_a_tile_is_one_that_tune_writes_itself(family):
    written = {"op", *MEASURED_FIELDS}
    for tunable in family.tunables:
        key = tunable.key(problems_of(family, tunable.rows[0])[0])
        fields = tunable.to_row(tunable.default(key)).keys()
        assert not fields & (written | set(tunable.key_fields))
