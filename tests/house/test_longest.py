"""The longest files of tests begin first, so that no core waits for another at the end of a run."""

from types import SimpleNamespace

from tests.conftest import LONGEST, ROOT, pytest_collection_modifyitems


def test_they_are_there():
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []


def test_they_begin_in_their_order_and_tests_stay_together():
    names = ["app/test_a.py", LONGEST[1], "app/test_b.py", LONGEST[0]]
    items = [
        SimpleNamespace(path=ROOT / "tests" / name, number=number)
        for name in names
        for number in range(2)
    ]
    pytest_collection_modifyitems(items)
    begun = [(item.path.relative_to(ROOT / "tests").as_posix(), item.number) for item in items]
    order = [LONGEST[0], LONGEST[1], "app/test_a.py", "app/test_b.py"]
    assert begun == [(name, number) for name in order for number in range(2)]


def test_workers_take_them_in_this_order():
    """Else a worker is given the files with the most tests first."""
    assert "--dist loadfile --no-loadscope-reorder" in (ROOT / "scripts" / "test").read_text()
