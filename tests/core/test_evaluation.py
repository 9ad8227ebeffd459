"""
Evaluation: what pairs say of a search, and how sure that is. Tuning: what is tried, and what of it
is best.
"""

from __future__ import annotations

import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neardup import Deduplicator
from numpy.typing import NDArray

from worker.core import evaluation
from worker.core.definition import Kind, Parameters
from worker.core.evaluation import (
    Pairs,
    Trial,
    exact_jaccard,
    finds,
    groups,
    measure,
    reasons,
    score,
    shingle_set,
    trials,
)
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.core.search import (
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    best,
    condition,
    look,
    looks,
)
from worker.core.sketch import words_of
from worker.core.tokens import tokens, tokens_quickly
from worker.devkit.sample.crawl import Dice, load_language, write_article

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
    similarity_min=st.sampled_from([0, 0.5, 0.75]),
)
SKETCHES = st.lists(st.integers(0, 511), max_size=120).map(
    lambda bits: sum({1 << bit for bit in bits})
)


def _batch(fingerprints: list[int], doubts: list[int], sketches: list[int]) -> FingerprintBatch:
    count = len(fingerprints)
    values = (
        np.array(fingerprints, np.uint64),
        np.ones(count, np.uint32),
        np.arange(count, dtype=np.uint64),
    )
    words = np.array([words_of(sketch) for sketch in sketches], np.uint64)
    return FingerprintBatch(
        *values, np.full(count, Kind.FULL, np.uint8), np.array(doubts, np.uint64), words
    )


@given(WORDS, FLIPS, WORDS, WORDS, WORDS, st.tuples(st.integers(0, 2**512 - 1), SKETCHES), RULES)
def test_a_pair_is_found_as_the_search_finds_it(
    value: int,
    flips: int,
    first_doubts: int,
    doubts: int,
    mask: int,
    sketches: tuple[int, int],
    rules: SearchRules,
) -> None:
    """
    Alone in an index, the first document is found by the second exactly when the search's
    definition says so.
    """
    doubts &= mask  # about a quarter of the bits, as in texts
    facts = sketches[0], sketches[0] ^ sketches[1]
    batch = _batch([value, value ^ flips], [first_doubts, doubts], list(facts))
    pairs = Pairs(np.array([0]), np.array([1]), np.array([True]), ["made"])
    measured = measure(batch, pairs, rules)
    (reason,) = reasons(measured, rules)
    document, original = (
        SearchedDocument(value ^ flips, doubts, facts[1]),
        SearchedOriginal(0, value, first_doubts, facts[0]),
    )
    is_found = best(rules, document, [original]) is not None
    assert finds(measured, rules).tolist() == [is_found] == [not reason]
    prefix = "no prefix that is looked up is theirs"
    missed = condition(rules, document, original)
    assert missed.endswith((" allowed", " required")) == (reason not in ("", prefix))
    assert looks(np.array([flips], np.uint64), batch.doubts[:1], batch.doubts[1:]) == [
        look(value, first_doubts, value ^ flips, doubts)
    ]


def test_texts_too_short_match_their_equals_only() -> None:
    """
    Two short texts are a pair when they are equal up to case and spaces; a short and a long one
    never are.
    """
    batch = Fingerprinter().batch(
        ["The ferry", "the FERRY!", "a ferry", "the ferry is late again and nobody knows why"]
    )
    pairs = Pairs(np.array([0, 0, 0]), np.array([1, 2, 3]), np.ones(3, bool), ["made"] * 3)
    short = "too short to be compared but as equals"
    assert reasons(measure(batch, pairs, SearchRules()), SearchRules()) == ["", short, short]


def test_groups_are_joined_by_pairs_that_are_the_same() -> None:
    """
    0, 1 and 2 are one document; a pair that is not the same joins nothing, and belongs to its first
    document.
    """
    pairs = Pairs(
        np.array([0, 1, 2, 4]),
        np.array([1, 2, 3, 3]),
        np.array([True, True, False, False]),
        ["x"] * 4,
    )
    found = groups(pairs, 5)
    assert found[0] == found[1] == found[2] != found[3]


