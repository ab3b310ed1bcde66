"""An engine around random weights of a full size, with the demo's tokenizer and template."""

from engine.bench.model import draw_model
from engine.compute_path import choose_compute_path
from engine.dflash.random import random_dflash
from engine.draft.price_table import shipped_prices
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.locate import Choice
from engine.machine.device import choose_device
from engine.model.config import config_of_shape
from engine.model.memory import MemoryPlan, plan_serving
from engine.open import engine_of
from engine.profile import Profile, kv_format_of, profile_folder
from engine.routing import with_block
from engine.settings.declared import Settings
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.turn.local import LocalEngine
from engine.types import Progress

DEMO = profile_folder() / "demo"
PRICES = ("sm_90", "nvfp4")
"""The table that routes the drafter ``auto``, on any GPU: it learns nothing here, so that every
answer has the same rounds."""


def random_engine(
    shape: str,
    profile: Profile,
    settings: Settings,
    progress: Progress = lambda _: None,
    *,
    with_dflash: bool = False,
) -> tuple[LocalEngine, MemoryPlan]:
    """Draw a model and open an engine around it; its answers end at no token.

    Args:
        shape: key of ``SHAPES``.
        profile: its formats are drawn.
        settings: device, kernels, the longest conversation, keys and values, and memory for points
            to come back to.
        progress: called with a sentence for each step.
        with_dflash: draw a DFlash2 drafter beside it, which no plan counts.

    Returns:
        The engine, and the plan of its memory as it was made once the weights were there.

    Raises:
        RequestError: there is no such shape.
        MemoryPlanError: the model does not fit on the device.
        SettingsError: the device is not there, or does not run the kernels that are asked for.
        KernelError: the GPU refuses a kernel.
    """
    device, context_tokens = choose_device(settings.model.device), settings.model.context_tokens
    path, kv = choose_compute_path(settings, device), kv_format_of(profile, settings)
    drawn = draw_model(
        shape, config_of_shape(shape), profile, path, device=device, num_tokens=context_tokens,
        smaller="--shape demo, or a smaller model.context_tokens", progress=progress, kv=kv,
    )  # fmt: skip
    model = drawn.model
    plan = plan_serving(
        model.config, model.weight_bytes, device, packed=path.is_packed, with_mtp=model.has_mtp,
        context_tokens=context_tokens, snapshot_mb=settings.model.snapshot_mb, kv=kv,
        graphs=profile.graphs,
    )  # fmt: skip
    dflash = random_dflash(model, path.new_packer()) if with_dflash else None
    tokenizer = Tokenizer.load(DEMO, model.config.vocab_size)
    table = shipped_prices(*PRICES) if path.is_packed else None
    if table is not None and dflash is not None:
        table = with_block(table, dflash, drawn.read_gb_s)
    progress("compiling kernels" if path.is_packed else "opening")
    engine = engine_of(
        model, tokenizer, ChatTemplate.load(DEMO, tokenizer),
        Choice(DEMO, profile, is_demo=True), path, context_tokens, drawn.facts["arithmetic"],
        tuple(drawn.facts["notices"]),
        routing=Routing(Prices(table, learns=False), 7) if table else None,
        most_marks=plan.num_snapshots, sampling=settings.sampling, dflash=dflash,
    )  # fmt: skip
    return engine, plan
