"""Open a checkpoint: text files first, then weights, then an engine that answers."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from engine.arithmetic import arithmetic_id
from engine.compute_path import ComputePath, choose_compute_path, choose_threads
from engine.dflash.attach import attach_dflash, find_dflash
from engine.dflash.memory import dflash_bytes
from engine.draft.dflash import DflashSource
from engine.draft.routed import Routing
from engine.errors import CancelledError, CheckpointError
from engine.load_steps import LoadSteps
from engine.locate import Choice
from engine.machine.device import choose_device
from engine.machine.free_memory import is_refused, no_memory_left
from engine.machine.measure import read_bandwidth
from engine.model.checkpoint import Checkpoint, open_checkpoint
from engine.model.config_file import read_config
from engine.model.decoder import Model
from engine.model.footprint import kv_bytes_per_token, state_bytes, tail_bytes
from engine.model.generation import read_generation
from engine.model.kv_scales import (
    CALIBRATION_TOKENS,
    SEQUENCE_TOKENS,
    calibrate,
    stored_scales,
)
from engine.model.loading import load_weights
from engine.model.memory import LEAST_SNAPSHOTS, plan_memory
from engine.notices import notices_of
from engine.profile import kv_format_of
from engine.quantize.calibration import read_calibration
from engine.routing import routing_of
from engine.sampling import drawn_by
from engine.settings.declared import SamplingSettings, Settings
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.tune.tiles import tile_notice
from engine.tune.user_prices import Served, find_prices
from engine.turn.local import LocalEngine
from engine.turn.machine import Machine
from engine.types import ChatEngine, EngineInfo, KvFormat, LoadProgressed, Progress
from engine.warm_up import warm_up
from kernels.common import gpu


def open_engine(
    choice: Choice,
    settings: Settings,
    on_progress: Callable[[LoadProgressed], None] | None,
    cancel: threading.Event,
) -> ChatEngine:
    """Load what was chosen.

    Tokenizer and template are read before the weights, so that a folder without them is refused at
    once. The machine's read bandwidth is measured at the end (once a process, below a second on a
    CPU), when nothing else of ours runs.

    Args:
        choice: from ``engine.locate.choose``.
        settings: device, threads, context and kernels are read.
        on_progress: called as weights arrive.
        cancel: stops the load.

    Raises:
        CheckpointError: the files are refused.
        MemoryPlanError: model and context do not fit, or memory was refused.
        CancelledError: ``cancel`` was set.
        SettingsError: the device is not there, or does not run the kernels that are asked for.
        KernelError: the GPU refuses a kernel.
    """
    device = choose_device(settings.model.device)
    path = choose_compute_path(settings, device)
    config = read_config(choice.path)
    torch.set_num_threads(settings.model.threads or choose_threads(config))
    tokenizer = Tokenizer.load(choice.path, config.vocab_size)
    generation = read_generation(choice.path, config)
    check_stop_ids(choice.path, generation.stop_ids, tokenizer)
    template = ChatTemplate.load(choice.path, tokenizer)
    max_context_tokens = min(settings.model.context_tokens, config.max_position_embeddings)
    try:
        template.start()
        checkpoint = open_checkpoint(choice.path, config, choice.overlay)
        kv = kv_format_of(choice.profile, settings)
        notices = notices_of(choice, checkpoint, path, kv)
        beside = find_dflash(settings.draft, config)
        template.compile()
        plan = plan_memory(
            checkpoint, device, packed=path.is_packed, context_tokens=max_context_tokens,
            snapshot_mb=settings.model.snapshot_mb,
            drafter=dflash_bytes(
                beside, max_context_tokens, packed=path.is_packed, stored=choice.profile.formats.mtp
            ),
            kv=kv, graphs=choice.profile.graphs,
        )  # fmt: skip
        plan.expect_fit()
        packer = path.new_packer()
        progress = LoadSteps(on_progress)
        model = load_weights(
            checkpoint,
            generation,
            device=device,
            on_progress=progress,
            cancel=cancel,
            expand=settings.model.hold == "bf16",
            packer=packer,
        )
        notices = (*notices, choose_scales(kv, checkpoint, model, tokenizer))
        served = Served.of(config, choice.profile.formats, path.capability, kv)
        found = find_prices(served, settings.data_dir)
        dflash = None
        if beside is not None:
            dflash = attach_dflash(
                model, beside, on_progress=on_progress, cancel=cancel, packer=path.new_packer(),
                stored=choice.profile.formats.mtp,
            )  # fmt: skip
        products, said = (packer.arithmetic, packer.notice) if packer is not None else ("", "")
        arithmetic = arithmetic_id(device, products, model.kv_scales)
        if device == "cuda":
            tiles = tile_notice(gpu.choices())
            notices = (*notices, tiles, found.notice if path.is_packed else "", said)
        notices = tuple(one for one in notices if one)
        return engine_of(
            model, tokenizer, template, choice, path, max_context_tokens, arithmetic, notices,
            routing=routing_of(settings.draft, path, choice.profile, found.table, dflash),
            most_marks=plan.num_snapshots, dflash=dflash, sampling=settings.sampling,
            tell=partial(_tell, progress, cancel),
        )  # fmt: skip
    except BaseException as problem:
        template.close()
        if is_refused(problem):
            raise no_memory_left(problem, device) from None
        raise


def engine_of(
    model: Model,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    choice: Choice,
    path: ComputePath,
    max_context_tokens: int,
    arithmetic: str,
    notices: tuple[str, ...] = (),
    *,
    routing: Routing | None = None,
    most_marks: int = LEAST_SNAPSHOTS,
    dflash: DflashSource | None = None,
    sampling: SamplingSettings | None = None,
    tell: Progress = lambda _: None,
) -> LocalEngine:
    """Put an engine around a loaded model, and let its kernels run once.

    Raises:
        KernelError: the GPU refuses a kernel.
        CancelledError: ``tell`` raised it.
    """
    machine = Machine(
        model=model,
        tokenizer=tokenizer,
        verifier=path.new_verifier(model),
        traffic=path.traffic_of(model),
        stop_ids=frozenset(model.stop_ids),
        max_context_tokens=max_context_tokens,
        num_threads=torch.get_num_threads(),
        routing=routing,
        dflash=dflash,
    )
    bandwidth = read_bandwidth(model.device.type)
    info = EngineInfo(
        model=choice.profile.title if choice.is_demo else model_name(choice.named),
        path=str(choice.named),
        profile=choice.profile.name,
        device=model.device.type,
        num_parameters=model.num_parameters,
        weight_bytes=model.weight_bytes,
        state_bytes=state_bytes(model.config) + tail_bytes(model.config),
        kv_bytes_per_token=kv_bytes_per_token(model.config, model.kv_format),
        max_context_tokens=max_context_tokens,
        is_demo=choice.is_demo,
        default_sampling=model.default_sampling,
        supports_thinking=template.supports_thinking,
        has_mtp=model.has_mtp,
        arithmetic=arithmetic,
        read_gb_s=bandwidth.gb_s,
        read_measured_at=bandwidth.measured_at,
        notices=notices,
    )
    engine = LocalEngine(info, machine, template, choice.profile.drafting, most_marks=most_marks)
    if path.is_packed:
        usual = drawn_by(sampling or SamplingSettings(), model.default_sampling)
        engine.warm_up(partial(warm_up, classes=choice.profile.graphs, sampling=usual, tell=tell))
    return engine


def _tell(progress: LoadSteps, cancel: threading.Event, what: str) -> None:
    """Say what is done now; raises `CancelledError` once the load is to stop."""
    if cancel.is_set():
        raise CancelledError("Loading was stopped before the model was ready.")
    progress.go_on(what)


def check_stop_ids(path: Path, stop_ids: tuple[int, ...], tokenizer: Tokenizer) -> None:
    """Refuse a model whose answers would not end.

    Raises:
        CheckpointError: it names no token that ends an answer, or one that its tokenizer lacks.
    """
    if not stop_ids:
        raise CheckpointError(
            f"{path} names no stop token, so that no answer would end.",
            "Download its generation_config.json.",
        )
    for one in stop_ids:
        if not tokenizer.has(one):
            raise CheckpointError(
                f"{path}: the stop token {one} is no token of tokenizer.json.",
                "Use the tokenizer that came with the model.",
            )


def choose_scales(kv: KvFormat, checkpoint: Checkpoint, model: Model, tokenizer: Tokenizer) -> str:
    """Give a model the scales of keys and values in 8 bits; say where they come from.

    Returns:
        A sentence; empty for BF16, which has none.

    Raises:
        CheckpointError: the checkpoint brings scales that are none.
    """
    if kv == "bf16":
        return ""
    scales = stored_scales(checkpoint)
    if scales is not None:
        model.kv_scales, source = scales.to(model.device), "the checkpoint's scales"
    else:
        text = read_calibration(
            None, tokenizer, max_tokens=CALIBRATION_TOKENS, sequence_tokens=SEQUENCE_TOKENS
        )
        model.kv_scales = calibrate(model, text.sequences)
        source = f"scales from {text.num_tokens} tokens of the text that ships"
    return f"Keys and values are kept in 8 bits (e4m3), with {source}."


def model_name(path: Path) -> str:
    """A name for a folder: the repository's, in a Hugging Face cache."""
    for folder in path.absolute().parents:
        if folder.name.startswith("models--"):
            return folder.name.split("--")[-1]
    return path.absolute().name