def test_shares_are_counted_and_their_intervals_hold_them() -> None:
    """
    Of 40 pairs the same 30 are found, of 60 others 6: recall .75, precision 30/36; each lies in its
    interval.
    """
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


@pytest.mark.parametrize(("pairs", "high"), [(1, 0.793), (20, 0.161), (1_000, 0.004)])
def test_nothing_in_few_pairs_is_no_proof_of_nothing(pairs: int, high: float) -> None:
    """Where no pair, or each pair, is a hit, the interval still has a width: that of so many pairs."""
    none = np.zeros(pairs, bool)
    false_positives = score(none, none, np.arange(pairs)).false_positives
    assert (false_positives.value, false_positives.low) == pytest.approx((0, 0))
    assert false_positives.high == pytest.approx(high, abs=0.001)
    recall = score(~none, ~none, np.arange(pairs)).recall
    assert (recall.value, recall.high) == pytest.approx((1, 1))
    assert recall.low == pytest.approx(1 - high, abs=0.001)


def test_f1_has_an_interval_where_nothing_is_found() -> None:
    """Nothing is known of the precision then, and little of the recall."""
    same = np.ones(20, np.bool_)
    scores = score(~same, same, np.arange(20))
    assert math.isnan(scores.precision.value)
    assert scores.f1.value == scores.f1.low == 0
    assert scores.f1.high == 2 * scores.recall.high / (1 + scores.recall.high) > 0.2


def test_a_large_group_is_no_more_than_an_observation() -> None:
    """A group of 1,000 pairs, all found, beside 100 groups of one, none found, says very little."""
    same = np.ones(1_100, bool)
    found = np.arange(1_100) < 1_000
    recall = score(found, same, np.maximum(np.arange(1_100), 999)).recall
    assert recall.value == pytest.approx(10 / 11)
    assert recall.low < 0.25
    assert recall.high > 0.99


def test_intervals_hold_the_true_share_of_groups_of_any_size() -> None:
    """Of groups of heavy-tailed sizes, each all found or not at all, 19 of 20 intervals hold it."""
    generator = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        sizes = np.minimum(1 + generator.pareto(1.2, 60), 200).astype(int)
        of_group = np.repeat(np.arange(60), sizes)
        found = (generator.random(60) < 0.7)[of_group]
        recall = score(found, np.ones(len(found), bool), of_group).recall
        held += recall.low <= 0.7 <= recall.high
    assert held > 0.93 * 400


def test_a_share_of_nothing_is_none() -> None:
    """No pair that is the other: no share of false positives."""
    same = np.ones(200, bool)
    assert math.isnan(score(same, same, np.arange(200)).false_positives.value)


def test_leaders_are_what_a_log_would_say() -> None:
    """
    Each document's original is an earlier one that is new itself; equal short texts follow the
    first of them.
    """
    text = "the ferry on the river is late again and nobody on the bank knows why it has not come"
    texts = [
        text,
        "too short",
        text.upper(),
        text.replace("late", "early"),
        "TOO SHORT",
        "something else that is long",
    ]
    of = evaluation.leaders(Fingerprinter().batch(texts), SearchRules(look_min=0))
    assert of.tolist()[:3] == [-1, -1, 0]
    assert of.tolist()[4:] == [1, -1]


def pages_of_a_host() -> tuple[list[str], evaluation.Pages]:
    """Two pages of a shop, the first at another host, and three with one short text."""
    terms = " ".join(f"the term{number} of this shop" for number in range(40))
    texts = [
        f"a red lamp of glass {terms}",
        f"nine green chairs for a garden {terms}",
        f"a red lamp of glass {terms}",
        *["too short"] * 3,
    ]
    hosts = ("shop", "shop", "mirror", "shop", "shop", "shop")
    urls = [f"https://{host}.example/{number}" for number, host in enumerate(hosts)]
    return texts, evaluation.Pages(urls, [0b111, 0b111000, 0b111, 0b111, 0b111000, 0b111000])


