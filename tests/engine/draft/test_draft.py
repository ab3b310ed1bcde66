"""What a draft says of tokens that a target chooses."""

from engine.draft.draft import Draft

CHAIN = Draft.chain([5, 6, 7])
# 0 -> 5 -> 6, 0 -> 8 -> 9 in walking order: rows 1 and 2 are one branch, 3 and 4 the other
TREE = Draft.tree([5, 8, 6, 9], [0, 0, 1, 2])


def test_agreement_counts_rows_that_drafts_follow_and_drafts_that_are_right():
    assert CHAIN.agreement([5, 6, 1]) == (3, 2)
    assert CHAIN.agreement([5, 6, 7, 1]) == (3, 3)
    assert CHAIN.agreement([1]) == (1, 0)
    assert CHAIN.agreement([5]) == (1, 1)  # the turn ended there
    assert TREE.agreement([8, 9, 1]) == (2, 2)
    assert Draft.chain(()).agreement([1]) == (0, 0)


def test_a_path_holds_a_row_for_each_token_that_is_chosen():
    assert CHAIN.path_of([5, 6, 1]) == [0, 1, 2]
    assert Draft.chain(()).path_of([1]) == [0]
    for one, token_ids in ((TREE, [8, 9, 1]), (TREE, [5, 6, 1])):
        rows = one.path_of(token_ids)
        assert [one.token_ids[row - 1] for row in rows[1:]] == token_ids[:-1]
        assert rows == list(one.plan.paths[rows[-1]])


def test_there_is_no_path_where_the_target_would_read_on_or_stop_before():
    assert CHAIN.path_of([5]) == []
    assert CHAIN.path_of([1, 5]) == []
    assert CHAIN.path_of(()) == []


def test_the_path_along_a_text_is_its_longest_beginning():
    assert CHAIN.path_along([5, 6, 9]) == (5, 6)
    assert TREE.path_along([8, 9, 4]) == (8, 9)
    assert TREE.path_along([1]) == ()
