"""Two texts side by side, against plain oracles."""

from __future__ import annotations

import math
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.compare import Spread, compare, spread, steps
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


ARTICLE = words("a", 300)
ADVERTS = [words("x", 40), words("y", 31), words("p", 38), words("q", 29)]
# What two advertisements of one language have in common, and what an alignment finds in them.
SHARED_WORDS = {7: "the", 8: "of", 15: "to", 22: "and", 23: "the"}


def spread_of(first: list[str], second: list[str]) -> Spread:
    return spread(steps(first, second))


def with_shared_words(advert: list[str]) -> list[str]:
    return [SHARED_WORDS.get(at, word) for at, word in enumerate(advert)]


def with_others(article: list[str], every: int) -> list[str]:
    return [f"z{at}" if at % every == 5 else word for at, word in enumerate(article)]


def between(article: list[str], first: list[str], second: list[str]) -> list[str]:
    """An article with an advertisement after its 100th and its 200th word."""
    return [*article[:100], *first, *article[100:200], *second, *article[200:]]


PAGE = "the price of the {} is {} EUR in the shop of {} and it is kept for you for {} days in {} ."


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        pytest.param(
            between(ARTICLE, ADVERTS[0], ADVERTS[1]),
            between(ARTICLE, ADVERTS[2], ADVERTS[3]),
            "differs in blocks (2 passages of 40 and 31 words): advertisements?",
            id="rotating advertisements",
        ),
        pytest.param(
            between(ARTICLE, *map(with_shared_words, ADVERTS[:2])),
            between(ARTICLE, *map(with_shared_words, ADVERTS[2:])),
            "differs in blocks (2 passages of 35 and 26 words): advertisements?",
            id="advertisements with the same function words",
        ),
        pytest.param(
            between(ARTICLE, ADVERTS[0], ADVERTS[1]),
            between(with_others(ARTICLE, 290), ADVERTS[2], ADVERTS[3]),
            "differs in blocks (2 passages of 40 and 31 words, 2 scattered places): "
            "advertisements?",
            id="advertisements and a small edit",
        ),
        pytest.param(
            ARTICLE,
            [*words("m", 60), *ARTICLE, *words("n", 45)],
            "differs in blocks (2 passages of 60 and 45 words): text added to B, or cut from A?",
            id="wrapped text",
        ),
        pytest.param(
            ARTICLE,
            ARTICLE[:210],
            "differs in blocks (1 passage of 90 words): text added to A, or cut from B?",
            id="cut text",
        ),
        pytest.param(
            PAGE.format("lamp", 20, "Lund", 14, "Ulm").split(),
            PAGE.format("chair", 75, "Moser", 30, "Kiel").split(),
            "differs in 3 scattered places: other facts?",
            id="product page with other facts",
        ),
        pytest.param(
            ARTICLE,
            with_others(ARTICLE, 8),
            "differs in 37 scattered places: other facts?",
            id="scattered words",
        ),
        pytest.param(
            " ".join(f"row {at} has" for at in range(30)).split(),
            " ".join(f"row {at} has" for at in range(50, 80)).split(),
            "differs in 1 place (30 words): other facts?",
            id="a row of single facts is long, but no passage",
        ),
        pytest.param(
            ARTICLE,
            with_others(ARTICLE, 299),
            "differs in 1 place (1 word): an edit?",
            id="one word changed",
        ),
        pytest.param(
            list("橋は古いので川を渡る人は皆そこを通ると町の人が言う") * 3,
            list("橋は古いので川を渡る人は皆そこを通ると町の人が言う") * 2
            + list("駅は新しい建物で毎朝多くの客が来る橋は長い"),
            "differs in 1 place (20 words): other facts?",
            id="characters are a third of a word",
        ),
        pytest.param(ARTICLE, ARTICLE, "token for token the same", id="equal texts"),
        pytest.param([], [], "token for token the same", id="empty texts"),
        pytest.param(
            ARTICLE,
            words("b", 200),
            "mostly other text: shares 0% of the shorter one's words",
            id="no common text",
        ),
        pytest.param(
            [],
            ARTICLE,
            "mostly other text: shares 0% of the shorter one's words",
            id="an empty text",
        ),
        pytest.param(
            [*ADVERTS[0], *words("b", 40)],
            [*ADVERTS[0], *words("c", 40)],
            "mostly other text: shares 50% of the shorter one's words",
            id="another article with the same advertisements",
        ),
    ],
)
def test_a_difference_is_told_in_words(first: list[str], second: list[str], text: str) -> None:
    """Blocks that change together are passages; facts that change one by one are scattered."""
    assert spread_of(first, second).text == text


def test_many_passages_are_told_by_the_longest() -> None:
    """Three lengths are named at most."""
    breaks = range(0, 300, 60)
    first = [word for at in breaks for word in (*ARTICLE[at : at + 60], *words(f"x{at}-", 12))]
    second = [word for at in breaks for word in (*ARTICLE[at : at + 60], *words(f"y{at}-", 14))]
    assert "(5 passages of up to 14 words)" in spread_of(first, second).text


@given(some_tokens, some_tokens)
def test_every_token_that_differs_is_in_one_place(first: list[str], second: list[str]) -> None:
    """Places hold what is removed and added, once; exchanged texts differ in the same kind."""
    found = spread_of(first, second)
    places = [*found.passages, *found.scattered]
    alone = {"removed": 0, "added": 0}
    for step in steps(first, second):
        if step.kind != "equal":
            alone[step.kind] += len(step.tokens)
    assert sum(place.first for place in places) == alone["removed"]
    assert sum(place.second for place in places) == alone["added"]
    assert (found.kind == "equal") == (first == second)
    assert 0 <= found.shared <= 1


def test_the_spread_looks_at_each_token_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the tokens, and twice again, are looked at 2.5 times as often at most."""
    looks: list[str] = []

    def counted(token: str) -> bool:
        looks.append(token)
        return False

    monkeypatch.setattr("worker.core.compare.is_character", counted)
    counts = []
    for size in (1_000, 2_000, 4_000):
        looks.clear()
        spread_of(words("a", size), with_others(words("a", size), 7))
        counts.append(len(looks))
    assert all(0 < larger <= 2.5 * smaller for smaller, larger in pairwise(counts))


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
