"""Screens as text that a reviewer can read: the rows, and below them one letter of style a cell."""

from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def picture(app) -> str:
    """The screen of ``app``: text, styles, and the legend of the styles."""
    letters: dict[str, str] = {}
    texts, styles = [], []
    for strip in app.screen._compositor.render_strips():
        texts.append(strip.text.rstrip())
        row = ""
        for segment in strip:
            style = "none" if segment.style is None else _name(segment)
            letter = letters.setdefault(style, LETTERS[len(letters)])
            row += letter * segment.cell_length
        styles.append(row.rstrip(row[-1:]) + row[-1:])
    legend = [f"{letter} {style}" for style, letter in letters.items()]
    return "\n".join([*texts, "-" * 8, *styles, "-" * 8, *legend, ""])


def assert_same(app, name: str) -> None:
    """Compare with the kept picture; a missing one is written and has to be reviewed."""
    path = FOLDER / f"{name}.txt"
    now = picture(app)
    if not path.exists():
        FOLDER.mkdir(exist_ok=True)
        path.write_text(now, encoding="utf-8")
        raise AssertionError(f"{path} is new: look at it, then run again")
    kept = path.read_text(encoding="utf-8")
    assert now == kept, f"{path} differs: delete it to take the new picture"


def _name(segment) -> str:
    style = segment.style
    marks = [
        word
        for word in ("bold", "dim", "italic", "underline", "strike", "reverse")
        if getattr(style, word)
    ]
    colours = [one.name if one is not None else "-" for one in (style.color, style.bgcolor)]
    return " ".join([*marks, f"{colours[0]} on {colours[1]}"])
