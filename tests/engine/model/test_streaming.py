"""Reading ahead, in slices and in turns: order, errors, stopping, and nothing left behind."""

import os
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import CancelledError, CheckpointError
from engine.model import page_cache, streaming
from engine.model.loading import load_model
from engine.model.packing import Launching, Packer
from engine.model.safetensors_header import StoredTensor
from engine.model.staging import Staging
from engine.model.streaming import WeightStream
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint

CPU = torch.device("cpu")
WAIT_S = 20


def lies_there_for_long(path: Path) -> Path:
    os.utime(path, (0, time.time() - 2 * page_cache.WRITTEN_OUT_S))
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("bytes") / "some.safetensors"
    path.write_bytes(torch.randint(0, 256, (5000,), dtype=torch.uint8).numpy().tobytes())
    return lies_there_for_long(path)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [one.name for one in threading.enumerate() if one.name.startswith("weights")]


def stored(path: Path, offset: int, num_bytes: int) -> StoredTensor:
    return StoredTensor("some.weight", path, "U8", (num_bytes,), offset, num_bytes)


def read(stream: WeightStream, path: Path, offset: int = 0, num_bytes: int = 100) -> bytes:
    out = torch.empty(num_bytes, dtype=torch.uint8)
    stream.read(stored(path, offset, num_bytes), 0, out)
    return out.numpy().tobytes()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4000), st.integers(1, 1000), st.integers(1, 700))
def test_slices_of_any_size_join_to_the_bytes_of_the_file(file, offset, num_bytes, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "SLICE_BYTES", size)
        with WeightStream(num_bytes, CPU) as stream:
            assert read(stream, file, offset, num_bytes) == file.read_bytes()[offset:][:num_bytes]


@pytest.fixture
def drops(monkeypatch):
    """Ranges of the page cache that were dropped, and of which file; everything counts as large."""
    found = []

    def note(fd, start, size, advice):
        assert advice == os.POSIX_FADV_DONTNEED
        found.append((Path(f"/proc/self/fd/{fd}").readlink().name, start, start + size))

    monkeypatch.setattr(os, "posix_fadvise", note)
    monkeypatch.setattr(page_cache, "BYTES_AT_ONCE", 100)
    return found


def test_what_was_read_leaves_the_page_cache_with_the_page_that_two_pieces_share(file, drops):
    with WeightStream(4000, CPU) as stream:
        for start in (500, 600, 3000, 700):
            read(stream, file, start)
    assert [one[1:] for one in drops] == [(500, 600), (500, 700), (3000, 3100), (500, 800)]


def test_small_pieces_leave_the_page_cache_with_what_follows_or_at_the_end(file, drops):
    with WeightStream(4000, CPU) as stream:
        for start, size in ((500, 40), (540, 60), (600, 100), (700, 50), (2000, 7)):
            read(stream, file, start, size)
        assert len(drops) <= 1
    assert sorted(one[1:] for one in drops) == [(500, 700), (500, 750), (2000, 2007)]


def test_a_file_is_closed_after_its_pages_were_dropped(file, tmp_path, drops):
    other = tmp_path / "other.safetensors"
    other.write_bytes(bytes(100))
    lies_there_for_long(other)
    with WeightStream(400, CPU) as stream:
        read(stream, file)
        read(stream, file, 100, 50)
        read(stream, other)
        read(stream, file, 400)
    name = file.name
    assert drops == [
        (name, 0, 100), (name, 0, 150), (other.name, 0, 100), (name, 400, 500)
    ]  # fmt: skip


def test_a_file_that_was_just_written_stays_in_the_page_cache(file, tmp_path, drops):
    """Its pages are not on the disk: dropping them would write them first."""
    new = tmp_path / "new.safetensors"
    new.write_bytes(file.read_bytes())
    with WeightStream(200, CPU) as stream:
        read(stream, new)
        read(stream, file)
    assert drops == [(file.name, 0, 100)]


def test_who_stops_waits_for_one_drop_at_most(file, monkeypatch):
    dropped, go_on = [], threading.Event()

    def drop_slowly(*call):
        dropped.append(call)
        go_on.wait(WAIT_S)

    monkeypatch.setattr(os, "posix_fadvise", drop_slowly)
    monkeypatch.setattr(page_cache, "BYTES_AT_ONCE", 100)
    stream = WeightStream(1000, CPU)
    for start in range(0, 1000, 100):
        read(stream, file, start)
    threading.Timer(0.1, go_on.set).start()
    stream.__exit__(CancelledError, CancelledError("Stopped."), None)
    assert len(dropped) == 1