def test_two_pages_of_one_host_are_no_copies_of_each_other() -> None:
    """Neither in a stream nor as a pair, as in a log; a rule that compares no sketches knows none."""
    texts, pages = pages_of_a_host()
    batch = Fingerprinter().batch(texts)
    rules = SearchRules(look_min=0)
    assert evaluation.leaders(batch, rules).tolist() == [-1, 0, 0, -1, 3, 3]
    assert evaluation.leaders(batch, rules, pages).tolist() == [-1, -1, 0, -1, -1, 4]
    pairs = Pairs(np.array([0, 0, 3]), np.array([1, 2, 4]), np.zeros(3, np.bool_), ["x"] * 3)
    measured = measure(batch, pairs, rules, pages)
    assert finds(measured, rules).tolist() == [False, True, False]
    assert "two pages of one host" in evaluation.reasons(measured, rules)[0]
    exact = SearchRules("exact", 16)
    assert finds(measured, exact).tolist() == [True, True, True]
    assert evaluation.leaders(batch, exact, pages).tolist()[3:] == [-1, 3, 3]


def test_a_log_says_the_same_of_pages_of_one_host() -> None:
    """The rules of the simulated stream are those of the Deduplicator."""
    texts, pages = pages_of_a_host()
    titles = ("red lamp glass", "green chairs garden")
    documents = [
        {
            "url": url,
            "html": f"<title>{titles[title == 0b111000]}</title><main><p>{text}</p></main>",
        }
        for url, text, title in zip(pages.urls, texts, pages.titles, strict=True)
    ]
    verdicts = list(Deduplicator(search=SearchRules(look_min=0), threads=1).add_many(documents))
    doc_ids = [verdict.doc_id for verdict in verdicts]
    of = [
        -1 if one.duplicate_of is None else doc_ids.index(one.duplicate_of.original.doc_id)
        for one in verdicts
    ]
    assert of == [-1, -1, 0, -1, -1, 4]


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
        width = min(len(words), evaluation.SHINGLE_WIDTH)
        sets.append(
            {tuple(words[at : at + width]) for at in range(len(words) - width + 1 if words else 0)}
        )
    expected = len(sets[0] & sets[1]) / max(1, len(sets[0] | sets[1]))
    assert (
        evaluation.exact_jaccard(evaluation.shingle_set(one), evaluation.shingle_set(other))
        == expected
    )


VOCABULARY = [f"word{number}" for number in range(3_000)] + ["the", "of", "and", "that", "it"] * 300


def made_texts(count: int, seed: int = 7) -> list[str]:
    """
    Texts of 120 words that have nothing to do with each other, each followed by a copy with one
    word replaced.
    """
    dice = random.Random(seed)
    texts = []
    for _ in range(count):
        words = dice.choices(VOCABULARY, k=120)
        changed = list(words)
        changed[dice.randrange(120)] = "another"
        texts += [" ".join(words), " ".join(changed)]
    return texts


def with_scattered_words(texts: list[str], share: float) -> list[str]:
    """Each text with so many of its words replaced, here and there: another page of a template."""
    dice = random.Random(3)
    changed = []
    for text in texts:
        words = text.split()
        for place in dice.sample(range(len(words)), int(share * len(words))):
            words[place] = dice.choice(VOCABULARY)
        changed.append(" ".join(words))
    return changed


def _trial(recall: float, false_positives: float, rules: SearchRules, name: str = "") -> Trial:
    return Trial(name, Parameters(), rules, recall, false_positives)


def test_every_variant_differs_in_one_thing() -> None:
    """
    The settings given come first; each other variant is another fingerprint, or is left out as
    equal to it.
    """
    tried = list(evaluation.variants(Parameters()))
    narrow = [parameters for _, parameters in evaluation.variants(Parameters(tokens_min=2))]
    assert max(parameters.shingle_widths for parameters in narrow) == (2,)
    assert tried[0] == ("", Parameters())
    assert {name for name, one in tried[1:] if one == Parameters()} == {
        "term_frequency one",
        "shingle_widths 2",
    }


def test_sampled_pairs_are_judged_exactly() -> None:
    """Each text and its copy are the same; pairs by chance are not; nothing comes twice."""
    texts = made_texts(60)
    pairs = evaluation.sample_pairs(texts, Fingerprinter().batch(texts), 2_000)
    numbers = list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert len(set(numbers)) == len(numbers)
    same = {pair for pair, is_same in zip(numbers, pairs.same.tolist(), strict=True) if is_same}
    assert same == {(number, number + 1) for number in range(0, 120, 2)}
    assert (~pairs.same).sum() > 100


