"""Read what is added to logits: ``ID:NUMBER`` between commas."""

from engine.errors import SettingsError
from engine.settings.numbers import real_number, whole_number


def parse_bias(text: str) -> tuple[tuple[int, float], ...]:
    """Read ``ID:NUMBER`` between commas.

    Raises:
        SettingsError: there is something else, or an id stands twice.
    """
    pairs: dict[int, float] = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        token, _, number = one.partition(":")
        try:
            token_id, bias = whole_number(token), real_number(number)
        except ValueError:
            raise SettingsError(
                f"'sampling.logit_bias' holds '{one}', expected ID:NUMBER.",
                "Write pairs between commas, such as 11:-100,13:2.5.",
            ) from None
        if token_id in pairs:
            raise SettingsError(
                f"'sampling.logit_bias' names the id {token_id} twice.", "Name each id once."
            )
        pairs[token_id] = bias
    return tuple(sorted(pairs.items()))
