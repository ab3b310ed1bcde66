"""One turn on the transcript: pieces as text arrives, and their final form at the end."""

from collections.abc import Callable, Sequence

from app.blocks import Block, has_references
from app.sessions.entries import MessageEntry
from app.tui.answer import TailPiece, ThinkingPiece, finished_pieces
from app.tui.file_piece import split_files
from app.tui.instruments.token_kinds import GrowingSpans, spans_of
from app.tui.instruments.tokens_piece import GrowingTokensPiece, TokensPiece
from app.tui.pieces import (
    AnswerTitlePiece,
    BlockPiece,
    FootPiece,
    NoticePiece,
    Piece,
    PromptPiece,
    Tone,
)
from app.tui.transcript import Transcript
from app.visible import visible
from engine.records import RoundRecord, TurnRecord
from engine.sizes import counted

STOPPED = {
    "cancelled": "stopped, the text is kept: /continue goes on",
    "length": "reached the longest answer (sampling.max_tokens)",
    "context_full": "the context is full: begin a new conversation with Ctrl+N",
    "interrupted": "cut off",
    "error": "ended by an error",
}
"""What the foot of an answer says about an end that was not the model's own."""


class AnswerView:
    """The pieces of the answer in progress."""

    def __init__(
        self,
        transcript: Transcript,
        title: AnswerTitlePiece,
        mode: str,
        by_token: Callable[[], bool],
    ) -> None:
        self._by_token = by_token
        self._transcript = transcript
        self._thinking = ThinkingPiece(mode)
        self._thinking.is_streaming = True
        self._tail = TailPiece()
        self._tail.gap = 0
        self._blocks: list[BlockPiece] = []
        self._text: list[str] = []
        self._message_id = ""
        self._spans: GrowingSpans | None = GrowingSpans()
        self._tokens: GrowingTokensPiece | None = None
        self._title = title
        transcript.append(self._title, self._thinking, self._tail)

    def belong_to(self, message_id: str) -> None:
        """Say which message of the session this is, before text arrives."""
        self._message_id = message_id
        for piece in (self._title, self._thinking, self._tail):
            piece.message_id = message_id

    def begin_with(self, entry: MessageEntry) -> None:
        """Show what an answer that goes on says already."""
        if entry.reasoning:
            self._thinking.feed(visible(entry.reasoning))
            self._tail.gap = 1
        if entry.reasoning or entry.content:
            self._spans = None  # nobody counted its tokens
        if entry.content:
            self.write(entry.content)

    def think(self, text: str, seconds: float) -> None:
        """Show more thinking."""
        self._thinking.feed(visible(text))
        self._thinking.seconds = seconds
        self._tail.gap = 1
        self._transcript.changed(self._thinking)

    def write(self, text: str) -> None:
        """Show more of the answer."""
        text = visible(text)
        self._text.append(text)
        if self._thinking.is_streaming:
            self._fold_thinking()
        if self._tokens is not None:
            self._show_tokens(self._tokens)
            return
        for block in self._tail.feed(text):
            self._seal(block)
        self._transcript.changed(self._tail)
        self.take_form()

    def mark(self, one: RoundRecord, token_chars: Sequence[int]) -> None:
        """Note how the tokens of a round came."""
        if self._spans is not None:
            self._spans.take(one, token_chars)

    def take_form(self) -> None:
        """Show what is there as tokens or as blocks, as the settings ask for."""
        wants_tokens = self._by_token() and self._spans is not None and bool(self._text)
        if wants_tokens and self._tokens is None:
            self._tokens = GrowingTokensPiece(gap=self._first_gap)
            self._replace_blocks([self._tokens])
            self._change_tail(TailPiece(has_caret=False))
            self._show_tokens(self._tokens)
        elif not wants_tokens and self._tokens is not None:
            self._transcript.take_away(self._tokens)
            self._tokens = None
            fresh = TailPiece()
            fresh.gap = self._first_gap
            self._change_tail(fresh)
            for block in self._tail.feed("".join(self._text)):
                self._seal(block)
            self._transcript.changed(self._tail)

    def _show_tokens(self, piece: GrowingTokensPiece) -> None:
        if self._spans is not None:
            piece.show("".join(self._text), self._spans.spans(len(self._thinking.source)))
        self._transcript.changed(piece)

    def _change_tail(self, fresh: TailPiece) -> None:
        fresh.message_id = self._message_id
        self._transcript.insert_before(self._tail, fresh)
        self._transcript.take_away(self._tail)
        self._tail = fresh

    def raise_notice(self, piece: NoticePiece) -> None:
        """Show a notice above what is being written."""
        self._transcript.insert_before(self._tail, piece)

    def finish(self, entry: MessageEntry, record: TurnRecord | None, note: str = "") -> None:
        """Show the answer as it was kept, and how it went."""
        self._fold_thinking()
        content = visible(entry.content)
        spans = spans_of(record) if self._by_token() and record is not None else []
        if spans:
            self._replace_blocks([TokensPiece(content, spans, gap=self._first_gap)])
        elif (
            self._tokens is None and content == "".join(self._text) and not has_references(content)
        ):
            for block in self._tail.cutter.finish():
                self._seal(block)
        else:
            self._replace_blocks(finished_pieces(entry.content, first_gap=self._first_gap))
        self._transcript.changed(self._tail)
        self._insert(foot_of(entry, record, note))
        self._transcript.take_away(self._tail)

    def _fold_thinking(self) -> None:
        self._thinking.is_streaming = False
        self._thinking.forget()
        self._transcript.changed(self._thinking)

    def _seal(self, block: Block) -> None:
        piece = BlockPiece(block, gap=self._tail.gap)
        self._tail.gap = 1
        self._blocks.append(piece)
        self._insert([piece])

    def _insert(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            piece.message_id = self._message_id
        self._transcript.insert_before(self._tail, *pieces)

    @property
    def _first_gap(self) -> int:
        return 1 if self._thinking.source else 0

    def _replace_blocks(self, fresh: Sequence[Piece]) -> None:
        for piece in (*self._blocks, *([self._tokens] if self._tokens else [])):
            self._transcript.take_away(piece)
        self._blocks = []
        self._insert(fresh)


def pieces_of(
    entry: MessageEntry,
    name: str,
    at: str,
    mode: str,
    place: str = "",
    *,
    by_token: bool = False,
) -> list[Piece]:
    """The pieces of a message that is complete.

    Args:
        entry: the message.
        name: who answered.
        at: when it was written, as it is shown.
        mode: how thinking is shown.
        place: which of the messages beside each other it is; empty when it stands alone.
        by_token: mark how the answer's tokens came.
    """
    if entry.role == "user":
        text, files = split_files(entry)
        pieces: list[Piece] = [PromptPiece(text, at, place), *files]
    else:
        title = AnswerTitlePiece(name, at, place)
        pieces = [title, *_answer_of(entry, mode, by_token=by_token)]
    for piece in pieces:
        piece.message_id = entry.id
    return pieces


def _answer_of(entry: MessageEntry, mode: str, *, by_token: bool) -> list[Piece]:
    pieces: list[Piece] = []
    if entry.reasoning:
        pieces.append(ThinkingPiece(mode, entry.reasoning))
    gap = 1 if entry.reasoning else 0
    spans = spans_of(entry.record) if by_token and entry.record is not None else []
    if spans:
        pieces.append(TokensPiece(entry.content, spans, gap=gap))
    else:
        pieces += finished_pieces(entry.content, first_gap=gap)
    return [*pieces, *foot_of(entry, entry.record)]


def foot_of(entry: MessageEntry, record: TurnRecord | None, note: str = "") -> list[Piece]:
    """What stands below an answer: its figures, and why it ended if not by itself."""
    reason = note or (STOPPED.get(entry.reason, entry.reason) if entry.state == "stopped" else "")
    parts = [reason] if reason else []
    if record is not None and record.token_ids:
        count = len(record.token_ids)
        parts.append(counted(count, "token"))
        if record.decode_tok_s:
            parts.append(f"{record.decode_tok_s:.1f} tok/s")
        parts.append(f"first after {record.ttft_s:.2f} s")
    tone: Tone = "warning" if reason else "info"
    return [FootPiece(parts, tone)] if parts else []
