"""Texts side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worker.report.page import CONTEXT, ROWS_MAX, difference

WORDS = st.lists(st.sampled_from(["the", "ferry", "is", "late", "橋", "は", "ที่", ",", ".", "Über"]), max_size=120)


@given(WORDS, WORDS)
def test_what_is_shown_is_what_the_texts_have(first: list[str], second: list[str]) -> None:
    """Each side shows its own words in order; what is not marked is equal on both sides."""
    found = difference(" ".join(first), " ".join(second))
    assert found.is_equal == (first == second) or found.more
    for row in found.rows:
        for side, words in ((row.left, first), (row.right, second)):
            shown = "".join(part.text for part in side)
            assert shown in " ".join(words)
        shared = [
            "".join("".join(part.text for part in side if part.is_shared).split()) for side in (row.left, row.right)
        ]
        assert shared[0] == shared[1]


def test_long_equal_runs_are_left_out_and_counted() -> None:
    """A few words stay on either side of a change."""
    text = [f"w{number}" for number in range(100)]
    changed = [*text[:50], "other", *text[51:]]
    found = difference(" ".join(text), " ".join(changed))
    (row,) = found.rows
    assert (row.left_out, found.left_out) == (50 - CONTEXT, 49 - CONTEXT)
    assert [part.text for part in row.right] == [" ".join(text[50 - CONTEXT : 50]) + " ", "other ",
                                                 " ".join(text[51 : 51 + CONTEXT]) + " "]  # fmt: skip


def test_equal_texts_show_their_beginning() -> None:
    """And how much follows."""
    text = " ".join(f"w{number}" for number in range(100))
    found = difference(text, text.replace(" ", "\n"))
    assert found.is_equal and found.left_out == 100 - 2 * CONTEXT
    assert found.rows[0].left[0].text.startswith("w0 w1") and found.rows[0].right[0].text.startswith("w0\nw1")


def test_what_one_text_has_behind_all_of_the_other_is_shown() -> None:
    """A copy with a paragraph more is not equal."""
    text = " ".join(f"w{number}" for number in range(100))
    for pair in ((text, f"{text} more"), (f"{text} more", text)):
        found = difference(*pair)
        (row,) = found.rows
        assert (found.is_equal, row.left_out, found.left_out) == (False, 100 - CONTEXT, 0)
        assert [part.text for part in row.left + row.right if not part.is_shared] == ["more"]


def test_scripts_without_spaces_differ_by_the_character() -> None:
    """One character is changed, one is marked."""
    (row,) = difference("橋は古い。", "橋は新い。").rows
    assert [part.text for part in row.left + row.right if not part.is_shared] == ["古", "新"]


def test_marks_stay_with_their_letters() -> None:
    """A word of Hindi is one word; a tone of Thai is no sign of its own."""
    (row,) = difference("पहले यह जंगली नाहा", "पहले वह जंगली नाहा").rows
    assert [part.text for part in row.left + row.right if not part.is_shared] == ["यह ", "वह "]
    (row,) = difference("ที่นี่", "ที่นั่").rows
    assert [part.text for part in row.left + row.right if not part.is_shared] == ["นี่", "นั่"]


def test_many_places_are_counted() -> None:
    """The first are shown."""
    text = [f"w{number}" for number in range(60 * ROWS_MAX)]
    changed = [word if number % 40 else "x" for number, word in enumerate(text)]
    found = difference(" ".join(text), " ".join(changed))
    assert (len(found.rows), found.more) == (ROWS_MAX, 60 * ROWS_MAX // 40 - ROWS_MAX)
