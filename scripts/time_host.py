#!/usr/bin/env python3
"""Time what the host does between two rounds, beside a device that needs no time.

Turns run as they do on a GPU, but a script stands in the place of a round's launches and of the MTP
head: it leaves what they would. So what is timed is the host alone, from the moment when what came
of a round can be read until the next one is handed over, if that was not done ahead; a change of a
few microseconds shows. For each way to draft: the median and the 90th percentile of that, and the
median of what the host does meanwhile, in microseconds.
"""

import argparse
import gc
import random
import statistics
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from unittest.mock import patch

import torch

from engine.bench.random_engine import DEMO, PRICES
from engine.draft.price_table import shipped_prices
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.kernel_model import KernelModel
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.round_state import RoundInputs
from engine.profile import Drafting, Formats
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.turn.device_choice import DeviceChoice, Way
from engine.turn.local import LocalEngine
from engine.turn.machine import Machine
from engine.turn.rows_verify import RowsVerifier
from engine.turn.traffic import RowsTraffic
from engine.types import EngineInfo, Request, Sampling, TurnEnded
from kernels.common.staged import FetchedTable

PROMPT_TOKENS = 1024
GREEDY = Sampling(temperature=0.0)
PENALISED = replace(GREEDY, presence_penalty=0.5)
CASES = (
    ("off", "chain", 0, GREEDY),
    ("replay", "chain", 3, GREEDY),
    ("replay", "chain", 15, GREEDY),
    ("replay", "chain", 31, GREEDY),
    ("replay", "tree", 15, GREEDY),
    ("half", "chain", 15, GREEDY),
    ("lookup", "auto", 15, GREEDY),
    ("lookup", "auto", 15, PENALISED),
    ("mtp", "chain", 3, GREEDY),
    ("auto", "auto", None, GREEDY),
)
"""Drafter, shape, most tokens a round, sampling."""


