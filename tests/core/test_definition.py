"""
The definition of a fingerprint: golden vectors, weights, doubts, sketches; what known
implementations get wrong.
"""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import numpy as np
import pytest
import unicodedata2
from hypothesis import given
from hypothesis import strategies as st

from tests.core.golden import PARAMETERS, SAMPLES, Golden, golden_hashes, goldens
from worker.core import definition
from worker.core.definition import (
    MIXED_TIMES,
    SCHEME_VERSION,
    Kind,
    Parameters,
    define,
    doubts,
    elected_words,
    explain,
    features,
    fold,
    folded_words,
    hamming_distance,
    shingle_hash,
    sketch_hashes,
    token_hash,
    wide_hash,
)
from worker.core.fingerprint import Fingerprinter
from worker.core.kernels import tally as kernel
from worker.core.sketch import (
    BINS,
    BINS_MAX,
    BITS,
    RATE_ONE,
    SIMILARITY_MIN,
    rate,
    similarity,
    sketch,
    sketch_of,
    sketch_similarities,
    sketch_similarity,
    words_of,
)
from worker.core.stopwords import stopwords
from worker.core.tokens import (
    CODE_POINTS,
    SEPARATOR,
    UNICODE_VERSION,
    nfc,
    tokens,
    tokens_quickly,
    unicode_table,
)
from worker.devkit.sample.crawl import LANGUAGES, Dice, load_language, write_article
from worker.errors import StopError


