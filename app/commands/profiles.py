"""``qwen38 profiles``: what can be opened, how large it is, and whether its files are here."""

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options
from app.report import OK
from app.streams import write_data
from app.visible import visible
from engine.errors import CheckpointError, RequestError
from engine.locate import how_to_give
from engine.profile import Profile, get_profile, load_profiles
from engine.settings.load import load_settings
from engine.sizes import size_text

if TYPE_CHECKING:
    from engine.expected import Expected


def profiles(
    show: Annotated[
        str | None, typer.Argument(help="'show' for one profile.", metavar="[show]")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Its name.", metavar="[NAME]")] = None,
    *,
    as_json: options.Json = False,
) -> int:
    """List the weight profiles, or show one.

    Formats, bytes of a round, tokens a second to expect on this machine by the read bandwidth that
    is measured now, memory, and whether the files are here.
    """
    if show is not None and (show != "show" or name is None):
        raise RequestError(f"'profiles {show}' is no command.", "Write 'profiles show NAME'.")
    settings, _ = load_settings()
    known = load_profiles(settings.config_dir)
    chosen = list(known.values()) if name is None else [get_profile(name, known)]
    for one in chosen:  # a profile of one's own may set what there is not
        load_settings(None, one.settings)
    from engine.expected import expect_here

    expected = expect_here(settings, chosen)
    tables = [_table(one, its) for one, its in zip(chosen, expected, strict=True)]
    if name is not None:
        tables[0]["stored_formats"] = _stored_formats(expected[0])
    if as_json:
        write_data(json.dumps(tables[0] if name else tables, default=str) + "\n")
    elif name is None:
        write_data("\n".join([HEADING, *(_line(one) for one in tables), *_notes(tables)]) + "\n")
    else:
        write_data("\n".join(_page(tables[0])) + "\n")
    return OK


def _table(profile: Profile, expected: "Expected") -> dict[str, Any]:
    need = expected.need
    return {
        "name": profile.name,
        "title": profile.title,
        "about": profile.about,
        "formats": asdict(profile.formats),
        "kv_format": need.kv_format,
        "drafter": profile.drafting.drafter,
        "max_draft_tokens": profile.drafting.max_tokens,
        "graphs": asdict(profile.graphs),
        "repositories": profile.repositories,
        "embedded": bool(profile.embedded),
        "folder": profile.folder,
        "settings": dict(profile.settings or {}),
        "file": profile.path,
        "state": expected.state,
        "weights": need.path,
        "problem": need.problem,
        "context_tokens": need.context_tokens,
        "stored_bytes": need.stored_bytes,
        "held_bytes": need.held_bytes,
        "conversation_bytes": need.conversation_bytes,
        "memory_bytes": need.total_bytes,
        "free_bytes": expected.free_bytes,
        "fits": expected.fits,
        "round_bytes": need.round_bytes,
        "early_round_bytes": expected.early_bytes,
        "early_tokens": expected.early_tokens,
        "read_gb_s": expected.read_gb_s,
        "most_tok_s": expected.most_tok_s,
        "timed_tok_s": expected.timed_tok_s,
        "timed_source": expected.source,
        "timed_notice": expected.notice,
    }


HEADING = f"{'name':<10} {'memory':>9} {'a round':>9} {'tok/s':>15}  files"


def _stored_formats(expected: "Expected") -> str:
    """What the files that are here hold, layer by layer; empty without files that read."""
    from engine.formats_by_layer import formats_of_folder

    if expected.need.path is None or expected.need.problem:
        return ""
    try:
        return "; ".join(one.sentence for one in formats_of_folder(expected.need.path))
    except CheckpointError as problem:
        return f"refused: {problem}"


def _line(table: dict[str, Any]) -> str:
    files = {"ready": "here"}.get(table["state"], table["state"])
    if not table["fits"]:
        files = f"{files}, does not fit" if table["state"] == "missing" else "here, does not fit"
    return (
        f"{visible(table['name']):<10} {size_text(table['memory_bytes']):>9} "
        f"{size_text(table['early_round_bytes']):>9} {_speed(table):>15}  {files}"
    )


def _speed(table: dict[str, Any]) -> str:
    timed = table["timed_tok_s"]
    return _rate(timed) if timed is not None else f"at most {_rate(table['most_tok_s'])}"


def _rate(tok_s: float) -> str:
    return f"{tok_s:.1f}" if tok_s < 1000 else f"{tok_s:,.0f}"


def _notes(tables: list[dict[str, Any]]) -> list[str]:
    """What the columns mean."""
    one = tables[0]
    text = (
        f"A round has one token, behind {one['early_tokens']:,} of them, and moves these bytes, as "
        "weights are held on this machine. 'At most' is by the read bandwidth measured now, "
        f"{one['read_gb_s']:.1f} GB/s; other figures were timed. Accepted drafts multiply them. "
        f"{size_text(one['free_bytes'])} of memory are free."
    )
    said = dict.fromkeys(one["timed_notice"] for one in tables if one["timed_notice"])
    return ["", *textwrap.wrap(text, 88), *(visible(one) for one in said)]


def _looked_for(table: dict[str, Any]) -> str:
    if table["folder"]:
        return f"the folder {table['folder']}"
    if table["embedded"]:
        return "the files inside the program"
    return ", ".join(table["repositories"]) or "the folder that --model names"


def _page(table: dict[str, Any]) -> list[str]:
    formats = ", ".join(f"{part} {kind}" for part, kind in table["formats"].items())
    tokens = table["context_tokens"]
    is_published = bool(table["repositories"] or table["embedded"])
    give = "The folder holds no config.json." if table["folder"] else how_to_give(is_published)
    where = table["weights"] or f"missing. {give}"
    stored, held = (size_text(table[name]) for name in ("stored_bytes", "held_bytes"))
    fit = "fits" if table["fits"] else "does not fit"
    room = f"{fit} in the {size_text(table['free_bytes'])} that are free"
    memory = f"{size_text(table['memory_bytes'])} with {tokens:,} tokens of conversation"
    lines = [
        f"{table['name']}: {table['title']}",
        table["about"],
        "",
        f"formats     {formats}; keys and values {table['kv_format']}",
        f"weights     {stored}, held as {held}",
        *([f"stored      {table['stored_formats']}"] if table["stored_formats"] else []),
        f"memory      {memory}; {room}",
        f"a round     {size_text(table['round_bytes'])} to move at {tokens:,} tokens, as stored",
        *_expected(table),
        f"drafting    {table['drafter']}, at most {table['max_draft_tokens']} tokens a round",
        f"graphs      {_graphs(table['graphs'])}",
        f"looks for   {_looked_for(table)}",
        f"files       {where}",
        f"profile     {table['file']}",
    ]
    lines += [f"sets        {name} = {value}" for name, value in table["settings"].items()]
    lines += [f"problem     {table['problem']}"] if table["problem"] else []
    return [visible(line) for line in lines]


def _graphs(classes: dict[str, tuple[int, ...]]) -> str:
    """What a GPU captures while the profile opens; a page that is read on a CPU says so, too."""
    rows, contexts, chunks = (
        ", ".join(f"{one:,}" for one in classes[name])
        for name in ("rows", "context_tokens", "chunk_rows")
    )
    rounds = f"rounds of {rows} rows behind up to {contexts} tokens"
    return (
        f"captured on a GPU while it opens: {rounds if rows and contexts else 'no rounds'}, "
        f"{f'chunks of {chunks} rows' if chunks else 'no chunks'}; all others when they first come"
    )


def _expected(table: dict[str, Any]) -> list[str]:
    """Tokens a second: what the bandwidth allows, and what was timed where somebody did."""
    most = (
        f"speed       at most {_rate(table['most_tok_s'])} tokens a second without drafts, behind "
        f"{table['early_tokens']:,} tokens: {size_text(table['early_round_bytes'])} a round, as "
        f"held here, at the {table['read_gb_s']:.1f} GB/s measured now"
    )
    lines = [most]
    if table["timed_tok_s"] is not None:
        lines.append(f"timed       {_rate(table['timed_tok_s'])}, by {table['timed_source']}")
    return [*lines, *([f"prices      {table['timed_notice']}"] if table["timed_notice"] else [])]
