"""What makes finished parts a checkpoint: the index, the files beside the weights, the config."""

import json
from pathlib import Path
from typing import Any

from engine.machine.facts import now
from engine.model.config_file import MAX_CONFIG_BYTES
from engine.model.safetensors_header import read_header
from engine.model.shards import INDEX_NAME
from engine.model.strict_json import read_object
from engine.quantize.folder import Folder
from engine.quantize.manifest import MANIFEST_NAME, Recipe
from engine.quantize.source import COPIED
from kernels.linear.formats import NVFP4_GROUP

KEPT_BF16 = (
    "embed_tokens", "norm", "conv1d", "in_proj_a", "in_proj_b", "A_log", "dt_bias", "mtp.fc",
)  # fmt: skip
"""What stays as it was: together 2.6 GB of the 27B, all but 0.1 GB the embedding, of which a round
reads one row a token."""


def finish(source: Path, folder: Folder) -> None:
    """Complete a folder in which all parts are; config.json comes last, so none opens too early.

    Args:
        source: folder of the release.
        folder: of the result.

    Raises:
        CheckpointError: the source's config does not read any more.
        OutputError: the disk refuses.
    """
    config = read_object(source / "config.json", MAX_CONFIG_BYTES)
    for name in COPIED:
        if (source / name).is_file():
            folder.copy(source / name)
    folder.write_text(INDEX_NAME, json.dumps(_index(folder), indent=1) + "\n")
    config["quantization_config"] = _quantization(folder.manifest.recipe)
    folder.write_text("config.json", json.dumps(config, indent=1) + "\n")
    folder.manifest.finished = folder.manifest.finished or now()
    folder.write_text(MANIFEST_NAME, folder.manifest.as_json())


def _index(folder: Folder) -> dict[str, Any]:
    placed: dict[str, str] = {}
    total = 0
    for part in folder.manifest.parts.values():
        header = read_header(folder.path / part.file)
        placed |= dict.fromkeys(header, part.file)
        total += sum(one.num_bytes for one in header.values())
    return {"metadata": {"total_size": total}, "weight_map": dict(sorted(placed.items()))}


def _quantization(recipe: Recipe) -> dict[str, Any]:
    """A note for people and tools; our loader decides from the tensors themselves."""
    return {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "producer": {"name": "qwen38", "version": recipe.program, "method": recipe.method},
        "config_groups": {
            "group_0": {
                "weights": {"num_bits": 4, "type": "float", "group_size": NVFP4_GROUP},
                "targets": ["mlp", "self_attn", "linear_attn"],
            },
            "group_1": {
                "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                "targets": ["lm_head"],
            },
        },
        "ignore": list(KEPT_BF16),
    }
