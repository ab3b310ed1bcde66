"""Two checkpoints are compared one after the other; a damaged one fails the bar, itself passes."""

import gc
import json
import math
import shutil
import threading
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import CancelledError, CheckpointError, RequestError
from engine.locate import Choice
from engine.model import decoder
from engine.profile import load_profiles, profile_folder
from engine.quality import gate
from engine.quality.gate import judge
from engine.quality.interval import Interval
from engine.quality.report import as_json, as_markdown
from engine.quality.side import Casts, Source
from engine.quality.texts import Talks, Text, read_talks, read_text, shipped_texts, texts_for
from engine.settings.declared import ModelSettings, Settings
from engine.text.tokenizer import Tokenizer
from tests.engine.model.checkpoints import TINY, random_tensors, write_checkpoint
from tests.fakes.model import write_text_files

ROOT = Path(__file__).resolve().parents[3]
CONFIG = replace(TINY, vocab_size=320, eos_ids=(302,))
SETTINGS = Settings(model=ModelSettings(device="cpu", threads=1))
TEXTS = (Text("one", "the quick brown fox " * 24), Text("other", "def f(x): return x\n" * 24))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The same model as it is, moved by a little, and another one."""
    root, tensors = tmp_path_factory.mktemp("models"), random_tensors(CONFIG)
    draws = torch.Generator().manual_seed(1)
    forms = {
        "right": tensors,
        "near": {
            name: (one * (1 + 0.002 * torch.randn(one.shape, generator=draws))).bfloat16()
            for name, one in tensors.items()
        },
        "wrong": tensors | {"lm_head.weight": 30 * tensors["lm_head.weight"].roll(1, 0)},
    }
    for name, form in forms.items():
        write_text_files(write_checkpoint(root / name, CONFIG, tensors=form))
    return root


def source(folder, profile: str = "bf16") -> Source:
    return Source(Choice(folder, load_profiles()[profile], is_demo=False), SETTINGS)


def compared(reference, candidate, texts=TEXTS, **changed):
    stop = changed.pop("stop", threading.Event())
    given = {"answer_tokens": 12, "progress": lambda _: None} | changed
    return judge(reference, candidate, texts, stop=stop, **given)


def test_a_checkpoint_passes_against_itself_and_a_near_one_nearly_so(folders):
    same = compared(source(folders / "right"), source(folders / "right"))
    assert same.verdict.passed
    assert [one.difference.mean for one in same.verdict.texts] == [0, 0]
    assert all(one.common_tokens is None for one in same.verdict.written)
    near = compared(source(folders / "right"), source(folders / "near"))
    assert near.verdict.passed
    assert 0 < abs(near.verdict.worse.difference.mean) < 0.05
    assert all(0 < one.divergence < 0.05 for one in near.verdict.texts)


def test_a_wrong_one_fails_with_the_text_and_the_figure(folders):
    judged = compared(source(folders / "right"), source(folders / "wrong"))
    assert not judged.verdict.passed
    worse = judged.verdict.worse
    assert worse.difference.mean == max(one.difference.mean for one in judged.verdict.texts)
    assert f"{worse.difference.mean:+.4f} ± " in judged.verdict.failures[0]
    assert f" nats on {worse.name}, more than +0.05" in judged.verdict.failures[0]
    assert judged.verdict.texts[0].agreement < 0.5


def test_a_text_too_short_to_decide_is_said_to_be(folders):
    short = (Text("short", "the quick"),)
    judged = compared(source(folders / "right"), source(folders / "near"), short)
    assert (judged.verdict.passed, judged.verdict.failures) == (False, ())
    assert "\n\n**not decided.** The loss changes by " in as_markdown(judged)
    told = as_json(judged)
    assert (told["passed"], told["is_decided"], len(told["doubts"])) == (False, False, 1)


def test_two_profiles_of_one_checkpoint_are_two_sides(folders):
    judged = compared(source(folders / "right"), source(folders / "right", "fp8"))
    assert (judged.reference.profile, judged.candidate.profile) == ("bf16", "fp8")
    assert judged.verdict.worse.difference.mean == 0


def test_one_model_is_gone_before_the_next_is_there(folders, monkeypatch):
    alive: list[weakref.ref] = []
    known = decoder.Model.__init__

    def counted(self, *arguments):
        gc.collect()
        assert not any(one() for one in alive)
        alive.append(weakref.ref(self))
        known(self, *arguments)

    monkeypatch.setattr(decoder.Model, "__init__", counted)
    compared(source(folders / "right"), source(folders / "near"))
    assert len(alive) == 2


def test_nothing_saturates_while_a_third_of_the_demos_exchanges_is_read():
    """Keys and values in 8 bits are the one cast of a CPU; their scales come from other text."""
    (talks,) = texts_for(is_demo=True)
    assert isinstance(talks, Talks)
    some = replace(talks, pairs=talks.pairs[::3])
    choice = Choice(profile_folder() / "demo", load_profiles()["demo"], is_demo=True)
    coded = replace(SETTINGS, model=replace(SETTINGS.model, kv="fp8"))
    sides = (Source(choice, SETTINGS), Source(choice, coded))
    judged = compared(*sides, (some,), answer_tokens=0, count_casts=True)
    plain, kept = judged.casts
    assert plain == Casts(0, 0)
    assert kept.num_casts > 100
    assert kept.num_kept > 400_000
    assert (kept.num_saturated, kept.num_kept_last) == (0, 0)
    assert f"{kept.num_casts:,} (0 values too large)" in as_markdown(judged)
    assert as_json(judged)["e4m3_casts"]["candidate"]["num_kept_last"] == 0


def test_nothing_is_cast_to_e4m3_while_the_shipped_texts_are_read(folders):
    texts = [Text(one.name, one.body[:1200]) for one in shipped_texts()]
    sides = (source(folders / "right"), source(folders / "right"))
    judged = compared(*sides, texts, answer_tokens=0, count_casts=True)
    assert judged.casts == (Casts(0, 0), Casts(0, 0))
    assert judged.verdict.written == ()


def test_the_report_holds_every_figure(folders):
    judged = compared(source(folders / "right"), source(folders / "wrong"))
    data = json.loads(json.dumps(as_json(judged), allow_nan=False))
    assert data["passed"] is False
    assert data["failures"]
    assert {one["name"] for one in data["texts"]} == {"one", "other"}
    assert data["texts"][0]["sha256"] == TEXTS[0].sha256
    text = as_markdown(judged)
    assert text.startswith("# Quality: wrong against right\n\n**failed.** The loss rises by +")
    assert "| one |" in text
    assert f"| {judged.verdict.texts[0].agreement:.2%} |" in text


def test_a_model_beside_itself_is_said_to_compare_nothing(folders):
    itself = compared(source(folders / "right"), source(folders / "right"))
    assert "the same weights as they are stored: this compares nothing" in as_markdown(itself)
    assert as_json(itself)["is_one_model"] is True
    other = replace(itself, candidate=replace(itself.candidate, weight_bytes=1))
    assert "compares nothing" not in as_markdown(other)
    assert as_json(other)["is_one_model"] is False


@pytest.fixture(scope="module")
def nan_folder(tmp_path_factory):
    tensors = random_tensors(CONFIG)
    tensors["model.language_model.norm.weight"][3] = 3e38  # its products are infinite
    folder = tmp_path_factory.mktemp("models") / "nan"
    return write_text_files(write_checkpoint(folder, CONFIG, tensors=tensors))


def test_a_candidate_of_no_numbers_fails_and_is_asked_nothing(folders, nan_folder):
    judged = compared(source(folders / "right"), source(nan_folder))
    assert judged.verdict.failures == ("The candidate's loss on one is no number.",)
    assert judged.verdict.written == ()
    assert "surer" not in as_markdown(judged)


def test_a_reference_of_no_numbers_is_refused_and_blames_no_candidate(folders, nan_folder):
    with pytest.raises(CheckpointError, match=r"reference's loss on one is no number.*/nan"):
        compared(source(nan_folder), source(folders / "right"))


def test_losses_that_are_no_numbers_stay_readable_json(folders):
    judged = compared(source(folders / "right"), source(folders / "right"))
    one = judged.verdict.texts[0]
    broken = replace(one, candidate_loss=math.nan, difference=Interval(math.nan, -1, math.inf))
    judged = replace(judged, verdict=replace(judged.verdict, texts=(broken,)))
    data = json.loads(json.dumps(as_json(judged), allow_nan=False))
    assert data["passed"] is False
    assert data["texts"][0]["difference"] == {"mean": None, "low": -1, "high": None}
    assert "nan" in as_markdown(judged)


def test_a_candidate_with_another_tokenizer_is_refused(folders, tmp_path):
    shutil.copytree(folders / "right", tmp_path / "other")
    path = tmp_path / "other" / "tokenizer.json"
    definition = json.loads(path.read_text())
    vocabulary = definition["model"]["vocab"]
    vocabulary["f"], vocabulary["q"] = vocabulary["q"], vocabulary["f"]
    path.write_text(json.dumps(definition))
    with pytest.raises(RequestError, match="tokenizer reads the text 'one' as other tokens"):
        compared(source(folders / "right"), source(tmp_path / "other"))


def test_a_candidate_that_does_not_open_is_refused_before_the_reference_is_read(folders, tmp_path):
    shutil.copytree(folders / "right", tmp_path / "cut")
    weights = min((tmp_path / "cut").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1])
    said = []
    with pytest.raises(CheckpointError, match="cut"):
        compared(source(folders / "right"), source(tmp_path / "cut"), progress=said.append)
    assert said == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"answer_tokens": 5000}, "answers of 5000 tokens"),
        ({"window_tokens": 5000}, "Windows of 5000 tokens"),
        ({"texts": (Text("short", "a"),)}, "'short' has no token to predict"),
        ({"texts": (Talks("none", (("why?", ""),)),)}, "'none' has no token to predict"),
    ],
)
def test_what_cannot_be_measured_is_refused(folders, changed, said):
    with pytest.raises(RequestError, match=said):
        compared(source(folders / "right"), source(folders / "right"), **changed)


def test_it_can_be_stopped(folders):
    stop = threading.Event()
    with pytest.raises(CancelledError):
        compared(
            source(folders / "right"), source(folders / "right"), stop=stop,
            progress=lambda _: stop.set(),
        )  # fmt: skip


def test_the_context_is_what_the_gate_needs_not_what_a_chat_has(folders):
    wide = replace(SETTINGS, model=replace(SETTINGS.model, context_tokens=1_000_000))
    narrowed = gate._narrowed(replace(source(folders / "right"), settings=wide))
    assert narrowed.settings.model.context_tokens == gate.CONTEXT_TOKENS


def test_answers_are_predicted_as_a_chat_would_write_them(folders):
    talks = Talks("talks", (("what is ice?", "a river"), ("hello", "hello there")))
    judged = compared(source(folders / "right"), source(folders / "wrong"), (talks,))
    (one,) = judged.verdict.texts
    assert (one.name, one.sha256) == ("talks", talks.sha256)
    tokenizer = Tokenizer.load(folders / "right", 320)
    lengths = [len(tokenizer.encode(answer, control=False)) for _, answer in talks.pairs]
    assert one.num_tokens == sum(lengths)


def test_the_demo_is_measured_on_exchanges_and_others_on_prose_and_code():
    assert texts_for(is_demo=False) == shipped_texts()
    (talks,) = texts_for(is_demo=True)
    assert len(talks.pairs) > 40
    taught = "".join(one.read_text("utf-8") for one in (ROOT / "scripts/demo").glob("*.txt"))
    assert not [answer for _, answer in talks.pairs if answer in taught]


@pytest.mark.parametrize(
    "lines", ["Q: one\nQ: two\nA: three", "Q: one", "one\nA: two", "Q: one\nA: two\nthree"]
)
def test_exchanges_without_their_answer_are_refused(tmp_path, lines: str):
    (tmp_path / "talks").write_text(lines)
    with pytest.raises(RequestError, match="Write a line 'Q: question' and a line 'A: answer'"):
        read_talks(tmp_path / "talks")


def test_the_shipped_texts_are_long_enough_for_a_narrow_interval():
    prose, code = shipped_texts()
    assert (prose.name, code.name) == ("prose", "code")
    assert len(prose.body) > 9000
    assert len(code.body) > 9000


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"\xff\xfe", "no UTF-8: byte 0 is 0xff"), (b" \n", "holds no text"), (None, "does not read")],
)
def test_a_text_of_ones_own_that_does_not_read_is_refused(tmp_path, raw, said):
    path = tmp_path / "text.txt"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(RequestError, match=said):
        read_text(path)
