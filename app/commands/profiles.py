"""``qwen38 profiles``: what can be opened, how large it is, and whether its files are here."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options
from app.paragraph import paragraph
from app.report import OK
from app.streams import write_data, write_lines
from app.visible import visible
from engine.errors import ProfileError, RequestError
from engine.locate import how_to_give
from engine.profile import Profile, Profiles, get_profile, load_profiles
from engine.settings.declared import Settings
from engine.settings.load import load_settings
from engine.sizes import size_text

if TYPE_CHECKING:
    from engine.expected import Expected


def profiles(
    show: Annotated[
        str | None, typer.Argument(help="'show' for one profile.", metavar="show")
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Its name.", metavar="NAME")] = None,
    *,
    as_json: options.Json = False,
) -> int:
    """List the weight profiles, or show one.

    Formats, bytes of a round, tokens a second to expect on this machine by the read bandwidth that
    is measured now, memory, and whether the files are here.
    """
    if show is not None and (show != "show" or name is None):
        raise RequestError(
            f"'qwen38 profiles {show}' is no command.", "Write 'qwen38 profiles show NAME'."
        )
    settings, _ = load_settings()
    known = load_profiles(settings.config_dir)
    if name is None:
        _list(known, settings, as_json=as_json)
    else:
        _show(get_profile(name, known), settings, as_json=as_json)
    return OK


def _list(known: Profiles, settings: Settings, *, as_json: bool) -> None:
    tables = [_table(one, its) for one, its in _expected_of(list(known.values()), settings)]
    faulty = [_faulty_table(name, error) for name, error in known.faulty.items()]
    if as_json:
        write_data(json.dumps([*tables, *faulty], default=str) + "\n")
        return
    rows = [*map(_line, tables), *map(_faulty_line, faulty)]
    lines = [HEADING, *rows, *_notes(tables), *_refusals([*tables, *faulty])]
    write_lines(lines)


def _show(profile: Profile, settings: Settings, *, as_json: bool) -> None:
    ((_, expected),) = _expected_of([profile], settings)
    table = _table(profile, expected) | {"stored_formats": _stored_formats(expected)}
    if as_json:
        write_data(json.dumps(table, default=str) + "\n")
    else:
        write_data("\n".join(_page(table, how_to_give(profile))) + "\n")


def _expected_of(
    profiles: list[Profile], settings: Settings
) -> "Iterable[tuple[Profile, Expected]]":
    from engine.expected import expect_here

    return zip(profiles, expect_here(settings, profiles), strict=True)


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
        "problem": str(need.problem or ""),
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
        "most_tok_s": None if need.problem else expected.most_tok_s,
        "timed_tok_s": None if need.problem else expected.timed_tok_s,
        "timed_source": expected.source,
        "timed_notice": expected.notice,
    }


HEADING = f"{'name':<10} {'memory':>9} {'a round':>9} {'tok/s':>15}  files"


def _stored_formats(expected: "Expected") -> str:
    """What the files that are here hold, layer by layer; empty without files that read."""
    from engine.formats_by_layer import formats_of_folder

    if expected.need.path is None or expected.need.problem is not None:
        return ""
    return "; ".join(one.sentence for one in formats_of_folder(expected.need.path))


def _line(table: dict[str, Any]) -> str:
    return (
        f"{visible(table['name']):<10} {size_text(table['memory_bytes']):>9} "
        f"{size_text(table['early_round_bytes']):>9} {_speed(table):>15}  {_files(table)}"
    )


def _files(table: dict[str, Any]) -> str:
    is_here = table["state"] in ("ready", "too large")
    here = "here" if is_here else str(table["state"])
    return here if table["fits"] or table["problem"] else f"{here}, does not fit"


def _faulty_line(table: dict[str, Any]) -> str:
    return f"{visible(table['name']):<10} {'-':>9} {'-':>9} {'-':>15}  faulty"


def _faulty_table(name: str, error: ProfileError) -> dict[str, Any]:
    return {"name": name, "state": "faulty", "problem": str(error)}


def _refusals(tables: list[dict[str, Any]]) -> list[str]:
    """Why a profile, or the files of one, cannot be opened."""
    said = [
        row
        for one in tables
        if one["problem"]
        for row in _whole(visible(f"{one['name']} is {one['state']}: {one['problem']}"))
    ]
    return ["", *said] if said else []


def _speed(table: dict[str, Any]) -> str:
    timed = table["timed_tok_s"]
    if table["problem"]:
        return "-"
    return f"at most {_rate(table['most_tok_s'])}" if timed is None else _rate(timed)


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
    return ["", *paragraph(text), *(row for one in said for row in _whole(visible(one)))]


def _looked_for(table: dict[str, Any]) -> str:
    if table["folder"]:
        return f"the folder {table['folder']}"
    if table["embedded"]:
        return "the files inside the program"
    return ", ".join(table["repositories"]) or "the folder that --model names"


def _page(table: dict[str, Any], give: str) -> list[str]:
    formats = ", ".join(f"{part} {kind}" for part, kind in table["formats"].items())
    tokens = table["context_tokens"]
    where = table["weights"] or f"missing. {give}"
    stored, held = (size_text(table[name]) for name in ("stored_bytes", "held_bytes"))
    fit = "fits" if table["fits"] else "does not fit"
    room = f"{fit} in the {size_text(table['free_bytes'])} that are free"
    memory = f"{size_text(table['memory_bytes'])} with {tokens:,} tokens of conversation"
    facts = [
        ("formats", f"{formats}; keys and values {table['kv_format']}"),
        ("weights", f"{stored}, held as {held}"),
        *([("stored", table["stored_formats"])] if table["stored_formats"] else []),
        ("memory", f"{memory}; {room}"),
        ("a round", f"{size_text(table['round_bytes'])} to move at {tokens:,} tokens, as stored"),
        *([] if table["problem"] else _expected(table)),
        ("drafting", f"{table['drafter']}, at most {table['max_draft_tokens']} tokens a round"),
        ("graphs", _graphs(table["graphs"])),
        ("looks for", _looked_for(table)),
        ("files", where),
        ("profile", table["file"]),
        *(("sets", f"{name} = {value}") for name, value in table["settings"].items()),
        *([("refused", table["problem"])] if table["problem"] else []),
    ]
    about = [visible(f"{table['name']}: {table['title']}"), *_whole(visible(table["about"])), ""]
    return [
        *about,
        *(row for name, text in facts for row in _whole(visible(str(text)), f"{name:<12}")),
    ]


def _whole(text: str, head: str = "") -> list[str]:
    """As wide as the terminal; one row for a pipe, where scripts look for what stands in it."""
    return paragraph(text, head, widest=None)


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


def _expected(table: dict[str, Any]) -> list[tuple[str, str]]:
    """Tokens a second: what the bandwidth allows, and what was timed where somebody did."""
    most = (
        f"at most {_rate(table['most_tok_s'])} tokens a second without drafts, behind "
        f"{table['early_tokens']:,} tokens: {size_text(table['early_round_bytes'])} a round, as "
        f"held here, at the {table['read_gb_s']:.1f} GB/s measured now"
    )
    facts = [("speed", most)]
    if table["timed_tok_s"] is not None:
        facts.append(("timed", f"{_rate(table['timed_tok_s'])}, by {table['timed_source']}"))
    return [*facts, *([("prices", table["timed_notice"])] if table["timed_notice"] else [])]
