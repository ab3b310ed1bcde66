"""What a person should know about how a checkpoint's weights, keys and values are served."""

from dataclasses import fields

from engine.compute_path import ComputePath
from engine.locate import Choice
from engine.model.checkpoint import Checkpoint
from engine.profile import Formats
from engine.types import KvFormat


def notices_of(
    choice: Choice,
    checkpoint: Checkpoint,
    path: ComputePath | None = None,
    kv: KvFormat = "bf16",
) -> tuple[str, ...]:
    """What a person should know about how these weights are served; without a path on the CPU."""
    path = path or ComputePath()
    notices = [*choice.notices, formats_notice(choice, checkpoint)]
    if checkpoint.num_unused:
        notices.append(
            f"{choice.path} holds {checkpoint.num_unused} scales of activations; they are not "
            "used, since activations are BF16 here."
        )
    if checkpoint.kv_scales and kv == "bf16":
        notices.append(
            f"{choice.path} holds {len(checkpoint.kv_scales)} scales of keys and values in 8 bits; "
            "they are used where model.kv is 'fp8'."
        )
    notices += [path.rehearsal, path.why_not]
    if not path.is_packed and not choice.is_demo:
        notices.append(_reference_notice(checkpoint))
    if choice.profile.drafting.drafter == "mtp" and not checkpoint.has_mtp:
        notices.append(f"{choice.path} has no MTP head, so that the drafter 'auto' is 'off'.")
    return tuple(one for one in notices if one)


def formats_notice(choice: Choice, checkpoint: Checkpoint) -> str:
    """In which formats each part is stored; empty where they are the profile's own."""
    formats = choice.profile.formats
    told: list[str] = []
    differing: list[str] = []
    by_part = checkpoint.part_formats
    for part in (one.name for one in fields(Formats) if one.name in by_part):
        found = by_part[part]
        told.append(f"{part} {' and '.join(f'{name} ({n})' for name, n in found.most_common())}")
        expected: str = getattr(formats, part)
        if set(found) != {expected}:
            differing.append(f"{part} {expected}")
    if not differing:
        return ""
    return (
        f"{choice.named} stores {', '.join(told)} matrices, where the profile "
        f"'{choice.profile.name}' expects {', '.join(differing)}; they are served as they are "
        "stored."
    )


def _reference_notice(checkpoint: Checkpoint) -> str:
    stored = {one.format for one in checkpoint.weights.values()}
    held = ""
    if "nvfp4" in stored:
        held = ", and weights of 4 and 8 bits are held as BF16, up to four times their bytes"
    elif stored != {"bf16"}:
        held = ", and 8-bit weights are held as BF16, twice their bytes"
    return f"The reference path is in use: every token reads all weights{held}."
