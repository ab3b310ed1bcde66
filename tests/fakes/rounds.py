"""A small model whose rounds are computed together, and what its state stands for in bits."""

from dataclasses import replace

import torch

from engine.model.config import SHAPE_DEMO, hybrid_layers
from engine.model.kernel_model import KernelModel
from engine.model.packing import Launching, Packer
from engine.model.random import random_model
from engine.model.round_state import RoundState
from engine.profile import Formats


def small_model(device: str) -> KernelModel:
    """Four random layers on the path of a GPU: on a CPU by the kernels' references."""
    config = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4), vocab_size=320)
    packer = Packer(Launching((9, 0), overlap=device == "cuda"))
    return random_model(config, Formats(*("bf16",) * 5), device=device, packer=packer)


def settled(state: RoundState) -> list[torch.Tensor]:
    """All that a state stands for, in its bits."""
    state.settle()
    kv = state.kv
    read = [one[:, :, : state.length].clone() for one in (kv.keys, kv.values)]
    return [state.recurrent.clone(), state.tails.clone(), *read, torch.tensor(state.length)]


def assert_equal(some, others) -> None:
    """The same bits, tensor by tensor."""
    assert all(map(torch.equal, some, others))
