"""``qwen38 profiles``: what can be opened, how large it is, and whether its files are here."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.commands import options
from app.report import OK
from app.streams import write_data
from app.visible import visible
from engine.errors import RequestError
from engine.locate import how_to_give
from engine.profile import Profile, get_profile, load_profiles
from engine.settings.declared import load_settings


def profiles(
    show: Annotated[
        str | None, typer.Argument(help="'show' for one profile.", metavar="[show]")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Its name.", metavar="[NAME]")] = None,
    *,
    as_json: options.Json = False,
) -> int:
    """List the weight profiles, or show one.

    Formats, bytes of a round, memory, and whether the files are here.
    """
    if show is not None and (show != "show" or name is None):
        raise RequestError(f"'profiles {show}' is no command.", "Write 'profiles show NAME'.")
    settings, _ = load_settings()
    known = load_profiles(settings.config_dir)
    chosen = list(known.values()) if name is None else [get_profile(name, known)]
    tables = [_table(one, settings.model.context_tokens) for one in chosen]
    if as_json:
        write_data(json.dumps(tables[0] if name else tables, default=str) + "\n")
    elif name is None:
        write_data("\n".join(_line(one) for one in tables) + "\n")
    else:
        write_data("\n".join(_page(tables[0])) + "\n")
    return OK


def _table(profile: Profile, context_tokens: int) -> dict[str, Any]:
    from engine.fit import need_of

    need = need_of(profile, context_tokens)
    return {
        "name": profile.name,
        "title": profile.title,
        "about": profile.about,
        "formats": asdict(profile.formats),
        "kv_format": profile.kv_format,
        "drafter": profile.drafting.drafter,
        "max_draft_tokens": profile.drafting.max_tokens,
        "repositories": profile.repositories,
        "embedded": bool(profile.embedded),
        "settings": dict(profile.settings or {}),
        "file": profile.path,
        "weights": need.path,
        "problem": need.problem,
        "context_tokens": need.context_tokens,
        "stored_bytes": need.stored_bytes,
        "held_bytes": need.held_bytes,
        "conversation_bytes": need.conversation_bytes,
        "memory_bytes": need.total_bytes,
        "round_bytes": need.round_bytes,
    }


def _line(table: dict[str, Any]) -> str:
    where = "here" if table["weights"] else "missing"
    return (
        f"{visible(table['name']):<10} {visible(table['title']):<8} "
        f"{table['memory_bytes'] / 1e9:6.1f} GB memory  "
        f"{table['round_bytes'] / 1e9:6.2f} GB a round  files {where}"
    )


def _looked_for(table: dict[str, Any]) -> str:
    if table["embedded"]:
        return "the files inside the program"
    return ", ".join(table["repositories"]) or "the folder that --model names"


def _page(table: dict[str, Any]) -> list[str]:
    formats = ", ".join(f"{part} {kind}" for part, kind in table["formats"].items())
    tokens = table["context_tokens"]
    is_published = bool(table["repositories"] or table["embedded"])
    where = table["weights"] or f"missing. {how_to_give(is_published)}"
    stored, held = (f"{table[name] / 1e9:.2f} GB" for name in ("stored_bytes", "held_bytes"))
    lines = [
        f"{table['name']}: {table['title']}",
        table["about"],
        "",
        f"formats     {formats}; keys and values {table['kv_format']}",
        f"weights     {stored}, held as {held}",
        f"memory      {table['memory_bytes'] / 1e9:.2f} GB with {tokens:,} tokens of conversation",
        f"a round     {table['round_bytes'] / 1e9:.2f} GB to move at {tokens:,} tokens, as stored",
        f"drafting    {table['drafter']}, at most {table['max_draft_tokens']} tokens a round",
        f"looks for   {_looked_for(table)}",
        f"files       {where}",
        f"profile     {table['file']}",
    ]
    lines += [f"sets        {name} = {value}" for name, value in table["settings"].items()]
    lines += [f"problem     {table['problem']}"] if table["problem"] else []
    return [visible(line) for line in lines]
