"""Find the weights of DFlash2, and put the drafter beside a model that is loaded."""

import threading
from collections.abc import Callable
from pathlib import Path

from engine.dflash.block import Dflash
from engine.dflash.checkpoint import REPOSITORIES, DflashCheckpoint, open_dflash
from engine.dflash.config import DflashConfig
from engine.dflash.weights import DflashWeights, load_dflash
from engine.draft.dflash import DflashSource
from engine.errors import CheckpointError
from engine.locate import cached_snapshot, meant_folder
from engine.model.config import ModelConfig
from engine.model.decoder import Model
from engine.model.draft_head import DraftHead
from engine.model.graphs import GraphCache
from engine.model.kernel_model import KernelModel
from engine.model.packing import Packer
from engine.profile import WeightFormat
from engine.settings.declared import DraftSettings
from engine.settings.environment import hugging_face_cache
from engine.types import LoadProgressed


def find_dflash(draft: DraftSettings, target: ModelConfig) -> DflashCheckpoint | None:
    """The drafter that the settings ask for, its headers read; None where they ask for none.

    Args:
        draft: ``dflash_dir`` names a folder; else ``drafter`` may ask for what the Hugging Face
            cache holds.
        target: the model that it shall draft for.

    Raises:
        CheckpointError: it is not on this machine, is refused, or does not fit the model.
    """
    folder = _folder_of(draft, hugging_face_cache())
    return open_dflash(folder, target) if folder is not None else None


def _folder_of(draft: DraftSettings, cache: Path) -> Path | None:
    if draft.dflash_dir is not None:
        return meant_folder(draft.dflash_dir)
    if draft.drafter != "dflash2":
        return None
    for repository in REPOSITORIES:
        if found := cached_snapshot(repository, cache):
            return found
    raise CheckpointError(
        "The drafter 'dflash2' has weights of its own, and they are not on this machine.",
        f"Give their folder with draft.dflash_dir, download {REPOSITORIES[0]} with the Hugging "
        "Face tools, or take another drafter.",
    )


def attach_dflash(
    model: Model,
    checkpoint: DflashCheckpoint,
    *,
    on_progress: Callable[[LoadProgressed], None] | None,
    cancel: threading.Event,
    packer: Packer | None,
    stored: WeightFormat,
) -> DflashSource:
    """Load a drafter, and let the model hand out the layers that it reads.

    Args:
        model: that the drafter fits, on its device.
        checkpoint: of the drafter, planned for.
        on_progress: called as bytes arrive.
        cancel: stops the load.
        packer: as `load_dflash` takes it.
        stored: as `load_dflash` takes it.

    Raises:
        CheckpointError: a file changed, does not read, or holds a weight that is no number.
        CancelledError: ``cancel`` was set.
    """
    weights = load_dflash(
        checkpoint, device=model.device.type, on_progress=on_progress, cancel=cancel,
        packer=packer, stored=stored,
    )  # fmt: skip
    return put_beside(model, checkpoint.config, weights)


def put_beside(model: Model, config: DflashConfig, weights: DflashWeights) -> DflashSource:
    """Let a drafter share the model's embedding and head, and read the layers that it asks for.

    Args:
        model: that the drafter fits, on its device; counts the drafter among its bytes.
        config: of the drafter.
        weights: of the drafter, packed where the model's are.
    """
    model.weights.part_bytes["dflash2"] = weights.num_bytes
    on_kernels = isinstance(model, KernelModel)
    head = model.draft_head if on_kernels else DraftHead(model.weights.head)
    graphs = model.new_graphs() if on_kernels else _launched_one_by_one()
    drafter = Dflash(config, weights, model.weights.embedding, head, graphs)
    return DflashSource(drafter, model.tap(config.target_layers))


def _launched_one_by_one() -> GraphCache:
    return GraphCache(captures=False, refused=lambda _why: None, captured=lambda _what, _ms: None)
