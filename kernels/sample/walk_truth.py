"""Say what a tree's walk must commit, by looking at all rows at once: no step of `accept`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Walk:
    """A verified tree, its rows in order, and what ends a walk.

    Attributes:
        parents: row that each row follows; -1 for row 0.
        tokens: id of each row.
        chosen: id that the target chose behind each row; -1 for none.
        stops: ids that end a turn.
        budget: tokens that may be committed.
    """

    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    chosen: tuple[int, ...]
    stops: tuple[int, ...]
    budget: int


def truth_of_walk(walk: Walk) -> dict[str, object]:
    """Find the rows whose whole way was chosen, and cut the longest way where the turn ends.

    Returns:
        What `laws.walked` reads, but for the parity.
    """
    agreed = [True] + [False] * (len(walk.parents) - 1)
    for row in range(1, len(walk.parents)):
        parent, token = walk.parents[row], walk.tokens[row]
        twins = [r for r in range(1, row) if (walk.parents[r], walk.tokens[r]) == (parent, token)]
        agreed[row] = agreed[parent] and token == walk.chosen[parent] and not twins
    way = [row for row, agrees in enumerate(agreed) if agrees]
    broken = next((at for at, row in enumerate(way) if walk.chosen[row] < 0), len(way))
    ends = [index + 1 for index, row in enumerate(way) if walk.chosen[row] in walk.stops]
    stop = ends[0] if ends else len(way) + 1
    count = max(0, min(broken, stop, walk.budget, len(way)))
    path = way[:count]
    if count and count == stop:
        finish = 1
    elif walk.budget <= count:
        finish = 2
    else:
        finish = 3 if broken < len(way) else 0
    committed = [walk.chosen[row] for row in path]
    tested = sum(row in walk.parents for row in path)
    # of the way's rows, those that a committed id led to: the last one may have ended the turn
    accepted = sum(walk.parents[row] in path for row in way[1:])
    behind = [0] * (32 - count)
    return {
        "counts": [count, accepted, tested, finish, 100 + count],
        "committed": committed + behind,
        "path": path + behind,
        "pending": [count, path + behind],
        "start": count,
        "budget": walk.budget - count,
        "root": committed[-1] if committed else walk.tokens[0],
    }
