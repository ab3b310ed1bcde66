"""From what the person asked to a loaded engine, and from settings to a request.

Imports nothing heavy: the engine itself is imported when it is opened.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engine.locate import HOW_TO_GIVE, Choice, choose
from engine.profile import load_profiles
from engine.sampling import drawn_by
from engine.settings.bias import parse_bias
from engine.settings.declared import Settings
from engine.settings.load import load_settings
from engine.settings.registry import Resolved
from engine.types import ChatEngine, EngineInfo, LoadProgressed, Message, Request, Sampling

Opener = Callable[[Callable[[LoadProgressed], None], threading.Event], ChatEngine]
"""Opens the chosen model: given where progress goes and what cancels, returns the engine."""

DEMO_NOTICE = (
    "This is the small demo model: it shows how the program works and knows very little. "
    + HOW_TO_GIVE
)
"""What both front ends say when no real checkpoint is open."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be opened and with which settings."""

    settings: Settings
    sources: Mapping[str, Resolved]
    choice: Choice
    command_line: Mapping[str, object] = field(default_factory=dict[str, object])

    def open(
        self, on_progress: Callable[[LoadProgressed], None], cancel: threading.Event
    ) -> ChatEngine:
        """Load the model; raises `EngineError`."""
        from engine.open import open_engine

        return open_engine(self.choice, self.settings, on_progress, cancel)


def plan(command_line: Mapping[str, object], choice: Choice | None = None) -> Plan:
    """Resolve the settings, choose the model, and let its profile have its say.

    Args:
        command_line: values by full name.
        choice: what was chosen in another way, such as from the menu of profiles.

    Raises:
        EngineError: a setting, a profile or the model folder is wrong.
    """
    settings, _ = load_settings(command_line)
    choice = choice or choose(settings, load_profiles(settings.config_dir))
    settings, sources = load_settings(command_line, choice.profile.settings)
    return Plan(settings, sources, choice, command_line)


def sampling_of(settings: Settings, info: EngineInfo) -> Sampling:
    """How tokens are drawn: the settings where they speak, else what the checkpoint says.

    An empty seed becomes a fresh one, so that every turn can be repeated from its record.
    """
    ours = settings.sampling
    return replace(
        drawn_by(ours, info.default_sampling),
        seed=secrets.randbits(31) if ours.seed is None else ours.seed,
        logit_bias=parse_bias(ours.logit_bias),
    )


def request_of(settings: Settings, info: EngineInfo, messages: tuple[Message, ...]) -> Request:
    """One turn as the settings want it."""
    return Request(
        messages=messages,
        sampling=sampling_of(settings, info),
        max_tokens=settings.sampling.max_tokens,
        thinking=settings.chat.thinking and info.supports_thinking,
        thinking_budget=settings.chat.thinking_budget,
        effort=settings.chat.effort,
        exact_resume=settings.chat.resume == "exact",
        drafter=settings.draft.drafter,
        draft_shape=settings.draft.shape,
        num_draft_tokens=settings.draft.tokens,
    )
