"""What a DFlash2 drafter proposes, written down once more: float64, one row and one head at a time.

From section 7.1 of the project's sheet on the model; shares no code with the engine.
"""

import math

import torch

from engine.dflash.config import DflashConfig


def block_scores(
    config: DflashConfig,
    values: dict[str, torch.Tensor],
    embedding: torch.Tensor,
    head: torch.Tensor,
    tapped: torch.Tensor,
    token_id: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of each place, and what the selector's parts are made of.

    Args:
        config: the drafter's numbers.
        values: its tensors by name.
        embedding: [V, D] of the target.
        head: [V, D] of the target.
        tapped: [p, layers * D], what the target left at positions 0 to p - 1.
        token_id: the token of position p.

    Returns:
        float64 [places, V] logits, and float64 [places, rank] projected hidden states.
    """
    w = {name: one.double() for name, one in values.items()}
    context = norm(tapped.double() @ w["fc.weight"].T, w["hidden_norm.weight"], config)
    start = len(tapped)
    ids = [token_id] + [config.mask_id] * (config.block_size - 1)
    x = embedding[ids].double()
    for index in range(config.num_layers):
        layer = {
            name.removeprefix(f"layers.{index}."): one
            for name, one in w.items()
            if name.startswith(f"layers.{index}.")
        }
        normed = norm(x, layer["input_layernorm.weight"], config)
        before, behind = kernels(normed, layer, "attention_conv", config)
        mixed = attention(convolved(normed, before), context, start, layer, config)
        x = x + convolved(mixed, behind)
        normed = norm(x, layer["post_attention_layernorm.weight"], config)
        before, behind = kernels(normed, layer, "mlp_conv", config)
        inner = convolved(normed, before)
        gate, up = inner @ layer["mlp.gate_proj.weight"].T, inner @ layer["mlp.up_proj.weight"].T
        fed = (gate * torch.sigmoid(gate) * up) @ layer["mlp.down_proj.weight"].T
        x = x + convolved(fed, behind)
    hidden = norm(x, w["norm.weight"], config)[1:]
    projected = hidden @ w["candidate_selector.hidden_projection.weight"].T
    return hidden @ head.double().T, projected


def followed(
    values: dict[str, torch.Tensor], projected: torch.Tensor, before: int, ids: list[int]
) -> torch.Tensor:
    """What a place's candidates gain behind a token: <predecessor * projected, successor>."""
    predecessor = values["candidate_selector.predecessor_codebook"][before].double()
    successors = values["candidate_selector.successor_codebook"][ids].double()
    return successors @ (predecessor * projected)


def norm(x: torch.Tensor, weight: torch.Tensor, config: DflashConfig) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + config.rms_norm_eps).sqrt() * weight


def kernels(normed, layer, name, config) -> list[list[torch.Tensor]]:
    """For both sides: for each row the kernel [taps, D]."""
    delta = normed @ layer[f"{name}.kernel_projection.weight"].T
    groups = config.hidden_size // config.conv_group
    sides: list[list[torch.Tensor]] = [[], []]
    for row in delta:
        by_side = row.reshape(2, config.conv_taps, groups)
        for side in (0, 1):
            wide = by_side[side].repeat_interleave(config.conv_group, -1)
            sides[side].append(layer[f"{name}.base_kernel"][side] + wide)
    return sides


def convolved(x: torch.Tensor, kernel: list[torch.Tensor]) -> torch.Tensor:
    out = torch.zeros_like(x)
    for t in range(len(x)):
        for tap in range(len(kernel[t])):
            if t - tap >= 0:
                out[t] += kernel[t][tap] * x[t - tap]
    return out


def rotated(x: torch.Tensor, position: int, config: DflashConfig) -> torch.Tensor:
    half = config.head_dim // 2
    angles = position * config.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    left, right = x[..., :half], x[..., half:]
    return torch.cat(
        (left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()), -1
    )


def attention(x, context, start, layer, config) -> torch.Tensor:
    size = (-1, config.head_dim)

    def keys_of(row: torch.Tensor, position: int) -> torch.Tensor:
        key = (row @ layer["self_attn.k_proj.weight"].T).reshape(size)
        return rotated(norm(key, layer["self_attn.k_norm.weight"], config), position, config)

    rows = [*context, *x]
    keys = [keys_of(row, position) for position, row in enumerate(rows)]
    values = [(row @ layer["self_attn.v_proj.weight"].T).reshape(size) for row in rows]
    out: list[torch.Tensor] = []
    for offset, row in enumerate(x):
        position = start + offset
        query = (row @ layer["self_attn.q_proj.weight"].T).reshape(size)
        query = norm(query, layer["self_attn.q_norm.weight"], config)
        query = rotated(query, position, config)
        near = [one for one in range(len(rows)) if abs(one - position) < config.window]
        heads: list[torch.Tensor] = []
        for head in range(config.num_heads):
            group = head // (config.num_heads // config.num_kv_heads)
            scores = torch.stack([keys[one][group] @ query[head] for one in near])
            shares = (scores / math.sqrt(config.head_dim)).softmax(0)
            heads.append(shares @ torch.stack([values[one][group] for one in near]))
        out.append(torch.cat(heads))
    return torch.stack(out) @ layer["self_attn.o_proj.weight"].T
