"""
The kernels equal the definition bit for bit: over arbitrary text, every parameter, alone and in
batches.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES, REPOSITORY, output_of
from worker.core.compiled import kernel
from worker.core.definition import Parameters, define
from worker.core.fingerprint import Fingerprinter, _empty_columns, _pack_one
from worker.core.kernels.anchors import ELECT
from worker.core.kernels.fingerprint import fingerprint_batch
from worker.core.kernels.tally import GROUP, LOG, ONE, PLANES, TF, add_hashes, settle, table_bits
from worker.core.kernels.unicode import (
    CHARACTER,
    CHARACTER_RANGES,
    FIRST,
    KIND,
    LENGTH,
    LONG_BYTES,
    code_points,
)
from worker.core.tokens import nfc, unicode_table

MARKS = "\u0300\u0316\u0301\u0323\u05b0\u05b4\u0651\u0650\u093c\u094d\u0e38\u0e48\u103a\u1037\u3099\u302a\u0345"
COMPOSING = "\u00e9e\u0301\u1e69\u00dd\u212b\u2126\u1100\u1161\u11a8\uac00\u1025\u102e\u0130"
DECOMPOSING = "\u09dc\u09df\u09be\u0958\ufb2c\ufb1d\u0f73\uf900ß\ufb01①ªﾞｶ"
SCRIPTS = "aZ09 ,.’àçøПривет東京をがกำไก\u0e48ລາວខ្មែរမြန်အရബംভালোहिन्दी한국어\U00011131\U00020000"
OTHERS = "\u200b\u00ad\u200d\U0001f600\ud800\udfff\x00\n\ufe0f"
ALPHABET = MARKS + COMPOSING + DECOMPOSING + SCRIPTS + OTHERS
ARABIC = "ابوي ه\u064e\u064f\u0650\u0651\u0652\u0653\u0654\u0655\u0656\u0670\u06c1\u06d5\u0622\u0323\u0301e\u00e9"
WORDS = [
    "the", "of", "a", "red", "ferry", "2024", "deadbeef01", "x" * 17, "привет", "и", "東", "の",
    "สวัส", "é", "e\u0301",
]  # fmt: skip

FUNCTION_WORDS = [
    "the", "of", "and", "to", "with", "from", "und", "der", "die", "das", "nicht", "mit", "и", "не",
    "что", "на", "это", "ale", "nie", "się", "jest", "的", "の", "ที่", "red", "paint",
]  # fmt: skip

some_text = st.one_of(
    st.lists(st.sampled_from(FUNCTION_WORDS), min_size=20, max_size=120).map(" ".join),
    st.text(max_size=60),
    st.text(st.sampled_from(ALPHABET), max_size=60),
    st.lists(st.sampled_from(WORDS), max_size=80).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=40).map("".join),
)
RUNS = [
    "abc XYZ09,", "äöüßÉ a", "Привет мир", "हिन्दी।", "東京都", "かなカナ", "한국어", "。ー々①ｱﾞ", "\u3099\u309a",
    "กำไ\u0e48", "\U00020000\U0001f600\ue000",
]  # fmt: skip
some_runs = st.lists(st.tuples(st.sampled_from(RUNS), st.integers(1, 20)), max_size=12).map(
    lambda runs: "".join((letters * count)[:count] for letters, count in runs)
)
some_parameters = st.builds(
    Parameters,
    bits=st.sampled_from([32, 64, 128]),
    token_unit=st.sampled_from(["word", "character"]),
    shingle_widths=st.sampled_from([(1,), (2,), (3,), (1, 2), (2, 3, 5), (8,)]),
    anchored_weight=st.sampled_from([1, 3, 255]),
    unanchored_weight=st.sampled_from([0, 1, 7]),
    term_frequency=st.sampled_from(["one", "log", "tf"]),
    anchors=st.sampled_from(["elected", "named", "union"]),
    tokens_min=st.sampled_from([8, 9, 30]),
    shingles_min=st.sampled_from([1, 8, 100]),
    mask_numbers=st.booleans(),
    mask_identifiers=st.booleans(),
    stopwords=st.sampled_from([None, frozenset({"the", "の", "и"})]),
    fields=st.sampled_from(
        [(), (("title", 4), ("headings", 2), ("body", 1)), (("body", 255), ("title", 9))]
    ),
)


def _assert_equal(
    texts: list[str], parameters: Parameters, languages: list[str | None] | None = None
) -> None:
    fingerprinter = Fingerprinter(parameters)
    batch = fingerprinter.batch(texts, languages)
    named = languages or [None] * len(texts)
    for text, language, found in zip(texts, named, batch.rows(), strict=True):
        expected = define(text, parameters, language)
        assert found == expected, f"{text!r} {language} {parameters}"
        assert fingerprinter.one(text, language) == expected.value
    if parameters.fields:
        names = [name for name, _ in parameters.fields]
        documents = [dict(zip(names, texts[at:], strict=False)) for at in range(len(texts))]
        batch = fingerprinter.of_fields(documents, languages)
        for document, language, found in zip(documents, named, batch.rows(), strict=True):
            assert found == define(document, parameters, language), (
                f"{document} {language} {parameters}"
            )


@given(st.lists(some_text, min_size=1, max_size=4))
@settings(max_examples=3 * EXAMPLES)
def test_any_text_by_default(texts: list[str]) -> None:
    """Arbitrary Unicode, composed or not, lone surrogates included: the default parameters."""
    _assert_equal(texts, Parameters())


@given(
    st.lists(some_text, min_size=1, max_size=3),
    some_parameters,
    st.sampled_from([None, "en", "ru", "xx"]),
)
@settings(max_examples=2 * EXAMPLES)
def test_any_text_under_any_parameters(
    texts: list[str], parameters: Parameters, language: str | None
) -> None:
    """
    Arbitrary texts, and documents of them as fields, under arbitrary parameters, with a language
    and without.
    """
    _assert_equal(texts, parameters, [language] * len(texts))


@given(st.lists(some_runs, min_size=1, max_size=4))
@settings(max_examples=EXAMPLES)
def test_code_points_in_blocks(texts: list[str]) -> None:
    """
    Sixteen code points are written at once where all are of one kind: runs of each kind, of any
    length, may meet anywhere in a block.
    """
    _assert_equal(texts, Parameters())


@given(st.lists(st.text(st.sampled_from(ARABIC), max_size=60), min_size=1, max_size=4))
@settings(max_examples=EXAMPLES)
def test_marks_of_arabic_in_any_order(texts: list[str]) -> None:
    """Vowel signs are skipped, but those between a letter and its hamza decide what composes."""
    _assert_equal(texts, Parameters())


def test_vowel_signs_alone_are_not_composed() -> None:
    """
    People write the sign of a long consonant before its vowel, and NFC has them in the other order.
    The tokens are the same, so such a text is read once; one whose letters compose is composed.
    """
    fingerprinter = Fingerprinter()
    signs, hamza = "د\u0651\u064eر\u0651\u064e", "ا\u064e\u0654"
    assert nfc(signs) != signs
    assert nfc(hamza) != hamza
    assert [_left_to_compose(fingerprinter, text) for text in (signs, hamza)] == [0, 1]


def _left_to_compose(fingerprinter: Fingerprinter, text: str) -> int:
    """Return how many texts of a batch of one have to be composed and read again."""
    batch = _pack_one(text, True, ELECT)
    own = fingerprinter._points, fingerprinter._rules, fingerprinter._anchors
    again: int = fingerprint_batch(batch, False, *own, _empty_columns(1, 64))
    return again


@pytest.mark.parametrize("unit", ["word", "character"])
def test_every_code_point(unit: Any) -> None:
    """
    Each code point by itself between words, and before a mark: a batch of all that are not plain
    separators.
    """
    table = unicode_table()
    codes = np.flatnonzero((table.kind != 0) | (table.combining != 0))
    codes = np.union1d(codes, [*range(0x3000), *table.canonical])
    chosen = random.Random(1).sample(codes.tolist(), 3_000) + list(table.canonical)
    texts = [f"to {chr(code)} be{chr(code)}\u0301 or{chr(code)}\u0323x" for code in chosen]
    parameters = Parameters(token_unit=unit, tokens_min=2)
    digests = Fingerprinter(parameters).batch(texts).digests.tolist()
    wrong = [
        hex(code)
        for code, text, digest in zip(chosen, texts, digests, strict=True)
        if define(text, parameters).digest != digest
    ]
    assert wrong == []


@pytest.mark.parametrize("term_frequency", ["one", "log", "tf"])
def test_long_texts(term_frequency: Any) -> None:
    """
    Many repeated words, many different ones, several scripts: counting tables are full, no sum of
    weights is cut.
    """
    rng = random.Random(7)
    words = [f"w{rng.randrange(3_000)}" for _ in range(9_000)]
    texts = [
        " ".join(words),
        "the same " * 5_000,
        " ".join(f"u{number}" for number in range(20_000)),
        "".join(chr(0x4E00 + rng.randrange(500)) for _ in range(20_000)),
        "é " * 3_000 + " ".join(words[:1_000]),
    ]
    _assert_equal(texts, Parameters(term_frequency=term_frequency, anchored_weight=255))


@given(st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 15, 16, 23, 24, 31, 32, 33, 70]), min_size=9))
@settings(max_examples=EXAMPLES)
def test_tokens_of_every_length_in_any_order(lengths: list[int]) -> None:
    """
    Tokens are hashed in groups, by their length: each gets its own hash, whatever stands beside it.
    """
    letters = "abcdefghijklmnopqrstuvwxyz0123456789" * 2
    narrow = [letters[number % 30 :][:length] for number, length in enumerate(lengths)]
    wide = [letters[number % 30 :][: length - 1] + "é" for number, length in enumerate(lengths)]
    _assert_equal([" ".join(narrow), " ".join(wide)], Parameters())


def test_characters_that_are_written_at_once_are_tokens_that_nothing_changes() -> None:
    """
    Characters of CHARACTER_RANGES are written without a look at the table. It says the same of each
    of them: a token by itself, three bytes that nothing folds, the same in NFC.
    """
    points = code_points("word")
    for low, high in CHARACTER_RANGES:
        codes = np.arange(low, high + 1)
        entries = points.entries[points.stage1[codes >> 8].astype(np.intp) + (codes & 255)]
        rules = entries & np.uint64((1 << FIRST) - 1) & ~np.uint64(0xFFFFFFFF)
        assert set(rules.tolist()) == {CHARACTER << KIND | 3 << LENGTH}
        written = [int.from_bytes(chr(code).encode(), "little") for code in codes.tolist()]
        assert (entries & np.uint64(0xFFFFFFFF)).tolist() == written


def test_texts_longer_than_a_chunk_and_empty_batches() -> None:
    """A batch is cut where it suits the kernel, never in a text; no text at all is a batch too."""
    texts = ["short", "a b c d e f g h i j " * 10_000, "", "ж " * 140_000, "last of them all " * 3]
    _assert_equal(texts, Parameters())
    assert Fingerprinter().batch([]).fingerprints.shape == (0,)
    assert Fingerprinter(Parameters(bits=128)).many([]).shape == (0, 2)


@pytest.mark.parametrize("rule", [ONE, LOG, TF])
@pytest.mark.parametrize("bits", [64, 40, 30, 8, 3])
def test_counting_equals_a_counter(rule: int, bits: int) -> None:
    """
    Hashes that differ in their last `bits` bits only are counted too: nobody can choose words to
    break it.
    """
    rng = random.Random(bits)
    for count in (0, 1, 2, 60, 5_000):
        hashes = [rng.getrandbits(bits) % max(count // 2, 1) if rng.random() < 0.3 else rng.getrandbits(bits)
                  for _ in range(count)]  # fmt: skip
        out = np.zeros(count + 1, np.uint64)
        kept, distinct = _settle(np.array(hashes, np.uint64), rule, out)
        counted = Counter(hashes)
        expected = sorted(
            value
            for value, number in counted.items()
            for _ in range({ONE: 1, LOG: number.bit_length(), TF: number}[rule])
        )
        assert (sorted(out[:kept].tolist()), distinct) == (expected, len(counted))


@kernel
def _settle(hashes: Any, rule: Any, out: Any) -> Any:
    count = np.uint64(hashes.size)
    scratch = (
        np.empty(np.uint64(1) << table_bits(count), np.uint32),
        np.empty(count + np.uint64(1), np.uint32),
        np.empty(count + np.uint64(1), np.uint32),
        np.empty(count + np.uint64(1), np.uint64),
    )
    return settle(hashes, count, rule, out, scratch)


def test_sums_of_bits_are_those_of_one_hash_after_the_other() -> None:
    """Also for counts that are no multiples of 16, and where a carry leaves the planes of common texts."""
    dice = np.random.default_rng(3)
    for count in (0, 1, 7, 8, 15, 16, 17, 31, 32, 1_007, 1_023, 1_024, 1_041, 5_000):
        for hashes in (
            dice.integers(0, 2**64, count, dtype=np.uint64),
            np.full(count, 0xFF00_FF00_0000_0001, np.uint64),
        ):
            sums = dice.integers(-9, 9, 64)
            of_bits = (hashes[:, np.newaxis] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
            expected = sums + 3 * (2 * of_bits.sum(axis=0).astype(np.int64) - count)
            planes = np.full(PLANES + GROUP, 2**64 - 1, np.uint64)  # any content
            _add(hashes, np.int64(3), planes, sums)
            assert sums.tolist() == expected.tolist(), count


@kernel
def _add(hashes: Any, weight: Any, planes: Any, sums: Any) -> None:
    add_hashes(hashes, np.uint64(hashes.size), weight, planes, sums)


def test_invisible_marks_are_composed_around_as_nfc_says() -> None:
    """
    Arabic vowel signs are invisible and have combining classes: a madda or hamza behind them still
    belongs to the letter before them, and marks out of order are put in order.
    """
    table = unicode_table()
    invisible = np.flatnonzero((table.kind == 5) & (table.combining > 0)).tolist()
    assert len(invisible) > 40
    rng = random.Random(11)
    parts = [
        *map(chr, invisible),
        *"اويهىک",
        "\u0653",
        "\u0654",
        "\u0655",
        "\u0640",
        "\u200d",
        "ﻻ",
        " ",
    ]
    texts = [
        "في من على " + "".join(rng.choices(parts, k=rng.randrange(1, 40))) for _ in range(3_000)
    ]
    _assert_equal(texts, Parameters(tokens_min=2))


def test_no_folded_character_is_longer_than_its_room() -> None:
    """`out` has LONG_BYTES for each code point."""
    for points in (code_points("word"), code_points("character")):
        assert int((points.entries >> np.uint64(40) & np.uint64(7)).max()) <= LONG_BYTES


def test_a_million_marks_take_milliseconds_not_hours() -> None:
    """A run of combining marks out of order is sorted in linear time, and as NFC says."""
    text = "a" + "\u0300\u0316" * 500_000
    fingerprinter = Fingerprinter()
    assert fingerprinter.batch([text]).kinds.tolist() == [1]
    short = "a" + "\u0300\u0316\u0334" * 30
    assert fingerprinter.batch([short]).digests[0] == fingerprinter.batch([nfc(short)]).digests[0]


def test_every_kind_of_text_and_parameter_runs_one_compiled_kernel() -> None:
    """
    ASCII, other scripts, nothing at all, one text, many, fields, any width: a second kernel would
    cost seconds.
    """
    for parameters in (
        Parameters(),
        Parameters(bits=128, shingle_widths=(1, 3), token_unit="character", fields=(("body", 2),)),
    ):
        fingerprinter = Fingerprinter(parameters)
        for text in ("", "plain words only", "größere Wörter", "e\u0301 is composed first"):
            fingerprinter.one(text)
            fingerprinter.batch([text])
        fingerprinter.batch(["plain", "größer", "e\u0301"])
        fingerprinter.batch([])
    fingerprinter.of_fields([{"body": "the words of a body"}])
    assert len(fingerprint_batch.signatures) == 1


# ---- megabytes of one thing: defined results, and memory bounded by a multiple of the text

MEGABYTES = 4
# What a fingerprint may need at its peak for a byte of text (UTF-8), the text itself not counted,
# with one width. A token costs some 50 bytes of scratch memory, and a text of words of one letter
# has one in two bytes.
MEMORY_PER_BYTE_MAX = 30

MEASURE = """
import re, sys
from pathlib import Path
from worker.core.fingerprint import Fingerprinter, Kind

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10