def main() -> int:
    """Time every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2000, help="of each answer")
    parser.add_argument("--only", default="", help="drafters whose name holds this")
    arguments = parser.parse_args()
    text = _text(PROMPT_TOKENS + arguments.tokens)
    device = ScriptedDevice(text)
    engine = _engine(device, len(text))
    gc.collect()
    gc.freeze()
    print(
        f"{'drafter':<10}{'shape':<8}{'rows':>5}{'rounds':>8}{'between':>10}{'p90':>10}{'meanwhile':>12}"
    )
    for drafter, shape, most, sampling in CASES:
        if arguments.only not in drafter:
            continue
        request = Request(
            prompt_ids=text[:PROMPT_TOKENS], drafter=drafter, draft_shape=shape,
            num_draft_tokens=most, replay_ids=text[PROMPT_TOKENS:], sampling=sampling,
            max_tokens=arguments.tokens, ignore_stop_ids=True,
        )  # fmt: skip
        device.between_us, device.meanwhile_us = [], []
        *_, end = engine.generate(request, threading.Event())
        assert isinstance(end, TurnEnded)
        record = end.record
        assert record.token_ids == text[PROMPT_TOKENS:], (record.error, drafter)
        between, meanwhile = sorted(device.between_us), device.meanwhile_us
        name = drafter + ("*" if sampling is PENALISED else "")
        print(
            f"{name:<10}{shape:<8}{statistics.mean(one.rows for one in record.rounds):>5.1f}"
            f"{len(record.rounds):>8}{statistics.median(between):>10.1f}"
            f"{between[len(between) * 9 // 10]:>10.1f}{statistics.median(meanwhile):>12.1f}"
        )
    print("* with penalties")
    return 0


class ScriptedDevice:
    """Stands in the place of a verifier's graphs, chooses the tokens of a text, and notes when.

    Attributes:
        text: a prompt and its answer.
        between_us: from what came of a round to the launch of the next; 0 where that was ahead.
        meanwhile_us: from a launch until the host waits for it.

    Args:
        text: as above.
    """

    def __init__(self, text: tuple[int, ...]) -> None:
        self.text = (*text, *(1,) * 64)
        self.between_us: list[float] = []
        self.meanwhile_us: list[float] = []
        self._num_asked = 0
        self._launched_s = self._known_s = 0.0

    def lacks(self, _key: Hashable) -> bool:
        """All graphs are there."""
        return False

    def serve(self, _addresses: tuple[int, ...]) -> None:
        """Nothing moves."""

    def run(self, _key: Hashable, launch: Callable[[], None], _what: str, **_: bool) -> None:
        """Run a round."""
        if self._known_s:
            waited_s = time.perf_counter() - self._known_s
            self.between_us.append(0.0 if self._num_asked else waited_s * 1e6)
        self._num_asked += 1
        launch()
        self._launched_s = time.perf_counter()

    def stand_in(self, model: KernelModel) -> None:
        """Take the place of a model's GPU, before a verifier is made of it."""
        wait = FetchedTable.wait

        def waited(page: FetchedTable) -> list[int]:
            self._num_asked -= 1
            self.meanwhile_us.append((time.perf_counter() - self._launched_s) * 1e6)
            self._known_s = time.perf_counter()
            return wait(page)

        def choose(
            _choice: DeviceChoice,
            _logits: torch.Tensor,
            inputs: RoundInputs,
            _way: Way,
            ids: torch.Tensor,
        ) -> None:
            first = int(inputs.start) + 1
            depths = inputs.tree.depths[: len(ids)].tolist()
            ids.copy_(torch.tensor([self.text[first + one] for one in depths]))

        patch.object(FetchedTable, "wait", waited).start()
        patch.object(DeviceChoice, "launch", choose).start()
        vars(model).update(
            new_graphs=lambda: self,
            run_rows=lambda *_: None,
            logits=self._logits,
            mtp=ScriptedHead(self.text),
        )

    def _logits(self, hidden: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Let the first token, which comes of the prompt, be the text's."""
        if out is not None:
            return out
        rows = torch.zeros(len(hidden), SHAPE_DEMO.vocab_size)
        rows[:, self.text[PROMPT_TOKENS]] = 9.0
        return rows


class ScriptedRows:
    """Counts the rows that a scripted head has read."""

    length = 0

    def truncate(self, length: int) -> None:
        """Forget the rows from there on."""
        self.length = length


class ScriptedHead:
    """The MTP head of a text: every third proposal is wrong."""

    def __init__(self, text: Sequence[int]) -> None:
        self._text = text

    def new_state(self, _max_tokens: int) -> ScriptedRows:
        """No rows."""
        return ScriptedRows()

    def fill(self, _hidden: torch.Tensor, next_ids: Sequence[int], state: ScriptedRows) -> None:
        """Count rows."""
        state.length += len(next_ids)

    def expect(self, _rows: Sequence[torch.Tensor]) -> None:
        """Prepare nothing."""

    def draft(
        self,
        _rows: Sequence[torch.Tensor],
        next_ids: Sequence[int],
        state: ScriptedRows,
        number: int,
    ) -> list[int]:
        """Count the rows before the last and propose."""
        state.length += len(next_ids) - 1
        places = range(state.length + 2, state.length + 2 + number)
        return [self._text[at] if at % 3 else 0 for at in places]


def _text(num_tokens: int) -> tuple[int, ...]:
    """A text that copies from itself, with a new word now and then."""
    draw = random.Random(1)
    ids = [draw.randrange(3, 3000) for _ in range(PROMPT_TOKENS)]
    while len(ids) < num_tokens:
        at = draw.randrange(len(ids) - 64)
        ids += ids[at : at + draw.randrange(16, 64)]
        ids.append(draw.randrange(3, 3000))
    return tuple(ids[:num_tokens])


def _engine(device: ScriptedDevice, num_tokens: int) -> LocalEngine:
    """An engine around a small model whose rounds run by the script."""
    config = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4))
    packer = Packer(Launching((9, 0)))
    model = random_model(config, Formats(*("bf16",) * 5), device="cpu", packer=packer)
    assert isinstance(model, KernelModel)
    device.stand_in(model)
    tokenizer, verifier = Tokenizer.load(DEMO, config.vocab_size), RowsVerifier(model)
    table = shipped_prices(*PRICES)
    assert table is not None
    machine = Machine(
        model, tokenizer, verifier, RowsTraffic(config, model.weights.part_bytes), frozenset(),
        num_tokens + 64, 1, Routing(Prices(table, learns=False), 7),
    )  # fmt: skip
    info = EngineInfo(
        model="random", path="", profile="", device="cpu", num_parameters=1, weight_bytes=1,
        state_bytes=1, kv_bytes_per_token=1, max_context_tokens=num_tokens + 64, is_demo=True,
        default_sampling=GREEDY, supports_thinking=False, has_mtp=True, arithmetic="none",
        read_gb_s=1.0,
    )  # fmt: skip
    return LocalEngine(info, machine, ChatTemplate.load(DEMO, tokenizer), Drafting("mtp", 7))


if __name__ == "__main__":
    raise SystemExit(main())
