"""The rules of the search: their bounds, their text, and the blocks of the permutations."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.marks import NO_MARK, page_mark
from worker.core.search import (
    PAIRED,
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    again,
    agains,
    best,
    condition,
)
from worker.core.sketch import words_of


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "near"},
        {"max_distance": 17},
        {"max_distance": -1},
        {"blocks": 0},
        {"blocks": 5, "block_bits": 16},
        {"blocks": 4, "block_bits": 17},
        {"blocks": 10, "block_bits": 28},
        {"blocks": 10, "block_bits": 25},
        {"block_bits": 15},
        {"patterns": 0},
        {"patterns": 129},
        {"look_min": 1_001},
        {"prefix_max": 0},
        {"similarity_min": 1.001},
        {"similarity_min": 800},  # thousandths, as it was once given
    ],
)
def test_a_rule_out_of_bounds_is_refused_by_name(wrong: dict[str, object]) -> None:
    """The message names the rule and what was given."""
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.*{next(iter(wrong.values()))}"):
        SearchRules(**wrong)  # type: ignore[arg-type]


def test_a_rule_may_be_a_number_of_numpy_and_is_kept_as_an_int() -> None:
    """Its JSON is hashed, so what is no whole number is refused."""
    rules = SearchRules(max_distance=np.int64(12), blocks=np.uint8(3))  # type: ignore[arg-type]
    assert rules == SearchRules(max_distance=12, blocks=3)
    assert {type(rules.max_distance), type(rules.blocks)} == {int}
    for wrong in (True, 12.0, "12"):
        with pytest.raises(TypeError, match="max_distance must be a whole number"):
            SearchRules("exact", wrong)  # type: ignore[arg-type]


def test_different_rules_have_different_texts() -> None:
    """The text stands for the rules in the log's definition."""
    rules = [
        SearchRules(), SearchRules(max_distance=11), SearchRules(blocks=3),
        SearchRules(blocks=3, block_bits=20), SearchRules(patterns=16), SearchRules(look_min=775),
        SearchRules(similarity_min=0), SearchRules(similarity_min=0.749),
        SearchRules("exact", 3, similarity_min=0.75), SearchRules(prefix_max=4_095),
        SearchRules("exact", 12), SearchRules("exact", 3),
    ]  # fmt: skip
    assert len({one.text for one in rules}) == len(set(rules)) == len(rules)


def test_what_falls_short_by_a_thousandth_is_told_as_less_than_what_is_wanted() -> None:
    """Not "0.67, 0.67 required"."""
    one, other = SearchedDocument(0, 0, 0b11), SearchedOriginal(0, 0, 0, 0b111)
    assert condition(SearchRules(similarity_min=0.666), one, other).endswith(
        "similarity 0.665, 0.666 required"
    )


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, *PAIRED])
@pytest.mark.parametrize("block_bits", range(16, 33))
def test_blocks_lie_within_the_64_bits_and_have_their_width(blocks: int, block_bits: int) -> None:
    """
    Blocks side by side share no bit; each pair of runs is another block; every bit of a run is
    within the 64.
    """
    try:
        runs = SearchRules(blocks=blocks, block_bits=block_bits).runs
    except ValueError:
        return
    bits = [[bit for low, width in block for bit in range(low, low + width)] for block in runs]
    assert len(bits) == blocks == len({tuple(block) for block in bits})
    for block in bits:
        assert block_bits - 2 <= len(block) == len(set(block)) <= block_bits
        assert block == sorted(block)
        assert 0 <= block[0] <= block[-1] < 64
    if len(runs[0]) == 1:
        assert len(set().union(*bits)) == blocks * block_bits


@pytest.mark.parametrize(
    ("bins", "margin", "stands_out"),
    [(100, 0.12, True), (100, 0, False), (5, 0.12, False)],
    ids=["below .80", "without a margin", "as good as equal"],
)
def test_of_a_similarity_that_has_to_stand_out_it_is_told(
    bins: int, margin: float, stands_out: bool
) -> None:
    """By how much, and from whom; a pair alone cannot tell whether it does."""
    one = SearchedDocument(0, 0, (1 << 300) - 1)
    other = SearchedOriginal(0, 0, 0, (1 << 300 - bins) - 1)
    rules = SearchRules(similarity_min=0.3, similarity_margin=margin)
    assert best(rules, one, [other]) is not None
    told = condition(rules, one, other)
    wanted = "it must be 0.120 above the fourth most similar original, if there are four"
    assert told.endswith(wanted) is stands_out


_MARKS = [NO_MARK] + [page_mark(f"https://a.example/{at}", at, 90 + 20 * at) for at in range(1, 4)]


@given(
    st.integers(0, 2**32),
    st.sampled_from(
        [SearchRules(), SearchRules("exact", 3), SearchRules("exact", 6, similarity_min=0.5)]
    ),
)
def test_many_pairs_are_judged_again_as_one_is(seed: int, rules: SearchRules) -> None:
    """Near ones and others, of one host and of none: whether they match, and how alike they are."""
    dice = random.Random(seed)
    base = dice.getrandbits(504)

    def drawn() -> tuple[int, int, int, int]:
        """Fingerprint, doubts, sketch and mark: few bits of each are those of another document."""
        flips = sum(1 << dice.randrange(64) for _ in range(dice.randrange(8))) % 2**64
        noise = sum(1 << dice.randrange(504) for _ in range(dice.randrange(60))) % 2**504
        return flips, dice.getrandbits(64) & dice.getrandbits(64), base ^ noise, dice.choice(_MARKS)

    pairs = [(drawn(), drawn()) for _ in range(12)]
    columns = []
    for documents in zip(*pairs, strict=True):
        fingerprints, doubts, sketches, marks = zip(*documents, strict=True)
        numbers = [np.array(column, np.uint64) for column in (fingerprints, doubts, marks)]
        words = np.array([words_of(sketch) for sketch in sketches], np.uint64)
        columns.append([numbers[0], numbers[1], words, numbers[2]])
    is_match, distances, similarities = agains(rules, columns[0], columns[1])
    for at, (document, other) in enumerate(pairs):
        match = again(rules, SearchedDocument(*document), SearchedOriginal(0, *other))
        assert bool(is_match[at]) == (match is not None)
        if match:
            assert (distances[at], similarities[at]) == (match.distance, match.similarity)
