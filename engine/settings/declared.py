"""Every setting there is. One section, one dataclass; one field, one setting."""

from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from engine.settings.bias import parse_bias
from engine.settings.registry import Setting, declared_settings, setting
from engine.types import DRAFT_SHAPES, DRAFTERS, KV_FORMATS
from kernels.common.round import MAX_ROWS

VIEWS = ("pane", "lines", "off")
"""How the chat shows its instruments, in the order that the key walks through."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which weights are opened."""

    dir: Path | None = setting(
        None,
        "folder of the checkpoint, or owner/name of one in the Hugging Face cache; empty looks for "
        "the releases there, then takes the demo",
        computes=True,
    )
    base: Path | None = setting(
        None,
        "folder of the release that part files are laid over, when model.dir holds nothing but "
        "parts; empty takes the FP8 release of the Hugging Face cache",
        computes=True,
    )
    profile: str | None = setting(
        None,
        "weight profile; empty takes the one that fits the checkpoint",
        computes=True,
    )
    device: str = setting(
        "auto",
        "where the model runs",
        choices=("auto", "cpu", "cuda"),
        computes=True,
    )
    threads: int = setting(
        0,
        "CPU threads; 0 takes one for a small model, else the physical cores",
        bounds=(0, 1024),
        computes=True,
    )
    hold: str = setting(
        "bf16",
        "how 4- and 8-bit weights are held where no GPU's kernels read them: widened once, or as "
        "stored and widened anew for every product, in less memory and slower; changes no bit",
        choices=("bf16", "stored"),
        computes=True,
    )
    kv: str | None = setting(
        None,
        "how keys and values are kept: bf16, or fp8, which halves what each token of context takes "
        "and reads and rounds both to 3 bits behind the point; empty takes the profile's",
        choices=KV_FORMATS,
        computes=True,
    )
    context_tokens: int = setting(
        32768, "longest conversation held", unit="tokens", bounds=(64, 1_000_000)
    )
    snapshot_mb: int | None = setting(
        None,
        "memory for points of a conversation to come back to (27B on a GPU: 157 MB each), so that "
        "an edit or another try reads less again; empty takes a quarter of what is free, at most "
        "4295 MB",
        unit="MB",
        bounds=(0, 1_000_000),
    )


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How tokens are chosen; empty means what the checkpoint's generation_config.json says."""

    temperature: float | None = setting(None, "0 is greedy", bounds=(0.0, 10.0), when="live")
    top_k: int | None = setting(None, "0 is off", bounds=(0, 1_000_000), when="live")
    top_p: float | None = setting(None, "1 is off", bounds=(0.0, 1.0), when="live")
    min_p: float | None = setting(None, "0 is off", bounds=(0.0, 1.0), when="live")
    presence_penalty: float | None = setting(None, "0 is off", bounds=(-10.0, 10.0), when="live")
    repetition_penalty: float | None = setting(None, "1 is off", bounds=(0.01, 10.0), when="live")
    seed: int | None = setting(
        None, "seed of the draws; empty takes a fresh one each turn", bounds=(0, 2**63 - 1),
        when="live",
    )  # fmt: skip
    logit_bias: str = setting(
        "", "added to logits, as ID:NUMBER between commas, such as 11:-100,13:2.5", when="live",
        check=parse_bias,
    )  # fmt: skip
    max_tokens: int = setting(
        2048, "longest answer", unit="tokens", bounds=(1, 1_000_000), when="live"
    )


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """Speculative decoding: changes speed, never text."""

    drafter: str = setting("auto", "who proposes tokens", choices=DRAFTERS, when="live")
    shape: str = setting(
        "auto",
        "proposals in a row, or branching where lookup finds several continuations; dflash2 "
        "branches when asked for trees, mtp proposes chains only",
        choices=DRAFT_SHAPES,
        when="live",
    )
    tokens: int | None = setting(
        None,
        "proposals a round; empty leaves it to the drafter (mtp 3, lookup 15, dflash2 a block, or "
        "15 in a tree); mtp makes at most 7",
        unit="tokens",
        bounds=(1, MAX_ROWS - 1),
        when="live",
    )
    dflash_dir: Path | None = setting(
        None,
        "folder of the weights of dflash2, loaded beside the model; empty loads them only when "
        "draft.drafter is dflash2 at the start, from the Hugging Face cache",
    )
    router: bool = setting(
        True,
        "let auto weigh mtp, lookup and a loaded dflash2 anew in every round, by what they bring "
        "and cost, on a GPU whose prices are known; off takes the profile's drafter",
    )


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """Which kernels run on a GPU; to compare one with another."""

    linear: str = setting(
        "auto",
        "the path on a GPU: skinny runs kernels over weights as stored, a round's rows together; "
        "reference runs row by row over BF16; auto takes skinny where it runs",
        choices=("auto", "skinny", "reference"),
        computes=True,
    )
    graphs: bool = setting(
        True,
        "launch a round as one captured graph, not kernel by kernel; changes no bit",
        computes=True,
    )
    commit_in_verify: bool = setting(
        True,
        "fold accepted rows into the state while the next round loads it, not in a pass of their "
        "own; changes no bit (the WY form of the delta rule would, and is not built)",
        computes=True,
    )
    overlap: bool | None = setting(
        None,
        "start a kernel before the one before it ends (dependent launch); changes no bit; empty "
        "where it was measured to pay, on Hopper",
        computes=True,
    )
    launches: str = setting(
        "auto",
        "whose launch choices kernels make: auto this GPU's own; sm_121 those of a GB10, to "
        "rehearse one on another GPU: the bits of rounds hold, times say nothing",
        choices=("auto", "sm_121"),
    )
    prefill: str = setting(
        "bf16",
        "what a prompt's chunks multiply: bf16 rows, or rows and 4-bit weights rounded to e4m3 for "
        "the FP8 tensor cores of a GPU, faster and less exact; answers are decoded as ever",
        choices=("bf16", "fp8"),
        computes=True,
    )


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The chat screen and the plain prompt."""

    system: str = setting("", "system prompt of new conversations", when="session")
    thinking: bool = setting(True, "let models that can think do so", when="live")
    thinking_budget: int | None = setting(
        None, "most tokens of thinking, then its end is forced; empty is no limit", unit="tokens",
        bounds=(0, 1_000_000), when="live",
    )  # fmt: skip
    resume: str = setting(
        "exact",
        "how an earlier conversation is read again: exact computes each token as it was computed, "
        "to the same bits; fast reads all of it as a prompt",
        choices=("exact", "fast"),
        when="live",
    )
    effort: str | None = setting(
        None, "thinking effort", choices=("low", "medium", "xhigh"), when="live"
    )
    show_thinking: str = setting(
        "live", "how thinking is shown", choices=("live", "open", "folded", "hidden"), when="live"
    )
    theme: str = setting(
        "dark",
        "colours; ansi takes the terminal's own, and NO_COLOR none",
        choices=("dark", "light", "colour-blind", "ansi"),
        when="live",
    )
    view: str = setting(
        "pane",
        "instruments beside the conversation; the pane turns to lines in a narrow terminal",
        choices=VIEWS,
        when="live",
    )
    token_colours: bool = setting(
        False, "mark each token of an answer by how it came: drafted, corrected, bonus", when="live"
    )
    fps: int = setting(0, "paints a second; 0 is 20, and 10 over SSH", bounds=(0, 60), when="live")
    mouse: bool = setting(True, "use the mouse; off leaves selection to the terminal")
    ascii: bool = setting(False, "draw with ASCII signs only")
    a11y: bool = setting(
        False,
        "for screen readers: the plain prompt, one line after the other, nothing redrawn, and what "
        "goes on said in words",
    )
    bell: bool = setting(
        True, "ring when a long answer ends while the terminal is not in front", when="live"
    )
    title: bool = setting(
        True, "say in the terminal's title what is loaded and what goes on", when="live"
    )
    save: bool = setting(True, "keep conversations on disk")


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """The timing trace that is recorded beside every conversation."""

    enabled: bool = setting(True, "record where the time goes, beside each conversation")
    keep_text: bool = setting(
        False, "record prompts, answers and token ids as well; a replay then shows them"
    )
    max_mb: int = setting(256, "what one recording may grow to", unit="MB", bounds=(1, 1_000_000))


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Where files are kept; empty means the system's usual places."""

    config: Path | None = setting(None, "folder of settings.toml and own profiles")
    data: Path | None = setting(None, "folder of the sessions")
    state: Path | None = setting(None, "folder of prompt history, drafts and logs")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, resolved."""

    model: ModelSettings = field(default_factory=ModelSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    draft: DraftSettings = field(default_factory=DraftSettings)
    kernels: KernelSettings = field(default_factory=KernelSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
    trace: TraceSettings = field(default_factory=TraceSettings)
    paths: PathSettings = field(default_factory=PathSettings)

    @property
    def config_dir(self) -> Path:
        """Folder of settings.toml and of the person's own profiles."""
        return self.paths.config or Path(platformdirs.user_config_dir("qwen38"))

    @property
    def data_dir(self) -> Path:
        """Folder of the sessions."""
        return self.paths.data or Path(platformdirs.user_data_dir("qwen38"))

    @property
    def state_dir(self) -> Path:
        """Folder of prompt history, drafts and logs."""
        return self.paths.state or Path(platformdirs.user_state_dir("qwen38"))


KNOWN: dict[str, Setting] = declared_settings(Settings)