def test_the_table_and_the_library_are_of_one_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The kernel sends on what may not be in NFC by the table's classes and pairs; another version is
    refused.
    """
    table = unicode_table()
    classes = [unicodedata2.combining(chr(code)) for code in range(CODE_POINTS)]
    assert np.flatnonzero(table.combining != np.array(classes)).tolist() == []
    assert {
        pair: ord(nfc(chr(pair[0]) + chr(pair[1]))) for pair in table.composed
    } == table.composed
    changed = {
        code for code in range(CODE_POINTS) if unicodedata2.normalize("NFD", chr(code)) != chr(code)
    }
    assert changed - set(range(0xAC00, 0xD7A4)) == set(table.canonical)
    monkeypatch.setattr(unicodedata2, "unidata_version", "19.0.0")
    with pytest.raises(StopError, match=r"19\.0\.0"):
        unicode_table.__wrapped__()


def test_every_letter_that_python_knows_is_no_separator() -> None:
    """
    Letters, digits and marks of the running Python's Unicode are word characters in the table too.
    """
    kind = unicode_table().kind
    lost = [
        hex(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code))[0] in "LNM" and kind[code] == SEPARATOR
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("كِتَابٌ جَدِيدٌ", "كتاب جديد", id="vowel signs vanish"),
        pytest.param("هٰذَا ٱلْكِتَـاب", "هذا الكتاب", id="superscript alef, wasla and tatweel"),
        pytest.param("کتاب فارسی", "كتاب فارسي", id="the Persian kaf and yeh are the Arabic ones"),
        pytest.param("أكل إلى آخر", "اكل الي اخر", id="alef with a mark is alef, maksura is yeh"),
        pytest.param("ﺍﻹﺳﻼﻡ", "الإسلام", id="presentation forms, lam-alef ligatures"),
        pytest.param("ا\u064e\u0653", "آ", id="madda behind a vowel sign"),
        pytest.param("ﬁnal eﬀort, oﬃce", "final effort, office", id="Latin ligatures"),
        pytest.param("ǈubav Ǆep", "ljubav džep", id="Croatian digraphs"),
        pytest.param("Chapter Ⅷ", "chapter viii", id="Roman numerals"),
    ],
)
def test_ways_to_write_a_letter_are_one_token(one: str, other: str) -> None:
    """What keyboards, publishers and PDF files write differently is the same to the reader."""
    assert tokens(one) == tokens(other)
    assert tokens_quickly(one) == tokens_quickly(other) == tokens(one)


@pytest.mark.parametrize("mark", ["\u0301", "\u0307", "\u0323", "\u0653"])
def test_a_mark_behind_a_ligature_is_not_composed_with_its_last_letter(mark: str) -> None:
    """A text is composed before its ligatures are taken apart, in both definitions."""
    for ligature in unicode_table().expanded:
        text = f"{chr(ligature)}{mark}"
        assert tokens_quickly(text) == tokens(text), text


@pytest.mark.parametrize(
    ("one", "other"), [("ؤ", "و"), ("ئ", "ي"), ("ة", "ه"), ("½", "12"), ("ﷺ", "صلى"), ("é", "e")]
)
def test_other_letters_stay_apart(one: str, other: str) -> None:
    """Hamza on a carrier, teh marbuta and accents make other words; a fraction is no number."""
    assert tokens(one) != tokens(other)


def test_an_anchored_shingle_weighs_three_of_the_others() -> None:
    """
    Shingles with a function word have weight 3, others 1, times what the term frequency makes of
    occurrences.
    """
    found = {
        feature.shingle: feature
        for feature in explain(
            "red paint of the old red paint drips slowly down", Parameters(term_frequency="log")
        )
    }
    assert found["of the"].weight == 3
    assert found["drips slowly"].weight == 1
    assert found["red paint"].weight == 2
    assert found["red paint"].occurrences == 2


def test_a_named_language_anchors_its_own_words_only() -> None:
    """
    With anchors="named" the language decides; by default the text itself does, whatever its label
    says.
    """
    named = Parameters(anchors="named")
    text = "die Kinder spielen im Garten hinter dem Haus"
    german = {feature.shingle for feature in explain(text, named, "de") if feature.anchored}
    english = {feature.shingle for feature in explain(text, named, "en") if feature.anchored}
    assert "hinter dem" in german
    assert "hinter dem" not in english
    assert explain(text, Parameters(), "en") == explain(text, Parameters(), "de")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"bits": 63}, "bits must be one of"),
        ({"shingle_widths": ()}, "shingle_widths must be"),
        ({"shingle_widths": (3, 2)}, "ascending"),
        ({"shingle_widths": (33,)}, "a width must be 1 to 32"),
        ({"shingle_widths": (9,)}, "would have no shingle"),
        ({"anchored_weight": 0}, "anchored_weight must be 1 to 255"),
        ({"fields": (("title", 0),)}, "field 'title'"),
    ],
)
def test_wrong_parameters_say_why(wrong: dict[str, object], reason: str) -> None:
    """Each bound has an error that names it."""
    with pytest.raises(ValueError, match=reason):
        Parameters(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"anchored_weight": 2.5}, "anchored_weight must be a whole number, got 2.5"),
        ({"tokens_min": True}, "tokens_min must be a whole number, got True"),
        ({"bits": 64.0}, "bits must be a whole number"),
        ({"shingle_widths": "12"}, "a width must be a whole number, got '1'"),
        ({"mask_numbers": 0}, "mask_numbers must be True or False, got 0"),
        ({"stopwords": "the and"}, "stopwords must be several texts, got one"),
        ({"stopwords": [b"the"]}, "stopwords must be several texts, got b'the' among them"),
        ({"fields": {"ab": 4}}, "fields must be pairs"),
        ({"fields": [("title", 1.0)]}, "field 'title' must be a whole number"),
    ],
)
def test_parameters_of_a_wrong_type_are_refused(wrong: dict[str, object], reason: str) -> None:
    """Otherwise each document would fail, or the parameters would have a hash that nobody shares."""
    with pytest.raises(TypeError, match=reason):
        Parameters(**wrong)  # type: ignore[arg-type]


def test_equal_parameters_have_one_hash_whatever_types_they_were_given_in() -> None:
    """A snapshot carries the hash; another process computes it from values that went through JSON."""
    given = Parameters(
        shingle_widths=[np.int64(1), np.uint8(3)],  # type: ignore[arg-type]
        anchored_weight=np.int64(5),  # type: ignore[arg-type]
        mask_numbers=np.True_,  # type: ignore[arg-type]
        fields=[["a", np.int64(7)]],  # type: ignore[arg-type]
        stopwords=["of", "the"],  # type: ignore[arg-type]
    )
    usual = Parameters(
        shingle_widths=(1, 3),
        anchored_weight=5,
        mask_numbers=True,
        fields=(("a", 7),),
        stopwords=frozenset({"the", "of"}),
    )
    assert given == usual
    assert repr(given.fields) == repr(usual.fields)
    assert given.hash == usual.hash


def test_each_parameter_changes_the_hash() -> None:
    """No two of these sets of parameters may share an index."""
    sets = [
        Parameters(), Parameters(bits=32), Parameters(bits=128), Parameters(token_unit="character"),
        Parameters(shingle_widths=(3,)), Parameters(shingle_widths=(2, 3)),
        Parameters(anchored_weight=2), Parameters(unanchored_weight=0),
        Parameters(term_frequency="tf"), Parameters(anchors="named"), Parameters(anchors="union"),
        Parameters(tokens_min=9), Parameters(shingles_min=9), Parameters(mask_numbers=True),
        Parameters(mask_identifiers=True), Parameters(fields=(("title", 2),)),
        Parameters(stopwords=frozenset({"a"})),
    ]  # fmt: skip
    assert len({parameters.hash for parameters in sets}) == len(sets)
    assert all(len(parameters.hash) == 16 for parameters in sets)


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-99, 99), min_size=128, max_size=128))
def test_the_kernels_doubts_are_those_of_the_definition(sums: list[int]) -> None:
    """Any sums, at any width."""
    tally = np.array(sums, np.int64)
    for bits in (32, 64, 128):
        shift, limit = kernel.doubt_rule.py_func(tally, bits)
        with np.errstate(over="ignore"):  # of bits that the fingerprint has not
            found = [
                kernel.doubts.py_func(tally[begin : begin + 64], shift, limit)
                for begin in range(0, bits, 64)
            ]
        whole = sum(int(half) << 64 * place for place, half in enumerate(found)) & ((1 << bits) - 1)
        assert whole == doubts(sums[:bits])


def test_a_doubtful_sign_is_one_near_zero() -> None:
    """
    Below 0.35 of the root mean square, which is 20 here; a tie (7) is no doubt, nor are all zeros.
    """
    assert doubts([7, 43, 10, -1, 1]) == 0b11000
    assert doubts([0] * 64) == 0
    assert doubts([2**62, *[2**61] * 62, 2**58]) == 1 << 63


# ---- golden vectors: a change of one bit in any script, edge case or parameter hash fails here

GOLDENS = goldens()


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: str(golden.name))
def test_the_definition_gives_the_golden_vector(golden: Golden) -> None:
    """Fingerprint, features, digest, kind and doubts, under each set of parameters."""
    made = {name: define(golden.text, parameters) for name, parameters in PARAMETERS.items()}
    assert made == golden.expected


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_kernel_gives_the_golden_vectors(name: str) -> None:
    """All of them in one batch."""
    batch = Fingerprinter(PARAMETERS[name]).batch([golden.text for golden in GOLDENS])
    assert list(batch.rows()) == [golden.expected[name] for golden in GOLDENS]


def test_parameters_have_their_golden_hashes() -> None:
    """An edited list of function words, or another default, is another index: it must be meant."""
    assert {name: parameters.hash for name, parameters in PARAMETERS.items()} == golden_hashes()
    assert {parameters.scheme for parameters in PARAMETERS.values()} == {
        f"simhash{bits}-{SCHEME_VERSION}-unicode-{UNICODE_VERSION}" for bits in (32, 64, 128)
    }


BY_WORD = Parameters()
BY_CHARACTER = Parameters(token_unit="character", shingle_widths=(3,))


# ---- the sketch: what it estimates, how well, and that columns and numbers say the same

SETS = st.sets(st.integers(0, 2**64 - 1), max_size=400)


SIZES = [
    12,
    pytest.param(60, marks=pytest.mark.nightly),
    300,
    pytest.param(2_000, marks=pytest.mark.nightly),
    20_000,
]


@pytest.mark.parametrize("shingles", SIZES)
@pytest.mark.parametrize("true", [0.0, 0.5, 0.75, 0.9, 1.0])
def test_the_estimate_has_no_bias_and_the_error_that_is_told(shingles: int, true: float) -> None:
    """
    The mean of 200 pairs of random sets lies within three standard errors of the Jaccard index, or
    above at 0.
    """
    dice = np.random.default_rng(shingles)
    shared = round(2 * shingles * true / (1 + true))
    found = []
    for _ in range(200 if shingles < 10_000 else 30):
        drawn = dice.integers(0, 2**64, 2 * shingles - shared, np.uint64).tolist()
        one, other = drawn[:shingles], drawn[:shared] + drawn[shingles:]
        found.append(similarity(sketch(one), sketch(other)))
    index = shared / (2 * shingles - shared)
    spread = float(np.std(found))
    if shingles > 24 or true in (0.0, 1.0):  # of a short text one replaced word is forgiven
        error_max = 3 * spread / len(found) ** 0.5 + (0.001 if true else 0.03)
        assert abs(np.mean(found) - index) <= error_max
    if true == 0.75 and shingles >= 300:
        assert 0.02 < spread < 0.045
    if true == 1.0:
        assert set(found) == {1.0}


@pytest.mark.parametrize("shingles", [100, 440, 700, 3_000, 200_000])
def test_a_sketch_has_the_lowest_level_at_which_it_is_not_crowded(shingles: int) -> None:
    """So no bitmap is full, and of a short text every shingle counts."""
    drawn = np.random.default_rng(shingles).integers(0, 2**64, shingles, np.uint64).tolist()
    made = sketch(drawn)
    level = made >> BINS
    assert (made & (1 << BINS) - 1).bit_count() <= BINS_MAX
    assert (level == 0) == (shingles <= 480)
    if level:
        lower = [one for one in drawn if one % 2**32 * rate(level - 1) < RATE_ONE << 32]
        assert len({one >> 55 for one in lower}) > BINS_MAX
        assert 0.8 < shingles * RATE_ONE / rate(level) / 480 < 1.1


def test_texts_of_two_levels_are_compared_by_what_counts_in_both() -> None:
    """A text and the first 60 % of it have an index of .6, whatever their levels are."""
    found = []
    for seed in range(60):
        drawn = np.random.default_rng(seed).integers(0, 2**64, 2_000, np.uint64).tolist()
        whole, part = sketch(drawn), sketch(drawn[:1_200])
        assert whole >> BINS > part >> BINS > 0
        found.append(similarity(whole, part))
    assert 0.57 < np.mean(found) < 0.605  # too little, since it cannot be more than contained
    assert np.std(found) < 0.05


@given(SETS, SETS)
def test_it_is_of_sets_and_says_the_same_both_ways(one: set[int], other: set[int]) -> None:
    """Order and repetitions do not matter, and which of two sketches is the first."""
    first, second = sketch(one), sketch(other)
    assert sketch([*sorted(one), *one]) == first < 1 << BITS
    assert (
        sketch_similarity(first, second)
        == sketch_similarity(second, first)
        <= sketch_similarity(first, first)
    )
    columns = (np.array([words_of(made)], np.uint64) for made in (first, second))
    assert sketch_similarities(*columns).tolist() == [sketch_similarity(first, second)]
    assert sketch_of(words_of(first)) == first


@given(st.lists(st.integers(0, 2**BITS - 1), min_size=2, max_size=2))
def test_any_two_sketches_can_be_compared(pair: list[int]) -> None:
    """
    A log's author may write any 64 bytes: the estimate stays within its bounds, in numbers as in
    columns.
    """
    found = sketch_similarity(*pair)
    assert 0 <= found <= 1_000
    assert sketch_similarities(
        *(np.array([words_of(one)], np.uint64) for one in pair)
    ).tolist() == [found]


def _hash(words: str) -> int:
    return shingle_hash([token_hash(word) for word in words.split()])


def test_the_shingles_of_a_sketch_are_four_words_or_three_characters() -> None:
    """
    A shingle is as wide as its first token says; one of both kinds counts four times, and a short
    text is one.
    """
    assert sketch_hashes(["a", "b", "c", "d", "e"], BY_WORD) == [_hash("a b c d"), _hash("b c d e")]
    assert sketch_hashes(list("東京都へ"), BY_WORD) == [_hash("東 京 都"), _hash("京 都 へ")]
    mixed = sketch_hashes(["4", "東", "京", "都"], BY_WORD)
    assert mixed[0] == _hash("4 東 京 都")
    assert mixed[-1] == _hash("東 京 都")
    assert len(set(mixed)) == len(mixed) == MIXED_TIMES + 1
    assert sketch_hashes(["a", "b", "c"], BY_WORD) == [_hash("a b c")]
    assert len(sketch_hashes(list("abcdefghijklm"), BY_CHARACTER)) == 2
    assert sketch_hashes([], BY_WORD) == []


def test_a_number_in_the_middle_of_a_shingle_counts_twice() -> None:
    """In texts of any length, and not twice for two of them."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["w" + first + second for first in letters[:2] for second in letters]
    shingles = len(words) - 3
    assert len(sketch_hashes(words, BY_WORD)) == shingles
    words[10] = "4990"
    made = sketch_hashes(words, BY_WORD)
    assert len(set(made)) == len(made) == shingles + 2
    words[11] = "25th"
    assert len(sketch_hashes(words, BY_WORD)) == shingles + 3
    assert len(sketch_hashes(words[:14], BY_WORD)) == 11 + 3
    assert len(sketch_hashes(words, Parameters(mask_numbers=True))) == shingles + 3
    assert len(sketch_hashes(words, BY_CHARACTER)) == len(words) - 11


