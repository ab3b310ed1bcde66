"""Render conversations by the checkpoint's chat template, in a process that cannot harm."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from engine.errors import CheckpointError, RequestError, TemplateError, nearest
from engine.model.config_file import MAX_CONFIG_BYTES
from engine.model.plain_file import AGAIN, read_bounded
from engine.model.strict_json import read_object
from engine.text.sandbox import Renderer
from engine.text.tokenizer import Tokenizer
from engine.types import Message

EFFORTS = ("low", "medium", "xhigh")
EFFORT_ALIASES = {"high": "xhigh", "max": "xhigh", "minimal": "low"}
"""What other programs call the levels; the template raises on these names."""

ROLES = ("system", "user", "assistant")
MAX_TEMPLATE_BYTES = 1 << 20
"""The template of the 27B has 9 kB."""

TOKEN_NAMES = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a turn asks of a model that can think; others ignore it."""

    enabled: bool = True
    effort: str | None = None

    def variables(self) -> dict[str, object]:
        """The names under which templates read it.

        Raises:
            RequestError: the effort is unknown.
        """
        if self.effort is None:
            return {"enable_thinking": self.enabled}
        effort = EFFORT_ALIASES.get(self.effort, self.effort)
        if effort not in EFFORTS:
            known = (*EFFORTS, *EFFORT_ALIASES)
            raise RequestError(
                f"The effort '{self.effort}' is unknown.", nearest(self.effort, known)
            )
        return {"enable_thinking": self.enabled, "reasoning_effort": effort}


class ChatTemplate:
    """A checkpoint's chat template.

    Renderings are guarded (``engine.text.tokenizer``): what messages hold is text, never control
    tokens.

    Attributes:
        supports_thinking: whether the template reads ``enable_thinking``.
    """

    def __init__(self, source: str, tokens: dict[str, str], tokenizer: Tokenizer) -> None:
        self._source = source
        self._tokens = tokens
        self._tokenizer = tokenizer
        self._renderer = Renderer()
        self.supports_thinking = "enable_thinking" in source and tokenizer.think_open_id is not None

    @classmethod
    def load(cls, folder: Path, tokenizer: Tokenizer) -> "ChatTemplate":
        """Read ``chat_template.jinja``, or the template in ``tokenizer_config.json``.

        Raises:
            CheckpointError: there is none, or a file does not read.
        """
        config_path = folder / "tokenizer_config.json"
        config = read_object(config_path, MAX_CONFIG_BYTES) if config_path.exists() else {}
        tokens = {name: _token_text(config.get(name)) for name in TOKEN_NAMES}
        path = folder / "chat_template.jinja"
        try:
            source = read_bounded(path, MAX_TEMPLATE_BYTES).decode("utf-8")
        except FileNotFoundError:
            source = _named_template(config.get("chat_template"))
        except (OSError, UnicodeDecodeError) as problem:
            raise CheckpointError(f"{path} does not read: {problem}.", AGAIN) from None
        if not source:
            raise CheckpointError(
                f"{folder} holds no chat template.",
                "Download chat_template.jinja of the checkpoint into it.",
            )
        return cls(source, tokens, tokenizer)

    def start(self) -> None:
        """Start the rendering process beside whatever comes next."""
        self._renderer.start()

    def compile(self) -> None:
        """See whether the template is one, before a conversation needs it.

        Raises:
            CheckpointError: it does not compile.
        """
        try:
            self._renderer.render(self._source, None)
        except TemplateError as problem:
            raise CheckpointError(
                problem.message, "Download chat_template.jinja of the checkpoint again."
            ) from None

    def render(self, messages: Sequence[Message], thinking: Thinking, *, prompt: bool) -> str:
        """Render a conversation to guarded text.

        Args:
            messages: in order; ``reasoning`` goes to the template as ``reasoning_content``.
            thinking: of the turn to come.
            prompt: end with the opening of an assistant turn.

        Raises:
            TemplateError: the template refuses, or does what a template may not.
            RequestError: a role or the effort is unknown.
        """
        variables: dict[str, object] = {
            **self._tokens,
            **thinking.variables(),
            "messages": [self._as_template_reads(one) for one in messages],
            "add_generation_prompt": prompt,
            "tools": None,
            "documents": None,
        }
        return self._renderer.render(self._source, variables)

    def close(self) -> None:
        """End the rendering process."""
        self._renderer.close()

    def _as_template_reads(self, message: Message) -> dict[str, str]:
        if message.role not in ROLES:
            raise RequestError(
                f"The role '{message.role}' is unknown.", nearest(message.role, ROLES)
            )
        entry = {"role": message.role, "content": self._tokenizer.guard(message.content)}
        if message.reasoning:
            entry["reasoning_content"] = self._tokenizer.guard(message.reasoning)
        return entry


def _token_text(value: object) -> str:
    """A token as tokenizer_config.json writes it: text, or an object with its content."""
    if isinstance(value, dict):
        value = cast("dict[str, object]", value).get("content")
    return value if isinstance(value, str) else ""


def _named_template(value: object) -> str:
    """The template as tokenizer_config.json writes it: text, or a list of named ones."""
    if isinstance(value, list):
        for one in cast("list[object]", value):
            named = cast("dict[str, object]", one) if isinstance(one, dict) else {}
            if named.get("name") == "default":
                value = named.get("template")
    return value if isinstance(value, str) else ""