def test_a_file_system_without_advice_is_read_all_the_same(file, monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    with WeightStream(100, CPU) as stream:
        assert read(stream, file) == file.read_bytes()[:100]


def test_a_file_that_ends_in_a_slice_is_a_sentence(file, monkeypatch):
    monkeypatch.setattr(streaming, "SLICE_BYTES", 512)
    with WeightStream(2000, CPU) as stream, pytest.raises(CheckpointError, match="ended while"):
        read(stream, file, 4000, 2000)


def test_a_disk_that_fails_in_a_slice_is_a_sentence(file, monkeypatch):
    def fail(fd, views, offset):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(streaming, "SLICE_BYTES", 512)
    monkeypatch.setattr(os, "preadv", fail)
    with (
        WeightStream(2000, CPU) as stream,
        pytest.raises(CheckpointError, match="does not read: Input/output error"),
    ):
        read(stream, file, 0, 2000)


def test_items_come_in_order_each_read_while_the_last_is_used():
    begun = [threading.Event() for _ in range(4)]

    def items():
        for index, one in enumerate(begun):
            one.set()
            yield index

    got = []
    with WeightStream(0, CPU) as stream, closing(stream.ahead(items())) as arriving:
        for index in arriving:
            got.append(index)
            if index + 1 < len(begun):
                assert begun[index + 1].wait(WAIT_S)
            assert not any(one.is_set() for one in begun[index + 2 :])
    assert got == [0, 1, 2, 3]


def test_what_fails_ahead_is_raised_after_what_came_before():
    problem = CheckpointError("It is damaged.", "Download it again.")

    def items():
        yield "whole"
        raise problem

    got = []
    with (
        WeightStream(0, CPU) as stream,
        closing(stream.ahead(items())) as arriving,
        pytest.raises(CheckpointError) as caught,
    ):
        got.extend(arriving)
    assert got == ["whole"]
    assert caught.value is problem


def test_who_stops_in_the_middle_waits_for_one_piece_at_most(file):
    """An item of many pieces is being read when its predecessor turns out to be useless."""
    pieces, reading = [], threading.Event()

    def items(stream):
        yield "first"
        for _ in range(100_000):
            pieces.append(read(stream, file))
            reading.set()
        yield "second"

    with WeightStream(10_000_000, CPU) as stream, closing(stream.ahead(items(stream))) as arriving:
        assert next(arriving) == "first"
        assert reading.wait(WAIT_S)
    assert 0 < len(pieces) < 100_000


def test_a_load_is_cancelled_between_the_pieces_of_a_tensor(file):
    cancel, read_first = threading.Event(), []

    def items(stream):
        yield read(stream, file)
        read_first.append(read(stream, file))
        cancel.set()
        yield read(stream, file)

    with (
        WeightStream(300, CPU, cancel=cancel) as stream,
        closing(stream.ahead(items(stream))) as arriving,
    ):
        assert next(arriving) == file.read_bytes()[:100]
        with pytest.raises(CancelledError):
            next(arriving)
    assert len(read_first) == 1


def test_a_piece_stays_while_the_next_one_is_filled():
    staging = Staging(CPU)
    first = staging.next_piece(100).fill_(1)
    second = staging.next_piece(80).fill_(2)
    assert first.eq(1).all()
    assert second.eq(2).all()
    third = staging.next_piece(100)
    assert third.data_ptr() == first.data_ptr()
    assert third.data_ptr() != second.data_ptr()


def test_a_load_leaves_no_thread_whether_it_ends_or_fails(tmp_path, monkeypatch):
    tensors = random_tensors(TINY, fp8=True)
    folder = write_checkpoint(tmp_path / "model", tensors=tensors)
    load_model(folder, packer=Packer(Launching((9, 0))))

    def refuse(packer, name, matrix):
        raise ValueError("codes are no numbers")

    monkeypatch.setattr(Packer, "add", refuse)
    with pytest.raises(CheckpointError, match=r"cannot be served: codes are no numbers\."):
        load_model(folder, packer=Packer(Launching((9, 0))))