@pytest.mark.parametrize(
    "parameters",
    [
        Parameters(shingle_widths=(1, 3)),
        Parameters(unanchored_weight=0),
        Parameters(anchors="union"),
    ],
)
def test_what_a_fingerprint_weighs_leaves_the_sketch_alone(parameters: Parameters) -> None:
    """Names and advertisements count in it like everything else."""
    text = "Buy now at Miller and Sons: " + " ".join(SAMPLES["en"]["prose"])
    assert define(text, parameters).sketch == define(text, BY_WORD).sketch


@pytest.mark.parametrize("length", [16, 18, 20, 24, 30, 40])
def test_one_replaced_word_of_a_short_text_is_confirmed(length: int) -> None:
    """
    Of 13 shingles of 16 words four are changed. Bins that shingles share can hide it, mostly there.
    """
    words = " ".join(SAMPLES["en"]["prose"]).split()[:length]
    whole = define(" ".join(words), BY_WORD).sketch
    missed = 0
    for place in range(1, length - 1):
        changed = [*words[:place], "zeppelin", *words[place + 1 :]]
        missed += (
            sketch_similarity(whole, define(" ".join(changed), BY_WORD).sketch) < SIMILARITY_MIN
        )
    assert missed <= (5 if length == 16 else 2)


@pytest.mark.parametrize("length", [13, 14])
def test_two_replaced_words_of_a_shorter_text_are_not_confirmed(length: int) -> None:
    """The rule for one word needs as many bins as texts of 16 words fill, or it forgives two."""
    words = " ".join(SAMPLES["en"]["prose"]).split()[5 : 5 + length]
    whole = define(" ".join(words), BY_WORD).sketch
    for place in range(1, length - 4):
        changed = [*words[:place], "zeppelin", words[place + 1], "sextant", *words[place + 3 :]]
        assert sketch_similarity(whole, define(" ".join(changed), BY_WORD).sketch) < SIMILARITY_MIN


