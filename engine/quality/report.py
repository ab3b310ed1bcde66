"""The report of a comparison: Markdown for a person, JSON values for a script."""

from collections.abc import Iterator
from dataclasses import asdict
from math import isfinite
from typing import Any, cast

from engine.machine.facts import machine_facts, now
from engine.quality.gate import Judged
from engine.quality.interval import CONFIDENCE
from engine.quality.repetition import NGRAMS, Repetition
from engine.quality.side import Casts
from engine.quality.verdict import BAR_NATS, CONFIDENT, TextFigures, Verdict, Written
from engine.sizes import size_text
from engine.types import EngineInfo

SHOWN_CHARACTERS = 240
"""Of a freely written answer, in the Markdown."""


def as_json(judged: Judged) -> dict[str, Any]:
    """Everything as JSON values; losses in nats, what is infinite or no number as None."""
    verdict = judged.verdict
    return {
        "date": now(),
        "passed": verdict.passed,
        "is_decided": verdict.is_decided,
        "failures": list(verdict.failures),
        "doubts": list(verdict.doubts),
        "bar_nats": BAR_NATS,
        "worse": verdict.worse.name,
        "confident_from": CONFIDENT,
        "confidence": CONFIDENCE,
        "texts": [_finite(asdict(one)) for one in verdict.texts],
        "written": [asdict(one) | {"candidate_is_worse": one.is_worse} for one in verdict.written],
        "reference": _side(judged.reference),
        "candidate": _side(judged.candidate),
        "is_one_model": judged.is_one_model,
        "e4m3_casts": _casts(judged),
        "machine": machine_facts(judged.reference.device),
    }


def as_markdown(judged: Judged) -> str:
    """The report to read, or to put beside a checkpoint."""
    return "\n".join(_lines(judged)) + "\n"


def _lines(judged: Judged) -> Iterator[str]:
    verdict = judged.verdict
    yield f"# Quality: {judged.candidate.model} against {judged.reference.model}"
    yield ""
    yield _decision(verdict)
    yield ""
    yield f"- reference: {_named(judged.reference)}"
    yield f"- candidate: {_named(judged.candidate)}"
    if judged.is_one_model:
        yield "- both sides served the same weights as they are stored: this compares nothing"
    yield f"- casts to e4m3 while reading: {' and '.join(map(_cast_text, judged.casts))}"
    yield ""
    yield (
        "| text | tokens | reference | candidate | difference, nats | same first choice | "
        f"where the reference is {CONFIDENT:.0%} sure | KL mean | KL 99 % |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    for one in verdict.texts:
        yield _row(one)
    if not verdict.written:
        return
    yield ""
    grams = " / ".join(str(n) for n in NGRAMS)
    yield f"| free answer | tokens | distinct {grams}-grams | longest loop |"
    yield "|---|--:|--:|--:|"
    for one in verdict.written:
        yield _repetition("reference", one.reference)
        yield _repetition("candidate", one.candidate)
    for one in verdict.written:
        yield ""
        yield f"Asked: {one.prompt} {_parting(one)}"
        yield ""
        yield f"> reference: {_cut(one.reference_text)}"
        yield ">"
        yield f"> candidate: {_cut(one.candidate_text)}"


def _parting(one: Written) -> str:
    if one.common_tokens is None:
        return "The answers are the same."
    return f"The answers part after {one.common_tokens} tokens."


def _decision(verdict: Verdict) -> str:
    if verdict.passed:
        worse = verdict.worse
        return (
            f"**passed.** The loss changes by {worse.difference.mean:+.4f} nats on {worse.name}, "
            f"where it rises most; the bar is {BAR_NATS:+.2f}."
        )
    word = "failed" if verdict.is_decided else "not decided"
    return f"**{word}.** {' '.join(verdict.failures or verdict.doubts)}"


def _row(one: TextFigures) -> str:
    half = one.difference.half
    bounds = f" ± {half:.4f}" if half < float("inf") else ""
    return (
        f"| {one.name} | {one.num_tokens:,} | {one.reference_loss:.4f} | {one.candidate_loss:.4f} "
        f"| {one.difference.mean:+.4f}{bounds} | {one.agreement:.2%} "
        f"| {one.confident_agreement:.2%} of {one.num_confident:,} | {one.divergence:.4f} "
        f"| {one.worst_divergence:.4f} |"
    )


def _repetition(label: str, one: Repetition) -> str:
    distinct = " / ".join(f"{share:.0%}" for share in one.distinct.values())
    loop = f"{one.loop_tokens} tokens of period {one.loop_period}" if one.loop_tokens else "none"
    return f"| {label} | {one.num_tokens} | {distinct} | {loop} |"


def _named(info: EngineInfo) -> str:
    return (
        f"{info.path} as '{info.profile}', {size_text(info.weight_bytes)} of weights held, "
        f"{info.arithmetic}"
    )


def _cut(text: str) -> str:
    one_line = " ".join(text.split())
    is_long = len(one_line) > SHOWN_CHARACTERS
    return one_line[:SHOWN_CHARACTERS] + (" ..." if is_long else "")


def _finite(value: Any) -> Any:  # noqa: ANN401  any JSON value
    """JSON has no sign for what is infinite or no number; None stands for it."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_finite(one) for one in cast("list[Any]", value)]
    return value


def _side(info: EngineInfo) -> dict[str, Any]:
    return {
        "model": info.model,
        "path": info.path,
        "profile": info.profile,
        "device": info.device,
        "weight_bytes": info.weight_bytes,
        "arithmetic": info.arithmetic,
    }


def _cast_text(one: Casts) -> str:
    told = "not counted (--count-casts)"
    if one.num_casts is not None:
        told = f"{one.num_casts:,} ({one.num_saturated:,} values too large)"
    if one.num_kept:
        told += f", keys and values {one.num_kept:,} ({one.num_kept_last:,} at the largest code)"
    return told


def _casts(judged: Judged) -> dict[str, Any]:
    names = ("reference", "candidate")
    return {name: asdict(one) for name, one in zip(names, judged.casts, strict=True)}
