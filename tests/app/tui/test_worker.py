import gc
import threading
import time
import weakref

from app.rates import TurnRates, rates_of
from app.tui import worker as workers
from app.tui.worker import EngineWorker
from app.tui.worker_events import EngineOpened, InfoChanged, OpenFailed, TurnFailed
from engine.errors import CancelledError
from engine.types import Request, RoundEnded, TurnEnded
from tests.fakes.engine import Script, ScriptedEngine
from tests.tries import PATIENCE_S


def collect(worker, kind, seconds=PATIENCE_S):
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found += worker.drain()
        if any(isinstance(one, kind) for one in found):
            return found
        time.sleep(0.005)
    raise TimeoutError(found)


def test_opens_answers_and_closes():
    engine = ScriptedEngine([Script(answer="a b c d")])
    worker = EngineWorker(lambda progress, cancel: engine)
    worker.start()
    assert isinstance(collect(worker, EngineOpened)[-1], EngineOpened)
    worker.ask(Request())
    events = collect(worker, TurnEnded)
    assert events[-1].record.text == "a b c d"
    worker.close()
    assert engine.is_closed


class Knotted(ScriptedEngine):
    """An engine that refers to itself, as layers and captured graphs do."""

    def __init__(self):
        super().__init__()
        self.itself = self


def test_collections_leave_a_loaded_engine_out_and_free_one_that_is_let_go():
    gc.unfreeze()
    worker = EngineWorker(lambda progress, cancel: Knotted())
    worker.start()
    collect(worker, EngineOpened)
    assert gc.get_freeze_count() > 1000
    gone = weakref.ref(worker._engine)
    worker.close()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gone() is None


def test_in_a_pause_the_machine_is_measured_again_and_a_change_is_told(monkeypatch):
    monkeypatch.setattr(workers, "PAUSE_SECONDS", 0.01)
    engine = ScriptedEngine([Script(answer="a b")], measured=[20.0, 31.0])
    worker = EngineWorker(lambda progress, cancel: engine)
    worker.start()
    told = collect(worker, InfoChanged)
    assert [one.info.read_gb_s for one in told] == [20.0, 31.0]
    worker.ask(Request())
    assert collect(worker, TurnEnded)[-1].record.text == "a b"
    worker.close()


def test_a_cancelled_load_closes_an_engine_that_came_anyway():
    engine, entered = ScriptedEngine(), threading.Event()

    def slow(progress, cancel):
        entered.set()
        cancel.wait(5)
        return engine

    worker = EngineWorker(slow)
    worker.start()
    entered.wait(5)
    worker.cancel_load()
    failed = collect(worker, OpenFailed)[-1]
    assert isinstance(failed.error, CancelledError)
    assert engine.is_closed
    worker.close()


def test_a_stop_of_the_last_turn_does_not_reach_the_next():
    worker = EngineWorker(lambda progress, cancel: ScriptedEngine([Script(answer="x y z")]))
    worker.start()
    worker.stop()
    worker.ask(Request())
    assert collect(worker, TurnEnded)[-1].record.finish_reason == "stop"
    worker.close()


def test_a_crash_is_a_failed_turn_and_the_thread_lives():
    scripts = [Script(crashes_after=0), Script(answer="fine")]
    worker = EngineWorker(lambda progress, cancel: ScriptedEngine(scripts))
    worker.start()
    worker.ask(Request())
    assert "crashed" in collect(worker, TurnFailed)[-1].error.message
    worker.ask(Request())
    assert collect(worker, TurnEnded)[-1].record.text == "fine"
    worker.close()


def test_rates_are_those_of_the_records():
    engine = ScriptedEngine([Script(answer=" ".join("abcdefghij"), round_s=0.01)])
    rates = TurnRates()
    for event in engine.generate(Request(), threading.Event()):
        if isinstance(event, RoundEnded):
            rates.take_round(event.record)
        elif isinstance(event, TurnEnded):
            record = event.record
    assert rates.num_tokens == 10
    assert rates.num_accepted == 6
    assert rates.num_tested == 12
    assert rates.ttft_s == record.rounds[0].start_s
    rates.record = record
    assert rates.mean_tok_s == record.decode_tok_s
    assert rates.context_tokens == record.prompt_tokens + 10
    assert rates_of(record).now_tok_s == rates.now_tok_s


def test_now_counts_the_last_second_only():
    from dataclasses import replace

    engine = ScriptedEngine([Script(answer="a b c")])
    (one,) = [
        e.record for e in engine.generate(Request(), threading.Event()) if isinstance(e, RoundEnded)
    ]
    rates = TurnRates()
    for n in range(40):
        speed = 0.1 if n < 20 else 0.05
        start = n * 0.1 if n < 20 else 2.0 + (n - 20) * 0.05
        ms = {"draft": 0.0, "verify": speed * 1e3, "accept": 0.0, "host": 0.0}
        rates.take_round(replace(one, index=n, start_s=start, ms=ms))
    assert abs(rates.now_tok_s - 60.0) < 3.1
    assert abs(rates.mean_tok_s - 40.0) < 0.1