fingerprinter = Fingerprinter()
fingerprinter.batch(["warm", "w\\u00e4rmer", "e\\u0301"])
for expression in sys.argv[1:]:
    text = eval(expression)
    size = len(text.encode())
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is this text's
    before = peak()
    batch = fingerprinter.batch([text])
    grown = peak() - before
    assert fingerprinter.one(text) == batch.fingerprints[0]
    print(Kind(batch.kinds[0]).name, batch.features[0], batch.fingerprints[0], grown / (size or 1))
"""


def of_size(piece: str) -> str:
    """An expression for a piece repeated to four megabytes."""
    return f"{piece!r} * {(MEGABYTES << 20) // len(piece.encode())}"


SHORT_ONES = {"''": ("EMPTY", 0), "'bridge'": ("SHORT", 1), "'river ' * 8": ("FULL", 1)}
LONG_ONES = {
    **{of_size(piece): ("FULL", 1) for piece in ("river ", "река ", "川")},
    **{of_size(piece): ("FULL", 2) for piece in ("a b ", "я б ")},
    **{
        of_size(piece): ("SHORT", 1)
        for piece in ("river", "e\u0301", "\u0301\u0316\u0323", "\u0e48\u0e38", "\ufdfa")
    },
    **{
        of_size(piece): ("EMPTY", 0)
        for piece in ("\U0001f600\U0001f44d\U0001f3fd\u200d", "\x00\x01\x1f\x7f", "\u200b\u00ad")
    },
    # each shingle is another one, in ASCII, Cyrillic and Han: of two blocks each character with
    # each of the other
    "' '.join(map(str, range(560_000)))": ("FULL", 559_999),
    "' '.join('\\u0430' + hex(n) for n in range(480_000))": ("FULL", 479_999),
    "''.join(chr(0x6000 + n // 1900) + chr(0x4e00 + n % 1900) for n in range(700_000))": (
        "FULL",
        1_399_999,
    ),
}


@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the peak of a process can't be reset here"
)
def test_megabytes_of_one_thing_and_of_many() -> None:
    """
    Each text has the kind and number of shingles that it must have, and needs memory for a multiple
    of its size.
    """
    expected = SHORT_ONES | LONG_ONES
    said = output_of(sys.executable, "-c", MEASURE, *expected, cwd=REPOSITORY)
    found = dict(zip(expected, map(str.split, said.splitlines()), strict=True))
    assert {text: (kind, int(features)) for text, (kind, features, *_) in found.items()} == expected
    assert all((kind == "EMPTY") == (value == "0") for kind, _, value, _ in found.values())
    # One shingle, whatever its weight.
    assert found[of_size("river ")][2] == found["'river ' * 8"][2]
    assert {
        text: found[text][3] for text in LONG_ONES if float(found[text][3]) > MEMORY_PER_BYTE_MAX
    } == {}
