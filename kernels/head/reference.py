"""State the choices from logits in plain torch."""

import torch


def eligible_reference(
    logits: torch.Tensor, num_ids: int, id_map: torch.Tensor, banned: torch.Tensor
) -> torch.Tensor:
    """Set the logits of ids that may not win to -inf.

    Args:
        logits: fp32 [T, V].
        num_ids: ids from here on may not win.
        id_map: int [V], token id of each column.
        banned: int [any], token ids that may not win.

    Returns:
        fp32 [T, V].
    """
    allowed = (id_map < num_ids) & ~torch.isin(id_map, banned)
    return torch.where(allowed, logits, -torch.inf)


def argmax_reference(
    logits: torch.Tensor, num_ids: int, id_map: torch.Tensor, banned: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Choose the id of the largest logit of each row, the lowest id among equals.

    Args:
        logits: fp32 [T, V].
        num_ids: ids from here on may not win.
        id_map: int [V], token id of each column.
        banned: int [any], token ids that may not win.

    Returns:
        int32 [T], -1 where the largest logit is not finite or a NaN is among them; and the
        natural logarithm of its probability among the ids that may win, fp32 [T], NaN there.
    """
    left = eligible_reference(logits, num_ids, id_map, banned)
    best = left.amax(1, keepdim=True)
    token = torch.where(left == best, id_map.long(), torch.iinfo(torch.int64).max).amin(1)
    sound = best[:, 0].isfinite()  # amax hands a NaN on
    logprob = best[:, 0].double() - left.double().logsumexp(1)
    ids = torch.where(sound, token, -1).int()
    return ids, torch.where(sound, logprob, torch.nan).float()


def topk_reference(logits: torch.Tensor, num_ids: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the k largest logits of each row, descending, the lowest id first among equals.

    Args:
        logits: fp32 [T, V].
        num_ids: columns that may be taken, from the first on.
        k: how many.

    Returns:
        fp32 [T, k], -inf where a row has fewer, and int32 [T, k], -1 there. NaN and -1 throughout
        a row that holds a NaN or whose largest logit is not finite.
    """
    left = torch.full((len(logits), max(k, logits.shape[1])), -torch.inf, device=logits.device)
    left[:, :num_ids] = logits[:, :num_ids]
    values, ids = left.sort(dim=1, descending=True, stable=True)
    values, ids = values[:, :k], ids[:, :k].int()
    ids = torch.where(values == -torch.inf, -1, ids)
    sound = left.amax(1, keepdim=True).isfinite()
    return torch.where(sound, values, torch.nan), torch.where(sound, ids, -1)
