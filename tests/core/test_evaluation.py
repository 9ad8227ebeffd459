"""Evaluation: what pairs say of a search, and how sure that is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.definition import Kind
from worker.core.evaluation import (
    SHINGLE_WIDTH,
    Pairs,
    exact_jaccard,
    finds,
    groups,
    leaders,
    measure,
    reasons,
    score,
    shingle_set,
)
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.core.search import Document, Original, SearchRules, best, condition, look, looks
from worker.core.sketch import words_of
from worker.core.tokens import tokens, tokens_quickly

WORDS = st.integers(0, 2**64 - 1)
FLIPS = st.lists(st.integers(0, 63), max_size=14).map(lambda bits: sum({1 << bit for bit in bits}))
RULES = st.builds(
    SearchRules,
    mode=st.sampled_from(["directed", "directed", "exact"]),
    max_distance=st.integers(0, 16),
    blocks=st.just(4),
    block_bits=st.just(16),
    patterns=st.sampled_from([1, 16, 128]),
    look_min=st.sampled_from([0, 800, 900]),
    similarity_min=st.sampled_from([0, 500, 750]),
)
SKETCHES = st.lists(st.integers(0, 511), max_size=120).map(lambda bits: sum({1 << bit for bit in bits}))


def _batch(fingerprints: list[int], doubts: list[int], sketches: list[int]) -> FingerprintBatch:
    count = len(fingerprints)
    values = (np.array(fingerprints, np.uint64), np.ones(count, np.uint32), np.arange(count, dtype=np.uint64))
    words = np.array([words_of(sketch) for sketch in sketches], np.uint64)
    return FingerprintBatch(*values, np.full(count, Kind.FULL, np.uint8), np.array(doubts, np.uint64), words)


@given(WORDS, FLIPS, WORDS, WORDS, WORDS, st.tuples(st.integers(0, 2**512 - 1), SKETCHES), RULES)
def test_a_pair_is_found_as_the_search_finds_it(
    value: int, flips: int, first_doubts: int, doubts: int, mask: int, sketches: tuple[int, int], rules: SearchRules
) -> None:
    """Alone in an index, the first document is found by the second exactly when the search's definition says so."""
    doubts &= mask  # about a quarter of the bits, as in texts
    facts = sketches[0], sketches[0] ^ sketches[1]
    batch = _batch([value, value ^ flips], [first_doubts, doubts], list(facts))
    pairs = Pairs(np.array([0]), np.array([1]), np.array([True]), ["made"])
    measured = measure(batch, pairs, rules)
    (reason,) = reasons(measured, rules)
    document, original = Document(value ^ flips, doubts, facts[1]), Original(0, value, first_doubts, facts[0])
    is_found = best(rules, document, [original]) is not None
    assert finds(measured, rules).tolist() == [is_found] == [not reason]
    prefix = "no prefix that is looked up is theirs"
    assert ("wanted" in condition(rules, document, original)) == (reason not in ("", prefix))
    assert looks(np.array([flips], np.uint64), batch.doubts[:1], batch.doubts[1:]) == [
        look(value, first_doubts, value ^ flips, doubts)
    ]


def test_texts_too_short_match_their_equals_only() -> None:
    """Two short texts are a pair when they are equal up to case and spaces; a short and a long one never are."""
    batch = Fingerprinter().batch(
        ["The ferry", "the FERRY!", "a ferry", "the ferry is late again and nobody knows why"]
    )
    pairs = Pairs(np.array([0, 0, 0]), np.array([1, 2, 3]), np.ones(3, bool), ["made"] * 3)
    short = "too short to be compared but as equals"
    assert reasons(measure(batch, pairs, SearchRules()), SearchRules()) == ["", short, short]


def test_groups_are_joined_by_pairs_that_are_the_same() -> None:
    """0, 1 and 2 are one document; a pair that is not the same joins nothing, and belongs to its first document."""
    pairs = Pairs(np.array([0, 1, 2, 4]), np.array([1, 2, 3, 3]), np.array([True, True, False, False]), ["x"] * 4)
    found = groups(pairs, 5)
    assert found[0] == found[1] == found[2] != found[3]


def test_shares_are_counted_and_their_intervals_hold_them() -> None:
    """Of 40 pairs the same 30 are found, of 60 others 6: recall .75, precision 30/36; each lies in its interval."""
    same = np.arange(100) < 40
    found = (np.arange(100) < 30) | (np.arange(100) >= 94)
    scores = score(found, same, np.arange(100))
    assert (scores.same, scores.other) == (40, 60)
    assert [one.value for one in scores[2:]] == pytest.approx([0.75, 0.1, 30 / 36, 60 / 76])
    assert all(one.low < one.value < one.high for one in scores[2:])


def test_pairs_of_one_group_say_as_much_as_one() -> None:
    """The same pairs in few groups have wider intervals than in groups of their own."""
    same, found = np.ones(200, bool), np.arange(200) % 100 < 75
    alone = score(found, same, np.arange(200)).recall
    together = score(found, same, np.arange(200) // 25).recall
    assert together.high - together.low > 2 * (alone.high - alone.low)
    assert math.isnan(score(found, same, np.arange(200)).false_positives.value)


def test_leaders_are_what_a_log_would_say() -> None:
    """Each document's original is an earlier one that is new itself; equal short texts follow the first of them."""
    text = "the ferry on the river is late again and nobody on the bank knows why it has not come"
    texts = [text, "too short", text.upper(), text.replace("late", "early"), "TOO SHORT", "something else that is long"]
    of = leaders(Fingerprinter().batch(texts), SearchRules(look_min=0))
    assert of.tolist()[:3] == [-1, -1, 0]
    assert of.tolist()[4:] == [1, -1]


@given(
    st.text(st.characters(exclude_categories=["Cn"]), max_size=60)
    | st.text("aB1 ,-\u00ad\u0301é東京กำ\ud800\U0001f600", max_size=60)
)
def test_tokens_are_quickly_what_they_are(text: str) -> None:
    """The quick way cuts and folds as the definition does."""
    assert tokens_quickly(text) == tokens(text)


@given(st.text("abc ", max_size=30), st.text("abc ", max_size=30))
def test_a_jaccard_index_is_that_of_the_shingles(one: str, other: str) -> None:
    """As sets of tuples of tokens would say."""
    sets = []
    for text in (one, other):
        words = tokens(text)
        width = min(len(words), SHINGLE_WIDTH)
        sets.append({tuple(words[at : at + width]) for at in range(len(words) - width + 1 if words else 0)})
    expected = len(sets[0] & sets[1]) / max(1, len(sets[0] | sets[1]))
    assert exact_jaccard(shingle_set(one), shingle_set(other)) == expected
