"""Launch prompts, rounds and drafts of a small model on a GPU that counts launches; prints them.

    python launch_script.py MAJOR.MINOR

Prints, by profile and by what was launched, the launches by kernel, or what failed.
"""

import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from engine.compute_path import ComputePath  # noqa: E402
from engine.draft.draft import Draft  # noqa: E402
from engine.model.config import SHAPE_DEMO, hybrid_layers  # noqa: E402
from engine.model.kernel_model import KernelModel  # noqa: E402
from engine.model.packing import Launching  # noqa: E402
from engine.model.random import random_model  # noqa: E402
from engine.profile import load_profiles  # noqa: E402
from engine.turn.choice import TokenChooser  # noqa: E402
from engine.turn.clock import clock_for  # noqa: E402
from engine.turn.rows_verify import RowsVerifier  # noqa: E402
from engine.turn.verify import Course  # noqa: E402
from engine.types import Sampling  # noqa: E402
from tests.fakes.launching import pretend  # noqa: E402

PROFILES = ("nvfp4", "fp8", "bf16")
SMALL = replace(SHAPE_DEMO, layer_kinds=hybrid_layers(4))
ROUNDS = {
    f"{rows} rows": Draft.chain((0,) * (rows - 1)) for rows in (1, 2, 3, 4, 8, 16, 17, 24, 32)
}
ROUNDS["a bush of 16"] = Draft.tree((0,) * 15, (0,) * 15)
GREEDY = Sampling(temperature=0.0)
DRAWN = Sampling(temperature=0.8, top_k=20, top_p=0.95, seed=5, presence_penalty=0.7)


def small_model(profile: str, capability: tuple[int, int], *, overlap: bool = False) -> KernelModel:
    packer = ComputePath(Launching(capability, overlap=overlap)).new_packer()
    formats = load_profiles()[profile].formats
    model = random_model(SMALL, formats, device="cpu", packer=packer)
    assert isinstance(model, KernelModel)
    return model


def steps(model: KernelModel) -> dict[str, Callable[[], object]]:
    """What a conversation launches, by what it is."""
    assert model.mtp is not None
    state, drafts = model.new_state(512), model.mtp.new_state(512)
    hidden = torch.zeros((32, SMALL.hidden_size), dtype=torch.bfloat16)

    def run(draft: Draft, sampling: Sampling) -> None:
        course = Course(model.new_state(512), TokenChooser(sampling, SMALL.vocab_size, (1,)))
        clock = clock_for(model.device)
        RowsVerifier(model).launch(course, 1, draft, draft.plan.num_nodes, clock)

    found: dict[str, Callable[[], object]] = {
        "a prompt": lambda: model.prefill(range(100), state),
        "a draft": lambda: model.mtp.draft((hidden[:3], hidden[3:4]), (1, 2, 3, 4), drafts, 3),
        "16 rows, drawn": lambda: run(ROUNDS["16 rows"], DRAWN),
    }
    return found | {name: lambda one=one: run(one, GREEDY) for name, one in ROUNDS.items()}


def main(capability: tuple[int, int]) -> None:
    models = {profile: small_model(profile, capability) for profile in PROFILES}
    launches = pretend(capability)
    found: dict[str, dict[str, dict[str, int] | str]] = {}
    for profile, model in models.items():
        found[profile] = {}
        for name, launch in steps(model).items():
            launches.clear()
            try:
                launch()
                found[profile][name] = dict(launches)
            except Exception as error:  # noqa: BLE001  whatever a launcher raises is told
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(last.filename).name}:{last.lineno}"
                found[profile][name] = f"{type(error).__name__} {error} ({place})"
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    major, minor = sys.argv[1].split(".")
    main((int(major), int(minor)))
