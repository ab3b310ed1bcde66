"""F9: two profiles answer the same request: both texts, both figures, the first difference."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from app.tui.comparison import Comparison, Side, difference_at
from app.tui.lines import Part, fit
from app.tui.screens.help import HelpPart
from app.tui.theme import Look
from app.visible import visible, visible_line
from engine.records import share_of_read
from engine.sizes import size_text

ABREAST_CELLS = 100
"""Width from which the answers stand side by side."""

SPOKEN = {
    "first answer": "the first answer is written",
    "going": "loading",
    "second answer": "the second answer is written",
    "returning": "going back to",
    "over": "",
}


class CompareScreen(ModalScreen[None]):
    """Shows a comparison while it runs; Esc stops it, and closes it when it is over."""

    HELP_PART: ClassVar = HelpPart(
        "Comparing two profiles",
        (
            ("Tab", "from one answer to the other, to scroll it"),
            ("the sign", "the first word that differs"),
            ("read", "prompt tokens that were not held from before: they make the TTFT"),
            ("Esc", "stop and go back; close when it is over"),
        ),
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f9", "leave", show=False, priority=True),
        Binding("tab", "app.focus_next", show=False),
    ]

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self.comparison: Comparison | None = None
        self._sides = [(Static(markup=False), Static(markup=False)) for _ in range(2)]
        self._foot = Static(markup=False, classes="foot")

    def compose(self) -> ComposeResult:
        """Two answers and what is to say of both."""
        boxes = [
            Vertical(figures, VerticalScroll(text), classes="side") for figures, text in self._sides
        ]
        sheet = Vertical(Container(*boxes, classes="sides"), self._foot, classes="sheet compare")
        sheet.border_title = "The same prompt under two profiles"
        yield sheet

    def on_mount(self) -> None:
        """Show what is there."""
        self._arrange()
        self.show()

    def on_resize(self) -> None:
        """Side by side, or one below the other."""
        self._arrange()
        self.show()

    def _arrange(self) -> None:
        self.query_one(".sides").set_class(self.size.width >= ABREAST_CELLS, "-abreast")

    def show(self) -> None:
        """Bring the screen in line with the comparison."""
        now = self.comparison
        if now is None or not (self.is_mounted and self.is_attached):
            return
        sides = (now.first, now.second)
        for index, (side, (figures, text)) in enumerate(zip(sides, self._sides, strict=True)):
            width = max(figures.size.width, 20)
            figures.update(self._figures(side, width))
            text.update(self._text(side, sides[1 - index], is_over=now.stage == "over"))
        self._foot.update(self._state(now))
        sheet = self.query_one(".sheet")
        sheet.border_subtitle = "Esc closes" if now.stage == "over" else "Esc stops"

    def _figures(self, side: Side, width: int) -> Text:
        look, rates = self._look, side.rates
        mean, ttft, a_round = rates.mean_tok_s, rates.ttft_s, rates.tokens_a_round
        prompt = rates.prompt
        first = [
            Part(visible_line(side.name, 24), look.accent, 9),
            Part(f"{mean:.1f} tok/s" if mean else "", look.good, 8),
            Part(f"TTFT {ttft:.2f} s" if ttft is not None else "", look.text, 7),
            Part(f"{a_round:.2f} tok a round" if a_round else "", look.text, 6),
        ]
        second = [
            Part(self._bandwidth(side), look.text, 9),
            Part(f"{rates.total_tokens} tokens" if rates.rounds else "", look.dim, 7),
            Part(f"{prompt.num_total - prompt.num_reused} read" if prompt else "", look.dim, 5),
        ]
        dot = f" {look.signs.dot} "
        lines = (fit(one, width, dot, look.faint) for one in (first, second))
        return Text("\n").join(lines)

    def _bandwidth(self, side: Side) -> str:
        gb_s, info = side.gb_s, side.info
        if not gb_s:
            return ""
        share = f", {share_of_read(gb_s, info.read_gb_s):.0%} of read bandwidth" if info else ""
        return f"{gb_s:.1f} GB/s{share}"

    def _text(self, side: Side, other: Side, *, is_over: bool) -> Text:
        look = self._look
        shown = visible(side.text)
        if not shown:
            return Text("nothing yet" if not is_over else "no answer", look.dim)
        at = difference_at(side.text, other.text, both_ended=side.has_ended and other.has_ended)
        if at is None:
            return Text(shown, look.text)
        before, after = visible(side.text[:at]), visible(side.text[at:])
        end = next((i for i, char in enumerate(after) if char.isspace()), len(after))
        return Text.assemble(
            (before, look.text),
            (f"{look.signs.folded}{after[:end]}", look.notice + look.link),
            (after[end:], look.text),
        )

    def _state(self, now: Comparison) -> Text:
        look = self._look
        if now.problem:
            return Text(visible(now.problem), look.notice)
        if now.stage == "over":
            return Text(self._verdict(now), look.text)
        word = SPOKEN[now.stage]
        if now.stage in ("going", "returning"):
            word = f"{word} {now.second.name if now.stage == 'going' else now.first.name}"
            if now.load is not None and now.load.is_all_read:
                word += f": {visible_line(now.load.file, 40)}"
            elif now.load is not None:
                word += f": {now.load.share:.0%} of {size_text(now.load.total_bytes)}"
                word += f", {now.load.gb_s:.2f} GB/s, {visible_line(now.load.file, 40)}"
        return Text(f"{look.signs.busy} {word}", look.dim)

    def _verdict(self, now: Comparison) -> str:
        at, count = now.difference, len(now.second.token_ids)
        if at is None:
            return f"The same {count} tokens. {now.first.name} is loaded again."
        return (
            f"The first difference is token {at + 1} of {len(now.first.token_ids)} and {count}; "
            f"it is marked {self._look.signs.folded}. {now.first.name} is loaded again."
        )

    def action_leave(self) -> None:
        """Stop what runs; close when it is over or on its way back."""
        if self.comparison is None or not self.comparison.stop():
            self.dismiss()
