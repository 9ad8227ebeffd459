"""Two texts side by side, against plain oracles."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.compare import compare, steps
from worker.core.definition import Kind, Parameters, define
from worker.core.sketch import sketch_similarity
from worker.core.tokens import tokens

some_tokens = st.lists(st.sampled_from("abcde"), max_size=40)


def length_by_table(first: list[str], second: list[str]) -> int:
    """The classical table, cell by cell."""
    above = [0] * (len(first) + 1)
    for right in second:
        row = [0]
        for i, left in enumerate(first):
            row.append(above[i] + 1 if left == right else max(row[i], above[i + 1]))
        above = row
    return above[-1]


@given(some_tokens, some_tokens)
def test_the_steps_lead_from_one_list_to_the_other(first: list[str], second: list[str]) -> None:
    """
    Equal and removed runs are the first list, equal and added ones the second; the equal ones are
    the longest.
    """
    found = steps(first, second)
    assert [token for step in found if step.kind != "added" for token in step.tokens] == first
    assert [token for step in found if step.kind != "removed" for token in step.tokens] == second
    equal = sum(len(step.tokens) for step in found if step.kind == "equal")
    assert equal == length_by_table(first, second)
    assert all(step.tokens for step in found)
    assert all(a.kind != b.kind for a, b in pairwise(found))


@given(st.lists(st.sampled_from(["the", "of", "ferry", "river", "old", "red"]), max_size=30).map(" ".join),
       st.lists(st.sampled_from(["the", "of", "ferry", "river", "old", "new"]), max_size=30).map(" ".join))  # fmt: skip
def test_measures_equal_their_definitions(first: str, second: str) -> None:
    """
    Shares by counting sets, fingerprints by the definition, and every shingle in exactly one list.
    """
    parameters = Parameters(tokens_min=2)
    found = compare(first, second, parameters, (None, None))
    words = [tokens(first), tokens(second)]
    assert found.fingerprints == (define(first, parameters), define(second, parameters))
    assert found.tokens == (len(words[0]), len(words[1]))
    union = set(words[0]) | set(words[1])
    assert found.jaccard_words == (
        len(set(words[0]) & set(words[1])) / len(union) if union else 1.0
    )
    if min(found.tokens) >= 2:
        pairs = [set(pairwise(own)) for own in words]
        assert found.jaccard_shingles == len(pairs[0] & pairs[1]) / len(pairs[0] | pairs[1])
        assert {tuple(one.shingle.split()) for one, _ in found.shared} == pairs[0] & pairs[1]
        assert {tuple(one.shingle.split()) for one in found.only[0]} == pairs[0] - pairs[1]
        assert {tuple(one.shingle.split()) for one in found.only[1]} == pairs[1] - pairs[0]
    assert found.distance == bin(found.differing).count("1")
    if found.fingerprints[0].kind == found.fingerprints[1].kind == Kind.FULL:
        assert (
            found.similarity
            == sketch_similarity(*(made.sketch for made in found.fingerprints)) / 1_000
        )


def words(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


W = words("w", 400)


@pytest.mark.parametrize(
    ("first", "second", "share", "lengths"),
    [
        (
            words("n", 200) + W,
            W,
            400 / 600,
            (600, 400),
        ),  # what is equal at an end stays in the count
        (W, W[:100], 100 / 400, (400, 100)),
        (
            W[:150] + words("a", 300) + W[150:],
            W[:150] + words("b", 300) + W[150:],
            400 / 700,
            (500, 500),
        ),
        (
            W[:50] + words("a", 300),
            W[:50] + words("b", 300),
            50 / 350,
            (150, 150),
        ),  # at least: of the whole length
    ],
)
def test_longer_texts_are_compared_by_their_ends_and_the_beginning_of_what_differs(
    monkeypatch: pytest.MonkeyPatch,
    first: list[str],
    second: list[str],
    share: float,
    lengths: tuple[int, int],
) -> None:
    """
    What differs is longer than the bound: the subsequence sees that much of each behind their
    common beginning.
    """
    monkeypatch.setattr("worker.core.compare.TOKENS_MAX", 100)
    found = compare(" ".join(first), " ".join(second), Parameters(), (None, None))
    assert (found.subsequence, found.subsequence_tokens) == (share, lengths)


@pytest.mark.parametrize(("first", "second", "share"), [("", "…", 1), ("", "the old ferry", 0)])
def test_empty_texts_are_equal_and_an_empty_one_is_unlike_any_other(
    first: str, second: str, share: int
) -> None:
    """Nothing to compare: every share is 1; nothing against something: every share is 0."""
    found = compare(first, second, Parameters(), (None, None))
    assert {found.jaccard_words, found.jaccard_shingles, found.similarity, found.subsequence} == {
        share
    }
    assert share == 0 or found.distance == 0


def test_a_long_token_costs_what_its_characters_do() -> None:
    """Twice the letters without a space, and twice again, take at most 2.5 times the time each."""
    times_s = dict.fromkeys((1 << 17, 1 << 18, 1 << 19), math.inf)
    for _ in range(10):  # another process can only add to a time: the least of many is compared
        for size, before_s in times_s.items():
            begun_s = time.process_time()
            assert [len(token) for token in tokens("x" * size)] == [size]
            times_s[size] = min(before_s, time.process_time() - begun_s)
        if all(larger < 2.5 * smaller for smaller, larger in pairwise(times_s.values())):
            return
    pytest.fail(f"seconds by letters: {times_s}")
