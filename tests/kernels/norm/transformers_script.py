"""Run transformers' own norms on saved inputs; knows nothing of our code.

    python transformers_script.py INPUTS.pt OUTPUTS.pt CHECKOUT

Hugging Face's package `kernels` has the name of our folder and transformers looks for it, so the
checkout is taken off the path first. Prints the modules that came from the checkout all the same.
"""

import importlib
import json
import sys
from pathlib import Path

import torch


def main(inputs_path: str, outputs_path: str, checkout: str) -> None:
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(checkout)]
    model = importlib.import_module("transformers.models.qwen3_5.modeling_qwen3_5")
    outputs = []
    for case in torch.load(inputs_path):
        gated = "gate" in case
        make = model.Qwen3_5RMSNormGated if gated else model.Qwen3_5RMSNorm
        norm = make(case["x"].shape[-1], eps=case["eps"])
        norm.weight = torch.nn.Parameter(case["weight"], requires_grad=False)
        x = case["x"] + case["residual"] if "residual" in case else case["x"]
        outputs.append(norm(x, case["gate"]) if gated else norm(x))
    torch.save(outputs, outputs_path)
    ours = (str(Path(checkout, package)) for package in ("app", "engine", "kernels"))
    folders = tuple(ours)
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    json.dump([n for n, file in files.items() if (file or "").startswith(folders)], sys.stdout)


main(*sys.argv[1:])
