"""Refuse a request that cannot be answered, before anything is computed."""

from engine.errors import RequestError, nearest
from engine.types import DRAFT_SHAPES, Request, Sampling

MOST_BIAS = 1e6
"""Beyond any logit: such a bias rules an id out, or all others."""


def check_request(request: Request, num_ids: int) -> None:
    """Look at everything in a request that needs no model.

    Args:
        request: what is asked.
        num_ids: ids that stand for anything.

    Raises:
        RequestError: a number is out of its range, a stop string is empty, a shape is unknown, or
            there is no prompt.
    """
    if request.max_tokens < 1:
        raise RequestError(f"'max_tokens' is {request.max_tokens}, expected 1 or more.")
    if request.num_draft_tokens is not None and request.num_draft_tokens < 0:
        raise RequestError(f"'num_draft_tokens' is {request.num_draft_tokens}, expected 0 or more.")
    if request.draft_shape not in DRAFT_SHAPES:
        raise RequestError(
            f"There is no shape '{request.draft_shape}' of drafts.",
            nearest(request.draft_shape, DRAFT_SHAPES),
        )
    if request.thinking_budget is not None and request.thinking_budget < 0:
        raise RequestError(f"'thinking_budget' is {request.thinking_budget}, expected 0 or more.")
    if "" in request.stop:
        raise RequestError("A stop string is empty.", "Leave it out.")
    if request.prompt_ids is None and not request.messages:
        raise RequestError("There is nothing to answer: no message and no ids.", "Send one.")
    _check_sampling(request.sampling)
    _check_bias(request.sampling, num_ids)


def check_prompt(
    ids: tuple[int, ...], vocab_size: int, max_context_tokens: int, model_context_tokens: int
) -> None:
    """Look at a prompt's ids.

    Args:
        ids: the prompt.
        vocab_size: ids that the model knows.
        max_context_tokens: positions that a conversation may have here.
        model_context_tokens: positions that the model was trained for; no setting goes beyond.

    Raises:
        RequestError: there are none, one is no token of the model, or they leave no room to answer.
    """
    if not ids:
        raise RequestError("The prompt holds no token.", "Write something to answer.")
    foreign = next((one for one in ids if not 0 <= one < vocab_size), None)
    if foreign is not None:
        raise RequestError(f"The prompt holds the id {foreign}, expected 0 to {vocab_size - 1}.")
    if len(ids) >= max_context_tokens:
        mend = "Shorten the prompt, or begin a new conversation."
        if max_context_tokens < model_context_tokens:
            mend = f"Raise model.context_tokens (up to {model_context_tokens}). {mend}"
        else:
            mend = f"The model holds no more. {mend}"
        raise RequestError(
            f"The prompt has {len(ids):,} tokens and the context {max_context_tokens:,}.", mend
        )


def _check_sampling(sampling: Sampling) -> None:
    bounds = {
        "temperature": (sampling.temperature, 0.0, 1e6),
        "top_k": (sampling.top_k, 0, 2**31),
        "top_p": (sampling.top_p, 0.0, 1.0),
        "min_p": (sampling.min_p, 0.0, 1.0),
        "presence_penalty": (sampling.presence_penalty, -1e6, 1e6),
        "repetition_penalty": (sampling.repetition_penalty, 1e-6, 1e6),
        "seed": (sampling.seed, 0, 2**63 - 1),
    }
    for name, (value, low, high) in bounds.items():
        if not low <= value <= high:  # true for NaN as well
            raise RequestError(f"'{name}' is {value}, expected {low} to {high}.")


def _check_bias(sampling: Sampling, num_ids: int) -> None:
    for token_id, bias in sampling.logit_bias:
        if not 0 <= token_id < num_ids:
            raise RequestError(
                f"'logit_bias' names the id {token_id}, expected 0 to {num_ids - 1}."
            )
        if not -MOST_BIAS <= bias <= MOST_BIAS:  # true for NaN as well
            raise RequestError(
                f"'logit_bias' of the id {token_id} is {bias}, expected {-MOST_BIAS:,.0f} to "
                f"{MOST_BIAS:,.0f}."
            )
