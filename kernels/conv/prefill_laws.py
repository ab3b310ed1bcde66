"""State the laws of many rows' convolution: cut or padded, it is the same, and a round's."""

import torch

from kernels.common import interpreter
from kernels.common.family import Law
from kernels.common.tree import plan_chain
from kernels.conv.laws import first_difference
from kernels.conv.prefill import conv_prefill
from kernels.conv.rounds import Layer, Rounds, small_layer


def _prefill(
    layer: Layer,
    x: torch.Tensor,
    ab: torch.Tensor,
    tail: torch.Tensor,
    length: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    """Run conv_prefill into views of one tensor; the tail is written in place."""
    half = layer.key_heads * layer.width
    y = torch.full_like(x, torch.nan)
    g = torch.full((len(x), layer.value_heads), torch.nan, device=x.device)
    beta = x.new_full((len(x), layer.value_heads), torch.nan)
    parts = (
        part.unflatten(1, (-1, layer.width))
        for part in y.split((half, half, x.shape[1] - 2 * half), 1)
    )
    q, k, v = parts
    conv_prefill(
        x, ab, layer.weight, layer.decay_rate, layer.dt_bias, tail, q=q, k=k, v=v, g=g, beta=beta,
        tail_out=tail, length=length,
    )  # fmt: skip
    return {"q": q, "k": k, "v": v, "g": g, "beta": beta, "tail": tail}


def _cut_changes_bits(device: str) -> str | None:
    """Compare a prefill cut anywhere, its tail in place, with the whole.

    The log decay is left out for torch, whose vector loops give an element other bits at another
    place: a CPU prefill repeats its cuts, as the engine does.
    """
    layer = small_layer(device, 2)
    x, ab = layer.rows(70)
    tail = layer.draw(3, layer.channels)
    whole = _prefill(layer, x, ab, tail.clone())
    names = ("q", "k", "v", "beta", "g")[: 5 if interpreter.on_kernels(x) else 4]
    for cuts in ((1, 69), (2, 1, 67), (16, 54), (1, 1, 1, 1, 66)):
        moving = tail.clone()
        parts = [
            _prefill(layer, some, gates, moving)
            for some, gates in zip(x.split(cuts), ab.split(cuts), strict=True)
        ]
        joined = {name: torch.cat([part[name] for part in parts]) for name in names}
        if fault := first_difference(joined | {"tail": moving}, whole, (*names, "tail")):
            return f"cut into {cuts}: {fault}"
    return None


def _padding_changes_bits(device: str) -> str | None:
    """Compare a prefill of rows behind which padding stands, NaN even, with one of the rows alone.

    Behind the rows all is zero, and the tail is theirs. The log decay as in `_cut_changes_bits`.
    """
    layer = small_layer(device, 5)
    names = ("q", "k", "v", "beta", "g")[: 5 if interpreter.on_kernels(layer.weight) else 4]
    for num_text in (1, 2, 3, 16, 40):
        x, ab = layer.rows(40)
        x[num_text:], ab[num_text:] = torch.nan, torch.nan
        tail = layer.draw(3, layer.channels)
        alone = _prefill(layer, x[:num_text], ab[:num_text], tail.clone())
        length = torch.tensor([num_text], dtype=torch.int32, device=device)
        padded = _prefill(layer, x, ab, tail, length)
        rest = {name: padded[name][num_text:] for name in ("q", "k", "v", "beta", "g")}
        if wrong := [name for name, rows in rest.items() if bool((rows != 0).any())]:
            return f"{num_text} of 40 rows: {wrong[0]} of the padding is not zero"
        text = {name: padded[name][:num_text] for name in names} | {"tail": padded["tail"]}
        if fault := first_difference(text, alone, (*names, "tail")):
            return f"{num_text} of 40 rows: {fault}"
    return None


def _prefill_differs_from_a_verify(device: str) -> str | None:
    """Compare v, beta and the next tail of a prefill with those of chains over rounds."""
    layer = small_layer(device, 3)
    x, ab = layer.rows(24)
    tail = layer.draw(3, layer.channels)
    rounds, parts = Rounds(layer, tail), []
    for some, gates in zip(x.split(8), ab.split(8), strict=True):
        parts.append(rounds.verify(some, gates, plan_chain(8).parents))
        rounds.accept(tuple(range(8)))
    whole = _prefill(layer, x, ab, tail)
    steps = {name: torch.cat([part[name] for part in parts]) for name in ("v", "beta")}
    steps["beta"] = steps["beta"].bfloat16()
    return first_difference(whole, steps, ("v", "beta"))


LAWS = (
    Law("a prefill may be cut anywhere, its tail in place", _cut_changes_bits),
    Law("padding behind a prefill's rows changes nothing", _padding_changes_bits),
    Law("a prefill has the values of a verify", _prefill_differs_from_a_verify),
)