@pytest.mark.parametrize(
    "name",
    ["BINS", "BINS_MAX", "ONE_WORD_BINS", "ONE_WORD_EITHER", "ONE_WORD_MIN", "SIMILARITY_MIN"],
)
def test_each_constant_of_a_comparison_changes_the_hash(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that compare two sketches by other rules would tell other verdicts of one log."""
    before = BY_WORD.hash
    assert definition._hash.__wrapped__(BY_WORD) == before
    monkeypatch.setattr(definition, name, getattr(definition, name) + 1)
    assert definition._hash.__wrapped__(BY_WORD) != before


def test_two_other_facts_in_a_short_page_are_not_confirmed() -> None:
    """Pages of some 20 words from one template, a name and two numbers apart, are other pages."""
    template = (
        "{} has been with us since {} in the town. Sign in to see what {} has written, and to send "
        "a message."
    )
    facts = [
        ("Moser", 1991, "Otto"),
        ("Lund", 2004, "Ida"),
        ("Ricci", 2017, "Ugo"),
        ("Holm", 1999, "Eva"),
    ]
    pages = [define(template.format(*fact), BY_WORD).sketch for fact in facts]
    assert (
        max(sketch_similarity(one, other) for at, one in enumerate(pages) for other in pages[:at])
        < SIMILARITY_MIN
    )


# ---- two languages in one text

ENGLISH = (
    "It was late when the two of them had come to the river, and there was nobody who could have "
    "told them what had happened to the old bridge. They had been there before, but that was years "
    "ago, and since then most of what they knew about it had been forgotten by everybody else in "
    "the village, as they were to find out in the morning. "
)
GERMAN = (
    "Es war spät, als die beiden an den Fluss gekommen waren, und es war niemand da, der ihnen "
    "hätte sagen können, was mit der alten Brücke geschehen war. Sie waren schon einmal dort "
    "gewesen, aber das war Jahre her, und seitdem war das meiste von dem, was sie darüber wussten, "
    "von allen anderen im Dorf vergessen worden, wie sie noch sehen sollten. "
)
RUSSIAN = (
    "Было уже поздно, когда они оба пришли к реке, и там не было никого, кто мог бы им сказать, "
    "что случилось со старым мостом. Они уже были там раньше, но это было много лет назад, и с тех "
    "пор почти всё, что они о нём знали, было забыто всеми остальными в деревне, как им ещё "
    "предстояло узнать утром, когда они снова вышли на дорогу. "
)


TEXTS = {"en": ENGLISH, "de": GERMAN, "ru": RUSSIAN}


@pytest.mark.parametrize(("first", "second"), [("en", "de"), ("de", "ru"), ("ru", "en")])
def test_no_share_of_a_second_language_is_a_cliff(first: str, second: str) -> None:
    """
    Whatever share of a text is in another language, 2 % more of it changes at most 6 bits by whose
    words anchor.

    Now and then it is more, but never above 9, where the words of one language alone would change
    some 20 at once. What the other words themselves change is left out: a text is judged with the
    anchors of before and with its own.
    """
    one, other = (
        tokens(" ".join([TEXTS[code], *SAMPLES[code]["prose"]])) for code in (first, second)
    )
    size = min(len(one), len(other))
    before = elected_words(one[:size])
    moved = []
    for percent in range(2, 101, 2):
        cut = size * percent // 100
        mixed = one[: size - cut] + other[:cut]
        anchoring = elected_words(mixed)
        moved.append(hamming_distance(*(_anchored(mixed, words) for words in (before, anchoring))))
        before = anchoring
    assert sum(bits > 0 for bits in moved) >= 5
    assert sum(bits > 6 for bits in moved) <= 2
    assert max(moved) <= 9


def _anchored(words: list[str], anchoring: frozenset[str]) -> int:
    return fold((one.hash, one.weight) for one in features(words, BY_WORD, anchoring))


def test_a_text_in_one_language_is_anchored_by_its_words_alone() -> None:
    """In 45 of 50 languages our prose elects no word of another one."""
    alone = [
        elected_words(tokens(" ".join(SAMPLES[code]["prose"]))) == stopwords_of(code)
        for code in SAMPLES
    ]
    assert sum(alone) >= 45


def stopwords_of(code: str) -> frozenset[str]:
    return folded_words(stopwords(code), "word")


# ---- dead bits, languages without spaces, and what near and far must mean there

WITHOUT_SPACES = ["th", "lo", "km", "my", "zh", "ja"]


def articles(language: str, count: int) -> list[str]:
    """Unrelated articles in a language of the sample crawl."""
    dice = Dice(7)
    found = [write_article(str(number), load_language(language), dice) for number in range(count)]
    return ["\n".join(" ".join(sentences) for sentences in article.paragraphs) for article in found]


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_every_bit_is_live(bits: Any) -> None:
    """Each bit is set in 40 to 60 % of unrelated articles in eight languages, at every width."""
    texts = [text for language in LANGUAGES for text in articles(language, 300)]
    rows = Fingerprinter(Parameters(bits=bits)).many(texts).reshape(len(texts), -1)
    shares = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").mean(axis=0)
    assert shares[:bits].min() >= 0.40
    assert shares[:bits].max() <= 0.60
    assert not shares[bits:].any()


@pytest.mark.parametrize("language", ["zh", "ja"])
@pytest.mark.parametrize("parameters", [BY_WORD, BY_CHARACTER], ids=["words", "characters"])
def test_text_without_spaces_is_not_constant(language: str, parameters: Parameters) -> None:
    """Two hundred Chinese or Japanese articles have as many fingerprints, half of the bits apart;
    punctuation hardly counts.
    """
    texts = articles(language, 200)
    batch = Fingerprinter(parameters).batch(
        [*texts, *(text.replace("。", "").replace("，", "") for text in texts)]
    )
    assert set(batch.kinds.tolist()) == {Kind.FULL}
    values = batch.fingerprints[:200]
    assert len(set(values.tolist())) == 200
    assert 24 <= np.bitwise_count(values[:-1] ^ values[1:]).mean() <= 36
    assert np.bitwise_count(values ^ batch.fingerprints[200:]).max() <= 3


@pytest.mark.parametrize("language", WITHOUT_SPACES)
@pytest.mark.parametrize("parameters", [BY_WORD, BY_CHARACTER], ids=["words", "characters"])
def test_a_copy_without_spaces_is_near_and_another_text_far(
    language: str, parameters: Parameters
) -> None:
    """
    One letter of some 200 changed moves a few bits, other markup none; another text of the language
    many.
    """
    prose, menu = SAMPLES[language]["prose"], SAMPLES[language]["menu"]
    text = " ".join(prose)
    rng = random.Random(1)
    places = rng.sample([at for at, letter in enumerate(text) if letter.isalpha()], 20)
    changed = [f"{text[:at]}{rng.choice(text)}{text[at + 1 :]}" for at in places]
    fingerprinter = Fingerprinter(parameters)
    original = fingerprinter.one(text)
    moved = [hamming_distance(original, fingerprinter.one(copy)) for copy in changed]
    assert sum(moved) / len(moved) <= 7
    assert max(moved) <= 12
    marked_up = f"\n“{text}”…\u200b\n"
    assert hamming_distance(original, fingerprinter.one(marked_up)) == 0
    for other in (" ".join(menu), " ".join(SAMPLES["th" if language != "th" else "zh"]["prose"])):
        assert hamming_distance(original, fingerprinter.one(other)) >= 20
    assert hamming_distance(*map(fingerprinter.one, prose)) >= 20


# ---- documents in fields, and weighted features of the caller's own

BODY = (
    "The old ferry crosses the river at noon, and nobody on board remembers who painted it green "
    "or why. " * 3
)


def test_one_field_of_weight_one_is_the_text() -> None:
    """Fields add nothing of their own."""
    parameters = Parameters(fields=(("body", 1),))
    assert Fingerprinter(parameters).of_fields([{"body": BODY}]).fingerprints[
        0
    ] == Fingerprinter().one(BODY)


def test_a_word_in_each_field_is_a_short_document_and_none_is_an_empty_one() -> None:
    """
    Eight fields of one word have no shingle at all; only equal fields match, in the same order.
    """
    names = [f"field{number}" for number in range(8)]
    fingerprinter = Fingerprinter(Parameters(fields=tuple((name, 1) for name in names)))
    words = {name: f"w{name}" for name in names}
    swapped = words | {names[0]: words[names[1]], names[1]: words[names[0]]}
    batch = fingerprinter.of_fields([words, swapped, {}, dict.fromkeys(names, " - ")])
    assert batch.kinds.tolist() == [Kind.SHORT, Kind.SHORT, Kind.EMPTY, Kind.EMPTY]
    assert batch.features.tolist() == [1, 1, 0, 0]
    assert batch.fingerprints[0] == batch.digests[0] != batch.digests[1]
    assert batch.fingerprints[2:].tolist() == [0, 0]


def test_weights_multiply() -> None:
    """The weight of a feature is that of its shingle times that of its field."""
    parameters = Parameters(fields=(("title", 200), ("body", 1)))
    found = explain({"title": "ferry of noon", "body": BODY}, parameters)
    assert [feature.weight for feature in found[:2]] == [600, 600]
    assert "ferry of" in [feature.shingle for feature in found[:2]]


def test_a_field_without_weight_is_refused() -> None:
    """It would be left out without a word."""
    with pytest.raises(ValueError, match=r"got fields \['footer'\] and weights"):
        Fingerprinter(Parameters(fields=(("body", 1),))).of_fields([{"footer": "x"}])
    with pytest.raises(ValueError, match="must weigh each field"):
        Fingerprinter().of_fields([{}])
    with pytest.raises(ValueError, match="got 1 documents, 0 languages"):
        Fingerprinter(Parameters(fields=(("a", 1), ("b", 1)))).of_fields([{}], [])


@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(1, 2**40), min_size=1, max_size=80),
    st.sampled_from([32, 64, 128]),
)
def test_a_bit_is_set_where_its_features_outweigh_the_others(
    features: dict[int, int], bits: int
) -> None:
    """Weights far above 255 count in full, at every width."""
    total, wide = (
        sum(features.values()),
        [(wide_hash(value, bits), weight) for value, weight in features.items()],
    )
    outweigh = [
        2 * sum(weight for value, weight in wide if value >> bit & 1) > total for bit in range(bits)
    ]
    assert fold(features.items(), bits) == sum(1 << bit for bit in range(bits) if outweigh[bit])


def test_the_order_of_own_features_is_irrelevant_and_text_stands_for_its_hash() -> None:
    """A dictionary filled in any order gives one fingerprint."""
    fingerprinter = Fingerprinter()
    features = {f"feature {number}": number + 1 for number in range(300)}
    shuffled = list(features.items())
    random.Random(1).shuffle(shuffled)
    value = fingerprinter.of_features(features)
    assert value == fingerprinter.of_features(dict(shuffled))
    assert value == fingerprinter.of_features(
        {token_hash(name): weight for name, weight in features.items()}
    )


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ({}, "sum to 1"),
        ({1: 0}, "at least 1, got 0"),
        ({-1: 1}, "64 bits, got -0x1"),
        ({2**64: 1}, "64 bits"),
        ({1: 2**62}, "sum to 1 to 2"),
    ],
)
def test_features_that_have_no_fingerprint_say_why(features: dict[int, int], reason: str) -> None:
    """
    None at all would be equal to every other nothing; a sum beyond 64 bits would turn its sign.
    """
    with pytest.raises(ValueError, match=reason):
        Fingerprinter().of_features(features)


def test_features_of_numpys_are_features_and_fractions_are_not() -> None:
    """
    All bits of a wide fingerprint from NumPy's keys; a weight of 1.5 is refused, and does not count
    as 1.
    """
    keys = np.random.default_rng(1).integers(0, 2**64, 40, np.uint64)
    for bits in (32, 64, 128):
        fingerprints = Fingerprinter(Parameters(bits=bits))
        plain = fingerprints.of_features({int(key): 3 for key in keys})
        numpys: Any = dict.fromkeys(keys, np.int64(3))
        assert fingerprints.of_features(numpys) == plain
    fractions: Any = {1: 1.9, 2: 1.1}
    with pytest.raises(TypeError, match="float"):
        Fingerprinter().of_features(fractions)


def test_many_documents_in_fields_are_the_same_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the portion, with languages and without; and no documents are no fingerprints."""
    fingerprints = Fingerprinter(Parameters(fields=(("title", 4), ("body", 1)), anchors="named"))
    documents = [
        {
            "title": f"The ferry {n}",
            "body": f"It was late again, {n} times, and nobody has said why.",
        }
        for n in range(7)
    ]
    languages = ["en", None, "de", "en", "en", None, "fr"]
    whole = fingerprints.of_fields(documents, languages)
    monkeypatch.setattr("worker.core.fingerprint.CHUNK_CHARACTERS", 100)
    for column, found in zip(whole, fingerprints.of_fields(documents, languages), strict=True):
        np.testing.assert_array_equal(np.asarray(column), np.asarray(found))
    assert fingerprints.of_fields([]).fingerprints.tolist() == []
    with pytest.raises(ValueError, match="must weigh each field"):
        Fingerprinter().of_fields([])