def test_few_copies_among_many_texts_are_sampled() -> None:
    """
    Of 18 M pairs 300 are copies and 300 only look alike: each sort is drawn as often as a corpus
    of those alone would let it be, and no search decides which of them are drawn.
    """
    texts = made_texts(300)
    texts += with_scattered_words(texts[::2], 0.2)
    texts += made_texts(2_700, seed=8)[::2]
    texts += made_texts(2_700, seed=9)[::2]
    batch = Fingerprinter().batch(texts)
    pairs = evaluation.sample_pairs(texts, batch, 2_000)
    assert int(pairs.of_kind(evaluation.COPIES).sum()) >= 200
    assert int(pairs.of_kind(evaluation.LOOKALIKES).sum()) >= 200
    assert pairs.same.tolist() == [kind == evaluation.COPIES for kind in pairs.kinds]
    blind = batch._replace(fingerprints=np.zeros_like(batch.fingerprints))
    again = evaluation.sample_pairs(texts, blind, 2_000)
    assert (again.first == pairs.first).all() and (again.second == pairs.second).all()


def test_one_page_many_times_is_sampled_at_a_cost_of_its_length() -> None:
    """4,000 equal texts make 8 M pairs, 128 MB: each is compared with 128 others only."""
    texts = made_texts(1)[:1] * 4_000
    batch = Fingerprinter().batch(texts)
    evaluation.sample_pairs(texts[:2], Fingerprinter().batch(texts[:2]), 10)
    tracemalloc.start()
    pairs = evaluation.sample_pairs(texts, batch, 1_000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 100 <= len(pairs.first) <= 200 and pairs.same.all()
    assert len(np.unique(pairs.first // 512)) >= 5  # of 8, the last of which has few
    assert most < 20e6


def test_nothing_is_sampled_of_texts_that_cannot_be_compared() -> None:
    """No text, one, and two that are too short for a fingerprint have no pairs."""
    for texts in ([], made_texts(1)[:1], ["short", "short"]):
        pairs = evaluation.sample_pairs(texts, Fingerprinter().batch(texts), 100)
        assert len(pairs.first) == len(pairs.kinds) == 0


def test_the_best_is_within_the_bounds() -> None:
    """
    Most recall first, then fewer false positives; what exceeds a bound is out, of equal ones the
    one with the fewest changes is in, so the settings as given, and of those the cheapest.
    """
    directed = SearchRules()
    tried = [
        _trial(0.99, 0.01, directed),  # too many false positives
        _trial(0.97, 0.001, directed),
        _trial(0.97, 0.001, directed, "mask_numbers"),
        _trial(0.9, 0.0005, SearchRules("exact", 3)),
        _trial(0.8, 0.0005, SearchRules("exact", 2)),
    ]
    costly = _trial(0.97, 0.001, SearchRules(patterns=128))
    cheap = _trial(0.97, 0.001, SearchRules(patterns=16, similarity_min=0.5))
    assert evaluation.frontier([cheap, *tried], 0.001, costly.rules)[0].rules == directed
    assert evaluation.frontier([cheap, *tried], 0.001, SearchRules(look_min=1))[0] is not cheap
    assert evaluation.frontier([*tried, costly], 0.001, costly.rules)[0] is costly
    best = evaluation.frontier([*tried, costly], 0.001, SearchRules(look_min=1))
    assert [(one.recall, one.rules, one.name) for one in best] == [
        (0.97, directed, ""),
        (0.9, SearchRules("exact", 3), ""),
    ]
    assert not evaluation.frontier(tried[:1], 0.001, directed)


@pytest.mark.parametrize(
    ("recalls", "recommended"),
    [
        ((0.9996, 1.0, 1.0), 0),
        ((0.99, 1.0, 1.0), 1),
        ((0.99, 0.9999, 1.0), 1),
        ((0.9, 0.9, 1.0), 2),
    ],
)
def test_a_change_that_gains_nearly_nothing_is_not_recommended(
    recalls: tuple[float, float, float], recommended: int
) -> None:
    """
    Of settings within half a per cent of the best, the one with the fewest changes: the settings as
    given, then one change, then two.
    """
    rules = SearchRules()
    names = ("", "anchored_weight 1", "mask_numbers, mask_identifiers")
    tried = [_trial(recall, 0.0, rules, name) for recall, name in zip(recalls, names, strict=True)]
    for order in (tried, tried[::-1]):
        assert evaluation.frontier(order, 0.001, rules)[0] is tried[recommended]


def test_trials_are_those_of_the_searches_one_by_one() -> None:
    """
    All variants with all searches, directed ones for an exact one, too; a larger distance finds no
    fewer.
    """
    texts = made_texts(30)
    pairs = Pairs(np.arange(0, 60, 2), np.arange(1, 60, 2), np.arange(30) < 29, ["made"] * 30)
    tried = list(trials(texts, [None] * 60, pairs, (Parameters(), SearchRules("exact", 3))))
    exact = [one for one in tried if one.rules.mode == "exact" and not one.name]
    assert [one.rules.max_distance for one in exact] == [3, 6, 7]  # each once, as given or not
    assert evaluation.given_trial(tried, SearchRules("exact", 3)) is tried[0]
    assert [one.recall for one in exact] == sorted(one.recall for one in exact)
    assert max(one.recall for one in tried if one.rules.mode == "directed") > 0.9
    assert len({one.name for one in tried}) == 11


@pytest.fixture(scope="module")
def family() -> tuple[FingerprintBatch, Pairs]:
    """
    Sixty texts with a copy each, and a family: sixty pages of one template, none of them a copy.
    """
    pages = with_scattered_words(made_texts(1)[:1] * 60, 0.07)
    texts = [*made_texts(60, seed=9), *pages]
    firsts = np.arange(0, 120, 2)
    one, other = np.triu_indices(60, 1)
    pairs = Pairs(
        np.concatenate([firsts, 120 + one]),
        np.concatenate([firsts + 1, 120 + other]),
        np.arange(60 + len(one)) < 60,
        ["copies"] * 60 + ["family"] * len(one),
    )
    return Fingerprinter().batch(texts), pairs


def test_a_margin_is_tried_on_a_stream(family: tuple[FingerprintBatch, Pairs]) -> None:
    """
    Each threshold around the given one comes with each margin. A greater margin merges less of this
    family, and the copies of other texts are found with all of them.
    """
    batch, pairs = family
    base = _trial(1, 0, SearchRules(similarity_min=0.4))
    tried = evaluation.stream_trials(batch, pairs, base)
    thresholds = sorted({one.trial.rules.similarity_min for one in tried})
    assert thresholds == [0.4, 0.45]
    of_given = [one for one in tried if one.trial.rules.similarity_min == 0.4]
    assert [one.trial.rules.similarity_margin for one in of_given] == [*evaluation.MARGINS_TRIED]
    assert {one.trial.recall for one in of_given} == {1.0}
    merged = [one.trial.false_positives for one in of_given]
    assert merged == [one.scores.false_positives.value for one in of_given]
    assert merged == sorted(merged, reverse=True)
    assert merged[0] > 2 * merged[2]
    for rules in (SearchRules("exact", 3), SearchRules(similarity_min=0)):
        assert evaluation.stream_trials(batch, pairs, _trial(1, 0, rules)) == []


def test_threshold_and_margin_keep_both_errors_within_bounds() -> None:
    """Few others merged first, then recall, then the fewest changes of what was given; else none."""
    given = SearchRules()

    def of(threshold: float, margin: float, recall: float, false_positives: float) -> Trial:
        rules = SearchRules(similarity_min=threshold, similarity_margin=margin)
        return _trial(recall, false_positives, rules)

    low = of(0.5, 0.12, 1.0, 0.02)  # merges too much
    as_given = of(0.54, 0.12, 0.9, 0.001)
    other_margin = of(0.54, 0.06, 0.99, 0.001)
    both = of(0.5, 0.18, 1.0, 0.0)
    best = evaluation.frontier
    assert best([low, as_given], 0.01, given)[0] is as_given
    assert best([low, as_given, both], 0.01, given)[0] is both
    nearly = of(0.54, 0.06, 0.996, 0.01)  # one change for what takes two
    assert best([low, as_given, both, nearly], 0.01, given)[0] is nearly
    assert best([as_given, other_margin], 0.01, given)[0] is other_margin
    assert best([low], 0.01, given) == []


# ---- what must never be called a copy, whatever the text

SPACED = ("en", "de", "es", "ru")  # languages of the sample crawl with spaces between words
WORDS_MIN = 24  # of a text: in shorter ones a word more or less is much of it


def article_words(dice: Dice, language: str, count: int) -> list[str]:
    """So many words of a new article, with real function words and names of its own."""
    article = write_article("a", load_language(language), dice)
    sentences = [sentence for paragraph in article.paragraphs for sentence in paragraph]
    found = " ".join(sentences).split()
    while len(found) < count:
        found += article.lexicon.sentence().split()
    return found[:count]


def edited_words(dice: Dice, first: list[str], other: list[str]) -> list[str]:
    """The first with scattered words of the other, with one block of it, or cut."""
    length = len(first)
    way = dice.number(0, 2)
    if way == 0:
        share = 0.08 + 0.4 * dice.random()
        return [new if dice.chance(share) else old for old, new in zip(first, other, strict=True)]
    if way == 1:
        size = int(length * (0.3 + 0.5 * dice.random()))
        begin = dice.number(0, length - size)
        return [*first[:begin], *other[:size], *first[begin + size :]]
    return first[: max(WORDS_MIN, int(length * (0.2 + 0.4 * dice.random())))]


def with_inserted(words: list[str], block: list[str], place: int) -> list[str]:
    return [*words[:place], *block, *words[place:]]


def called_copies(pairs: list[tuple[list[str], list[str]]]) -> NDArray[np.bool_]:
    """Whether the search at its defaults calls the second of each pair a copy of the first."""
    batch = Fingerprinter().batch([" ".join(words) for pair in pairs for words in pair])
    firsts = np.arange(0, 2 * len(pairs), 2)
    labelled = Pairs(firsts, firsts + 1, np.zeros(len(pairs), np.bool_), ["made"] * len(pairs))
    return finds(measure(batch, labelled, SearchRules()), SearchRules())


def test_a_text_with_less_than_half_of_the_shingles_is_no_copy() -> None:
    """
    Of 3,000 pairs by edits, of 24 words and more, none with a Jaccard index of 3-shingles below .5.
    """
    dice = Dice(1)
    pairs = []
    likeness = []
    for number in range(3_000):
        language = SPACED[number % len(SPACED)]
        length = dice.number(WORDS_MIN, 160)
        first = article_words(dice, language, length)
        second = edited_words(dice, first, article_words(dice, language, length))
        pairs.append((first, second))
        shingles = shingle_set(" ".join(first)), shingle_set(" ".join(second))
        likeness.append(exact_jaccard(*shingles))
    called = called_copies(pairs)
    assert np.array(likeness)[called].min() >= 0.5
    # Not for want of pairs near the bound, nor because nothing is found at all.
    assert sum(0.4 < index < 0.5 for index in likeness) >= 400
    assert called.sum() >= 10


@pytest.mark.parametrize("is_between", [False, True], ids=["around the text", "within the text"])
def test_another_article_with_the_same_advertisements_is_no_copy(is_between: bool) -> None:
    """
    Whatever share of its words these have, up to 100 %; half of 1,000 pairs have as many as words.
    """
    dice = Dice(3)
    pairs = []
    copies = []
    for number in range(1_000):
        language = SPACED[number % len(SPACED)]
        length = dice.number(WORDS_MIN, 300)
        article, other, shown = (article_words(dice, language, length) for _ in range(3))
        if number % 2:
            shown = shown[: int(length * (0.1 + 0.9 * dice.random()))]
        if is_between:
            place = dice.number(0, length)
            first = with_inserted(article, shown, place)
            second = with_inserted(other, shown, place)
        else:
            place = dice.number(0, len(shown))
            first = with_inserted(shown, article, place)
            second = with_inserted(shown, other, place)
        pairs.append((first, second))
        copies.append((first, first))
    assert not called_copies(pairs).any()
    assert called_copies(copies).all()
