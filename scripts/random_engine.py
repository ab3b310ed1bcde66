"""An engine around random weights of a full size, with the demo's tokenizer and template."""

from engine.compute_path import choose_compute_path
from engine.draft.price_table import shipped_prices
from engine.draft.prices import Prices
from engine.draft.routed import Routing
from engine.locate import Choice
from engine.model.config import SHAPES
from engine.model.memory import MemoryPlan, plan_serving
from engine.model.random import random_model
from engine.open import choose_device, engine_of
from engine.profile import get_profile, load_profiles, profile_folder
from engine.settings.declared import ModelSettings, Settings
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from engine.turn.local import LocalEngine

DEMO = profile_folder() / "demo"


def random_engine(
    shape: str, profile: str, device: str, context_tokens: int, snapshot_mb: int | None = None
) -> tuple[LocalEngine, MemoryPlan]:
    """Draw a model and open an engine around it; its answers end at no token.

    Args:
        shape: key of ``SHAPES``.
        profile: its formats are drawn.
        device: "auto", "cpu" or "cuda".
        context_tokens: the longest conversation.
        snapshot_mb: for points to come back to.

    Returns:
        The engine, and the plan of its memory as it was made once the weights were there.
    """
    settings = Settings(model=ModelSettings(device=device))
    chosen = Choice(DEMO, get_profile(profile, load_profiles()), is_demo=True)
    config, place = SHAPES[shape], choose_device(device)
    path = choose_compute_path(settings, place)
    packer = path.new_packer()
    model = random_model(config, chosen.profile.formats, device=place, packer=packer)
    plan = plan_serving(
        config, model.weight_bytes, place, packed=path.is_packed, with_mtp=model.has_mtp,
        context_tokens=context_tokens, snapshot_mb=snapshot_mb,
    )  # fmt: skip
    tokenizer = Tokenizer.load(DEMO, config.vocab_size)
    table = shipped_prices("sm_90", "nvfp4") if path.is_packed else None
    engine = engine_of(
        model, tokenizer, ChatTemplate.load(DEMO, tokenizer), chosen, path, context_tokens,
        packer.arithmetic if packer else "reference",
        routing=Routing(Prices(table, learns=False), 7) if table else None,
        most_marks=plan.num_snapshots,
    )  # fmt: skip
    return engine, plan
