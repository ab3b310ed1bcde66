"""State in plain torch how a token is chosen from its logits.

Penalties, then temperature, top-k, top-p, min-p, then one draw. A draw is `argmax(log p + g)` with
Gumbel noise `g` that is a pure function of (seed, position, token id): it does not know what was
drawn before, nor how the positions were cut into rounds, so a speculative round and plain decode
draw the same token.
"""

from dataclasses import dataclass

import torch

PHILOX_ROUNDS = 10
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Filters:
    """What narrows a distribution; the defaults narrow nothing.

    Attributes:
        temperature: divides the logits; 0 is greedy, whatever the rest says.
        top_k: keep the k most likely ids (the lowest ids among equals); 0 is off.
        top_p: keep the most likely ids until their mass reaches top_p, with the one that crosses;
            1 is off, 0 keeps the first.
        min_p: keep ids at least min_p times as likely as the most likely one; 0 is off.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


def sample_reference(
    logits: torch.Tensor, positions: torch.Tensor, filters: Filters, seed: int
) -> torch.Tensor:
    """Choose one id per row.

    Args:
        logits: fp32 [T, V], penalties already applied; -inf is never chosen, NaN is refused.
        positions: int64 [T]. Index of the chosen token in its context.
        filters: what narrows the distribution.
        seed: 0 to 2^63 - 1.

    Returns:
        int64 [T]. Equal scores go to the lowest id.

    Raises:
        ValueError: a row holds a NaN, +inf or nothing but -inf.

    Numerics:
        Greedy compares the fp32 logits. Otherwise probabilities, noise and scores are fp64; the
        noise's integer part has the same bits on every device, its two logarithms may differ in
        the last of 53 bits.
    """
    rows = zip(logits, positions, strict=True)
    return torch.stack([_sample_row(row, position, filters, seed) for row, position in rows])


def penalise_reference(
    logits: torch.Tensor,
    seen: torch.Tensor,
    generated: torch.Tensor,
    presence_penalty: float,
    repetition_penalty: float,
) -> torch.Tensor:
    """Make tokens that were there less likely.

    Args:
        logits: fp32 [V].
        seen: bool [V]. Ids in the prompt or the answer: a positive logit is divided by
            `repetition_penalty`, a negative one multiplied.
        generated: bool [V]. Ids in the answer: `presence_penalty` is subtracted.
        presence_penalty: 0 is off.
        repetition_penalty: above 0; 1 is off.

    Returns:
        fp32 [V], a new tensor.
    """
    scaled = torch.where(logits > 0, logits / repetition_penalty, logits * repetition_penalty)
    return torch.where(seen, scaled, logits) - presence_penalty * generated


def filter_reference(logits: torch.Tensor, filters: Filters) -> tuple[torch.Tensor, torch.Tensor]:
    """Narrow one row's distribution at a temperature above 0.

    Args:
        logits: fp32 [V].
        filters: what narrows it.

    Returns:
        The ids that are kept, int64, most likely first, lowest id first among equals; and their
        probabilities, fp64, one an id, which sum to 1.
    """
    num_kept = min(filters.top_k or len(logits), len(logits))
    lowest = logits.topk(num_kept).values[-1]
    candidates = ((logits >= lowest) & (logits > -torch.inf)).nonzero()[:, 0]
    ordered, order = logits[candidates].double().sort(descending=True, stable=True)
    ids = candidates[order[:num_kept]]
    probabilities = _at_temperature(ordered[:num_kept], filters.temperature)
    if filters.top_p < 1.0:
        mass_before = probabilities.cumsum(0) - probabilities
        kept = max(1, int((mass_before < filters.top_p).sum()))
        probabilities = probabilities[:kept]
    if filters.min_p > 0.0:
        kept = max(1, int((probabilities >= filters.min_p * probabilities[0]).sum()))
        probabilities = probabilities[:kept]
    return ids[: len(probabilities)], probabilities / probabilities.sum()


def gumbel_reference(seed: int, positions: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Draw the Gumbel noise of token ids at positions.

    Args:
        seed: 0 to 2^63 - 1.
        positions: int64, 0 or more, of a shape that broadcasts with `ids`.
        ids: int64, 0 or more.

    Returns:
        fp64 of the common shape, finite; an element depends on its seed, position and id alone.
    """
    words = philox_reference(seed, positions, ids)
    # 52 bits and a half: exact in fp64, never 0 and never 1
    bits = (words[0] >> 6) * 2**26 + (words[1] >> 6)
    uniform = (bits.double() + 0.5) * 2.0**-52
    return -torch.log(-torch.log(uniform))


def philox_reference(seed: int, positions: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Hash counters by Philox4x32-10 in int64 arithmetic.

    Args:
        seed: the key's two words, low first.
        positions: int64. Counter words 2 and 3, low first.
        ids: int64. Counter words 0 and 1, low first.

    Returns:
        int64, four words of 0 to 2^32 - 1 along a new first axis.

    Source:
        Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    ids, positions = torch.broadcast_tensors(ids, positions.to(ids.device))
    key = [seed & _WORD, (seed >> 32) & _WORD]
    counter = [ids & _WORD, ids >> 32, positions & _WORD, positions >> 32]
    for _ in range(PHILOX_ROUNDS):
        high0, low0 = _multiply_words(counter[0], _PHILOX_MULTIPLIERS[0])
        high1, low1 = _multiply_words(counter[2], _PHILOX_MULTIPLIERS[1])
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [(word + step) & _WORD for word, step in zip(key, _PHILOX_WEYL, strict=True)]
    return torch.stack(counter)


def _multiply_words(words: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Multiply 32-bit words to their high and low word without leaving 63 bits."""
    low_part = words * (factor & 0xFFFF)
    high_part = words * (factor >> 16) + (low_part >> 16)
    return high_part >> 16, ((high_part & 0xFFFF) << 16) | (low_part & 0xFFFF)


def _at_temperature(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Probabilities of fp64 logits [K], most likely first, that no temperature can overflow."""
    return torch.softmax((logits - logits[0]) / temperature, dim=0)


def _sample_row(
    logits: torch.Tensor, position: torch.Tensor, filters: Filters, seed: int
) -> torch.Tensor:
    top = logits.max()
    if not torch.isfinite(top):
        raise ValueError(
            f"the logits of position {int(position)} have no finite maximum: {float(top):g}"
        )
    if filters.temperature == 0.0:
        return (logits == top).nonzero()[0, 0]
    ids, probabilities = filter_reference(logits, filters)
    scores = probabilities.log() + gumbel_reference(seed, position, ids)
    return ids[scores == scores.max()].min()
