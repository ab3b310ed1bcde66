"""Ctrl+F: from what is typed in the find bar to the matches on the transcript."""

from app.tui.answer import ThinkingPiece
from app.tui.find import Hit, is_folded
from app.tui.find_bar import FindBar
from app.tui.lines import Part, fit
from app.tui.transcript import Transcript

BOX_CELLS = 20
"""The least that is left for what one types."""


class Finding:
    """Finds while one types; n and N, or Enter and Up in the bar, walk over the matches."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._finder = transcript.finder
        self.bar = FindBar()
        self._unfolded: dict[ThinkingPiece, str] = {}
        """Thinking that was opened to show a match, and how it was shown before."""

    def open(self, text: str = "") -> None:
        """Show the bar; with ``text`` given, look for that and go to the conversation."""
        self.bar.open(text or None)
        if text:
            self.look_for(text)
            self._transcript.focus()

    def close(self) -> bool:
        """Hide the bar and the matches; False when it was not there."""
        if not self.bar.display:
            return False
        self.bar.close()
        self._unfolded.clear()
        self._finder.look_for("")
        self._transcript.follow_at_end()
        self._transcript.refresh()
        return True

    def look_for(self, text: str) -> None:
        """Look for another text, from the first row in view on."""
        if text == self._finder.text:
            return
        self._fold_again()
        self._finder.look_for(text)
        hits = self._hits()
        transcript = self._transcript
        first, _ = transcript.layout_rows.at_row(transcript.scroll_offset.y)
        below = {id(one) for one in transcript.pieces[first:]}
        self._go_to(hits, next((at for at, hit in enumerate(hits) if id(hit.piece) in below), 0))

    def step(self, step: int) -> bool:
        """Go to the next match, or the one before; round at the ends. False: nothing is found."""
        if not self.bar.display:
            return False
        hits, current = self._hits(), self._finder.current
        at = hits.index(current) if current in hits else -1
        self._go_to(hits, (at + step) % max(len(hits), 1))
        return True

    def _fold_again(self) -> None:
        for piece, mode in self._unfolded.items():
            piece.set_mode(mode)
            self._transcript.changed(piece)
        self._unfolded.clear()

    def _hits(self) -> list[Hit]:
        return self._finder.hits(self._transcript.pieces)

    def _go_to(self, hits: list[Hit], at: int) -> None:
        if not hits:
            self._finder.current = None
            self._say("nothing found" if self._finder.text.strip() else "")
            self._transcript.refresh()
            return
        hit = hits[at]
        if isinstance(hit.piece, ThinkingPiece) and is_folded(hit.piece):
            self._unfolded[hit.piece] = hit.piece.mode
            hit.piece.set_mode("open")
        self._transcript.draw_piece(hit.piece)
        spans = self._finder.spans(hit.piece)
        last = max((nth for found in spans.values() for *_, nth in found), default=0)
        self._finder.current = Hit(hit.piece, min(hit.nth, last))
        row = next((row for row, found in spans.items() for *_, nth in found
                    if nth == self._finder.current.nth), 0)  # fmt: skip
        self._transcript.reveal(hit.piece, row)
        note = ", in thinking that was folded" if hit.piece in self._unfolded else ""
        self._say(f"{at + 1} of {len(hits)}{note}")

    def _say(self, sentence: str) -> None:
        look = self._transcript.look
        keys = ("Enter next", "Up back", "Esc closes") if self.bar.has_focus_within else ("n", "N")
        parts = [Part(sentence, look.text, 2), Part(f" {look.signs.dot} ".join(keys), look.dim, 1)]
        room = self._transcript.screen.size.width - BOX_CELLS
        self.bar.show_count(fit(parts, room, "  ", look.faint))
