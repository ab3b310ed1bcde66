"""Nothing comes between a capture's launches."""

import gc
import threading

import pytest

from kernels.common.capture import undisturbed


def test_the_collector_is_still_until_the_capture_has_ended():
    assert gc.isenabled()
    with undisturbed():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(RuntimeError), undisturbed():
        raise RuntimeError("a launch that fails")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with undisturbed():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_another_capture_waits_for_the_first():
    began, order = threading.Event(), list[str]()

    def second() -> None:
        began.set()
        with undisturbed():
            order.append("second")

    with undisturbed():
        other = threading.Thread(target=second)
        other.start()
        began.wait()
        order.append("first")
    other.join()
    assert order == ["first", "second"]
