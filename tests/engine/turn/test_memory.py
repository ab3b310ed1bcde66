"""How positions were computed is kept range by range, so that a resume can repeat it."""

from engine.records import RangeRecord
from engine.turn.memory import Memory
from tests.fakes.model import FakeModel


def read(memory, model, ids, how, chunk_tokens=0):
    memory.read(ids, model.prefill(ids, memory.state), how, chunk_tokens)


def test_a_point_where_a_range_ends_leaves_nothing_of_the_next():
    model = FakeModel(len)
    memory = Memory(model, 64, most_marks=2)
    read(memory, model, [1, 2, 3, 4], "prefill", 4)
    memory.mark()
    read(memory, model, [5, 6], "decode")
    assert memory.align([1, 2, 3, 4, 9]).reused == 4
    assert memory.ranges == [RangeRecord(0, 4, "prefill", 4)]


def test_chunks_behind_a_whole_one_go_on_with_its_range_and_behind_a_part_begin_another():
    model = FakeModel(len)
    memory = Memory(model, 64, most_marks=0)
    for ids in ([1, 2, 3, 4], [5, 6], [7, 8]):
        read(memory, model, ids, "prefill", 4)
    assert memory.ranges == [RangeRecord(0, 6, "prefill", 4), RangeRecord(6, 8, "prefill", 4)]
