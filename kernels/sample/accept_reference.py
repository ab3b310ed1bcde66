"""State in plain Python how a verified tree is walked."""

from collections.abc import Mapping

import torch

GOES_ON, STOPPED, SPENT, BROKEN = range(4)
"""Finish codes: the turn goes on; a stop id; no budget left; a row without a sound logit."""


def accept_reference(
    chosen: torch.Tensor, parents: torch.Tensor, buffers: Mapping[str, torch.Tensor]
) -> None:
    """Do what `accept` does, on buffers by the names of `AcceptBuffers`."""
    choices, tokens = chosen.tolist(), buffers["row_ids"].tolist()
    children: list[list[int]] = [[] for _ in choices]
    for row in range(1, len(choices)):
        children[int(parents[row])].append(row)
    stops = set(buffers["stop_ids"][: int(buffers["num_stop_ids"])].tolist())
    budget = int(buffers["budget"])

    path: list[int] = []
    accepted = tested = 0
    row, finish = 0, GOES_ON if budget > 0 else SPENT
    while finish == GOES_ON:
        token = choices[row]
        if token < 0:
            finish = BROKEN
            break
        path.append(row)
        agreeing = [child for child in children[row] if tokens[child] == token]
        tested += bool(children[row])
        accepted += bool(agreeing)
        if token in stops:
            finish = STOPPED
        elif len(path) >= budget:
            finish = SPENT
        elif agreeing:
            row = agreeing[0]
        else:
            break
    _write(buffers, path, [choices[row] for row in path], (accepted, tested, finish))


def _write(
    buffers: Mapping[str, torch.Tensor],
    path: list[int],
    committed: list[int],
    counts: tuple[int, int, int],
) -> None:
    num = len(path)
    start = int(buffers["start"]) + num
    buffers["start"].fill_(start)
    buffers["parity"].fill_(1 - int(buffers["parity"]))
    buffers["budget"].sub_(num)
    buffers["num_pending"].fill_(num)
    behind = [0] * (32 - num)
    buffers["pending_rows"].copy_(torch.tensor(path + behind))
    if committed:
        buffers["row_ids"][0] = committed[-1]
    buffers["result"][:5] = torch.tensor([num, *counts, start])
    buffers["result"][16:] = torch.tensor(committed + behind + path + behind)
