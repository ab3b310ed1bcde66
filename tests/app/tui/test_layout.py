"""Where pieces lie: every guess that drawing proves wrong is put right, not only the first."""

from app.tui.layout import Layout
from app.tui.pieces import NoticePiece, PromptPiece
from app.tui.theme import get_look

LOOK = get_look("qwen38-dark")


def test_every_wrong_guess_of_one_drawing_is_put_right():
    layout = Layout()
    layout.use(40, LOOK)
    pieces = [PromptPiece("word " * n, "09:41") for n in (3, 17, 30)]
    layout.splice(0, 0, [*pieces, NoticePiece("Title", "word " * 20)])
    while layout.draw(0, 100):
        pass
    heights = [piece.height(40, LOOK) for piece in layout.pieces]
    assert [b - a for a, b in zip(layout.tops, layout.tops[1:], strict=False)] == heights
