"""Writes profiles/calibration.txt, the text that `qwen38 quantize` looks at the inputs of.

Every sentence and line in it is this program's own: exchanges of the demo's hand-written text in
the form that chats have, the documents of the tree, and some of its code. Three of four exchanges
go in; the fourth stays out, so that tests have text that no calibration saw.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from demo.smalltalk import read_smalltalk

ROOT = Path(__file__).resolve().parent.parent
EXCHANGES = ("answers.txt", "smalltalk.txt")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "profiles/demo/MODEL_CARD.md")
CODE = (
    "engine/model", "engine/turn", "engine/text", "app/sessions", "kernels/sample", "kernels/norm",
)  # fmt: skip
MAX_CODE_BYTES = 160_000
HELD_OUT_EVERY = 4


def exchanges(*, held_out: bool) -> str:
    """Returns question after question with an answer each, as a chat template writes them."""
    blocks = [block for name in EXCHANGES for block in read_smalltalk(ROOT / "scripts/demo" / name)]
    chosen = [one for i, one in enumerate(blocks) if (i % HELD_OUT_EVERY == 0) == held_out]
    return "".join(
        f"<|im_start|>user\n{question}<|im_end|>\n"
        f"<|im_start|>assistant\n{answers[i % len(answers)]}<|im_end|>\n"
        for questions, answers in chosen
        for i, question in enumerate(questions)
    )


def documents() -> str:
    """Returns the documents one after another, what the licences say left out."""
    paths = [ROOT / name for name in DOCUMENTS] + sorted(ROOT.glob("kernels/*/README.md"))
    return "\n".join(path.read_text("utf-8").split("## Licences")[0] for path in paths)


def code() -> str:
    """Returns whole files of code, up to a number of bytes."""
    found, num_bytes = [], 0
    for folder in CODE:
        for path in sorted((ROOT / folder).glob("*.py")):
            text = path.read_text("utf-8")
            num_bytes += len(text.encode())
            if num_bytes <= MAX_CODE_BYTES:
                found.append(text)
    return "\n".join(found)


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "profiles" / "calibration.txt")
    out: Path = parser.parse_args().out
    text = exchanges(held_out=False) + documents() + "\n" + code()
    out.write_text(text, "utf-8")
    print(f"{out}: {len(text.encode()):,} bytes")


if __name__ == "__main__":
    main()
