"""``/think`` for both front ends: let the model think before it answers, or not."""

from app.live import LiveSettings
from engine.types import EngineInfo


def think(live: LiveSettings, argument: str, info: EngineInfo | None) -> str:
    """Set thinking to ``argument``, else the other way; returns what to say.

    Raises:
        SettingsError: ``argument`` is neither on nor off.
    """
    is_on = live.settings.chat.thinking
    said = live.set("chat.thinking", argument or ("off" if is_on else "on"))
    if info is not None and not info.supports_thinking:
        said += " This model does not think before it answers."
    return said
