"""
Defines the fingerprint from end to end, in plain Python. The kernels must equal it bit for bit.

    text ─► NFC ─► tokens ─┬─ shingles of 2 ─► weighted features ─► fingerprint, doubts
                           └─ shingles of 4 ─► sketch

No token at all is EMPTY (fingerprint 0). Fewer than `tokens_min` tokens is SHORT: the digest of the
whole text is the only feature. Everything else is FULL.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cache, lru_cache
from itertools import islice
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import orjson
import xxhash

from worker.core import stopwords as lists
from worker.core.arguments import switch, texts, whole_number
from worker.core.sketch import (
    BINS,
    BINS_MAX,
    ONE_WORD_BINS,
    ONE_WORD_EITHER,
    ONE_WORD_MIN,
    SIMILARITY_MIN,
    sketch,
)
from worker.core.stopwords import languages, stopwords
from worker.core.tokens import (
    CHARACTER,
    TABLE_DIGEST,
    UNICODE_VERSION,
    is_character,
    masked,
    token_kinds,
    tokens,
)

# Everything that changes a fingerprint, in one frozen value: two fingerprints compare only under
# equal parameters.

SCHEME_VERSION = 6  # raised with any change of the definition that is not a parameter
WIDTHS_MAX = 4  # each width is another pass over the tokens
WIDTH_MAX = 32  # a longer shingle is a sentence: one changed word would change most of them
WEIGHT_MAX = 255  # with it 2**40 shingles still fit a 64-bit tally
_WHOLE_NUMBERS = ("bits", "anchored_weight", "unanchored_weight", "tokens_min", "shingles_min")


@dataclass(frozen=True, slots=True)
class Parameters:
    """
    The settings of the fingerprint. The defaults measured best on web documents.

    Args:
        bits: width of the fingerprint; the index and the log use 64.
        token_unit: "word" (in scripts without spaces a character), or always one "character".
        shingle_widths: tokens in a shingle; one width or several, in ascending order.
        anchored_weight: of a shingle with at least one function word, as most shingles of prose
            have.
        unanchored_weight: of the other shingles, which most advertisements and menus consist of. 0
            leaves them out.
        term_frequency: what n occurrences count: "one" 1, "log" 1 + floor(log2 n), "tf" n.
        anchors: which function words count: those of the language that the text's own words elect
            ("elected"), those of the language that is given with the text, if it has a list
            ("named"), or those of all languages ("union"). If the text has too few function words,
            the union decides. A label that is wrong on one of two copies hides them from each other
            (recall at distance 3 falls from 0.67 to 0.04), so labels do not count by default.
        tokens_min: a document with fewer tokens is SHORT: only equal texts match.
        shingles_min: with fewer anchored shingles than this, and unanchored weight 0, every shingle
            counts as anchored.
        mask_numbers: tokens with at least half digits all count as the same token: dates, times,
            prices.
        mask_identifiers: hexadecimal and long mixed tokens count as that token, too: session ids,
            hashes.
        fields: weights of named parts of a document: (("title", 4), ("body", 1)).
        stopwords: your own list of function words, instead of the built-in ones.
    Raises:
        ValueError: a value is out of its bounds, or contradicts another.
        TypeError: a value is of another type. Numbers may be of numpy, and sequences lists.

    >>> Parameters().scheme
    'simhash64-6-unicode-18.0.0'
    >>> usual, wider = Parameters(), Parameters(shingle_widths=(3,))
    >>> usual.hash == Parameters(shingle_widths=(2,)).hash != wider.hash
    True
    """

    bits: Literal[32, 64, 128] = 64
    token_unit: Literal["word", "character"] = "word"
    shingle_widths: tuple[int, ...] = (2,)
    anchored_weight: int = 3
    unanchored_weight: int = 1
    term_frequency: Literal["one", "log", "tf"] = "one"
    anchors: Literal["elected", "named", "union"] = "elected"
    tokens_min: int = 8
    shingles_min: int = 8
    mask_numbers: bool = False
    mask_identifiers: bool = False
    fields: tuple[tuple[str, int], ...] = ()
    stopwords: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self._set_types()
        for name, hint in get_type_hints(Parameters).items():
            value = getattr(self, name)
            allowed = get_args(hint)
            if get_origin(hint) is Literal and value not in allowed:
                raise ValueError(
                    f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}"
                )
        widths = self.shingle_widths
        if not 1 <= len(widths) <= WIDTHS_MAX or sorted(set(widths)) != list(widths):
            raise ValueError(
                f"shingle_widths must be 1 to {WIDTHS_MAX} different numbers, "
                f"ascending, got {widths}"
            )
        for width in widths:
            _between("a width", width, 1, WIDTH_MAX)
        _between("anchored_weight", self.anchored_weight, 1, WEIGHT_MAX)
        _between("unanchored_weight", self.unanchored_weight, 0, WEIGHT_MAX)
        _between("tokens_min", self.tokens_min, 1, 1_000)
        _between("shingles_min", self.shingles_min, 1, 1_000)
        if self.tokens_min < self.shingle_widths[-1]:
            raise ValueError(
                "tokens_min must be at least the largest width, "
                f"got tokens_min={self.tokens_min}, shingle_widths={self.shingle_widths}: "
                f"a text of {self.tokens_min} tokens would have no shingle"
            )
        if len({name for name, _ in self.fields}) != len(self.fields):
            raise ValueError(f"a field has one weight, got {self.fields}")
        for name, weight in self.fields:
            _between(f"the weight of field {name!r}", weight, 1, WEIGHT_MAX)

    def _set_types(self) -> None:
        """
        Give each value the one type that it has in JSON, which `hash` covers. TypeError: it cannot
        have that type.
        """
        for name in _WHOLE_NUMBERS:
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        for name in ("mask_numbers", "mask_identifiers"):
            object.__setattr__(self, name, switch(name, getattr(self, name)))
        widths = tuple(whole_number("a width", width) for width in self.shingle_widths)
        object.__setattr__(self, "shingle_widths", widths)
        weights = []
        for pair in self.fields:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or type(pair[0]) is not str:
                raise TypeError(
                    f"fields must be pairs of a name and its weight, such as (('title', 4), "
                    f"('body', 1)), got {pair!r} among them"
                )
            name, weight = pair
            weights.append((name, whole_number(f"the weight of field {name!r}", weight)))
        object.__setattr__(self, "fields", tuple(weights))
        if self.stopwords is not None:
            object.__setattr__(self, "stopwords", frozenset(texts("stopwords", self.stopwords)))

    @property
    def scheme(self) -> str:
        """The name of the definition: kind and width of the fingerprint, version, Unicode table."""
        return f"simhash{self.bits}-{SCHEME_VERSION}-unicode-{UNICODE_VERSION}"

    @property
    def hash(self) -> str:
        """
        16 hex digits over scheme, parameters, Unicode table and stopwords.

        Two fingerprints may be compared only if their parameters' hashes are equal.
        """
        return _hash(self)


@lru_cache(maxsize=64)
def _hash(parameters: Parameters) -> str:
    values = asdict(parameters)
    own = parameters.stopwords
    values["stopwords"] = lists.version() if own is None else lists.digest(own)
    values["scheme"] = parameters.scheme
    values["table"] = TABLE_DIGEST
    points = POINTS_MIN, POINTS_ALONE, POINTS_SHARED
    values["votes"] = (TOKENS_MAX, *points, sorted(VOTELESS), SHARE_UNITS, SHARE_MIN)
    shingles = SKETCH_WORDS, SKETCH_CHARACTERS, SKETCH_LETTERS, MIXED_TIMES
    values["sketch"] = (BINS, BINS_MAX, *shingles, NUMBER_TIMES)
    # The rule for comparing two sketches decides verdicts, too. It raises the estimate of short
    # texts to a constant, which does not depend on `similarity_min`.
    values["one_word"] = (ONE_WORD_BINS, ONE_WORD_EITHER, ONE_WORD_MIN, SIMILARITY_MIN)
    return xxhash.xxh64_hexdigest(orjson.dumps(values, option=orjson.OPT_SORT_KEYS))


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, got {value}")


# The definition, step 3: tokens to weighted features.
#
# A shingle is `width` tokens in a row. It is anchored when at least one of them is a function word.
# A feature is the 64-bit hash of a shingle; its weight is that of the anchored or the unanchored,
# times what its occurrences count.

_64 = (1 << 64) - 1
# 2**64 over the golden ratio, odd: a bijection, so no token is lost in a product.
MULTIPLIER = 0x9E3779B97F4A7C15


class Feature(NamedTuple):
    """A distinct shingle of a document, with its hash, weight and occurrences."""

    shingle: str  # its tokens, joined by one space
    hash: int
    weight: int
    anchored: bool
    occurrences: int


def token_hash(token: str) -> int:
    """Return XXH64, seed 0, of the token's UTF-8 bytes."""
    return xxhash.xxh64_intdigest(token.encode("utf-8", "surrogatepass"))


def finish(value: int) -> int:
    """
    Return a value after the finishing mix of MurmurHash3: each of its bits moves every bit of the
    result.
    """
    value = ((value ^ value >> 33) * 0xFF51AFD7ED558CCD) & _64
    value = ((value ^ value >> 33) * 0xC4CEB9FE1A85EC53) & _64
    return value ^ value >> 33


def shingle_hash(hashes: Sequence[int]) -> int:
    """
    Return one hash of token hashes in order.

    The width enters first, so that shingles of two widths have nothing in common.

    >>> shingle_hash([1, 2]) == shingle_hash([2, 1])
    False
    """
    value = len(hashes)
    for one in hashes:
        value = (value * MULTIPLIER + one) & _64
    return finish(value)


def occurrences_weight(occurrences: int, term_frequency: str) -> int:
    """
    Return the weight of n occurrences: 1, 1 + floor(log2 n) or n.

    The logarithm is a whole number, so that every machine agrees on it.

    >>> [occurrences_weight(6, how) for how in ("one", "log", "tf")]
    [1, 3, 6]
    """
    if term_frequency == "one":
        return 1
    return occurrences if term_frequency == "tf" else occurrences.bit_length()


def features(
    tokens: Sequence[str], parameters: Parameters, stopwords: Collection[str]
) -> list[Feature]:
    """
    Return the features of a text, by first occurrence, without those of weight 0.

    Args:
        tokens: all tokens of the text, before masking; at least `tokens_min`.
        parameters: widths, weights and masks.
        stopwords: the function words that anchor this text, as `anchor_words` returns them.

    With unanchored weight 0 and fewer anchored shingles than `shingles_min`, every shingle counts
    as anchored: a fingerprint of three phrases would say nothing of the rest.
    """
    shown = [
        masked(token, parameters.mask_numbers, parameters.mask_identifiers) for token in tokens
    ]
    anchor = [token in stopwords for token in shown]
    hashes = [token_hash(token) for token in shown]
    # (hash, anchored) -> occurrences, first position, width.
    counts: dict[tuple[int, bool], list[int]] = {}
    anchored_count = 0
    for width in parameters.shingle_widths:
        for position in range(len(tokens) - width + 1):
            anchored = any(anchor[position : position + width])
            anchored_count += anchored
            key = (shingle_hash(hashes[position : position + width]), anchored)
            counts.setdefault(key, [0, position, width])[0] += 1
    unanchored_weight = parameters.unanchored_weight
    if unanchored_weight == 0 and anchored_count < parameters.shingles_min:
        unanchored_weight = parameters.anchored_weight
    return [
        Feature(
            " ".join(shown[position : position + width]),
            value,
            (parameters.anchored_weight if anchored else unanchored_weight)
            * occurrences_weight(occurrences, parameters.term_frequency),
            anchored,
            occurrences,
        )
        for (value, anchored), (occurrences, position, width) in counts.items()
        if anchored or unanchored_weight
    ]


# The shingles of the sketch: wider ones, and all alike.
#
# What differs between two pages of one template is scattered in its sentences, a price here and a
# name there. What differs between two copies with other advertisements stands in blocks. A changed
# token costs four shingles of four tokens, but only two shingles of two tokens. A block of 40
# changed tokens costs 43 or 41 shingles, nearly the same. So wider shingles with a lower threshold
# forgive blocks and tell templates apart.
#
# In scripts with a token per character a word is two to four tokens. There three characters are a
# shingle, and the facts of a template, its numbers and Latin names, are single tokens among many: a
# shingle with both kinds of token counts as often as a word has characters. Without this, pages of
# a Thai or Japanese template are as alike as copies with one character in twenty replaced, at any
# width.
#
# Numbers are facts more often than words are: prices, dates, sizes. So the two shingles of words
# with a number in the middle count twice. Without this, product pages of a Hindi template are as
# alike as articles between other advertisements. It also keeps offers of a few lines apart that
# differ in one token with a digit ("60D", "7D"): the rule for one replaced word tolerates four
# shingles, and such a token costs six.

SKETCH_WORDS = 4  # tokens of a shingle that begins with a word
SKETCH_CHARACTERS = 3  # width of a shingle that begins with a character of a script without spaces
SKETCH_LETTERS = 12  # width of a shingle if the unit is a character: some four words
MIXED_TIMES = 4  # how often a shingle of words and characters counts
DIGITS = "0123456789"  # a token that begins with one is a number
NUMBER_PLACES = slice(1, 3)  # a shingle of words with a number there counts NUMBER_TIMES
NUMBER_TIMES = 2


def sketch_hashes(words: Sequence[str], parameters: Parameters) -> list[int]:
    """
    Return the hashes of a text's shingles for the sketch, with repetitions.

    A text with fewer tokens than any shingle needs is one shingle; without a token it has none.
    """
    by_word = parameters.token_unit == "word"
    narrow = [by_word and is_character(word) for word in words]
    shown = [masked(word, parameters.mask_numbers, parameters.mask_identifiers) for word in words]
    hashes = [token_hash(word) for word in shown]
    number = [by_word and word[0] in DIGITS for word in shown]
    made = []
    for position, is_narrow in enumerate(narrow):
        width = SKETCH_LETTERS
        if by_word:
            width = SKETCH_CHARACTERS if is_narrow else SKETCH_WORDS
        end = position + width
        if end > len(words):
            continue
        value = shingle_hash(hashes[position:end])
        times = 1
        if 0 < sum(narrow[position:end]) < width:
            times = MIXED_TIMES
        elif any(number[position:end][NUMBER_PLACES]):
            times = NUMBER_TIMES
        made.append(value)
        made += [value * MULTIPLIER**time & _64 for time in range(1, times)]
    return made or ([shingle_hash(hashes)] if hashes else [])


# The definition, step 4: weighted features to a SimHash fingerprint; and how two fingerprints
# compare.

# Added before the mix that makes bits 64 to 127 of a feature's hash.
SECOND_HALF = 0x9E3779B97F4A7C15
WEIGHT_SUM_MAX = 1 << 62  # the kernels' tally is a signed 64-bit number
# Of a sum that enters the rule of doubt: its square times 400 * 128 still fits 64 bits.
DOUBT_BITS = 24
# (7 / 20)^2: doubtful below 0.35 of the root mean square.
DOUBT_LEFT = 400
DOUBT_RIGHT = 49


def wide_hash(value: int, bits: int) -> int:
    """Return a 64-bit feature hash as one of 32 bits (the low ones), 64, or 128 (64 more mixed)."""
    if bits == 128:
        return finish((value + SECOND_HALF) & (1 << 64) - 1) << 64 | value
    return value & (1 << bits) - 1


def fold(features: Iterable[tuple[int, int]], bits: int = 64) -> int:
    """
    Fold weighted features into one SimHash fingerprint.

    Bit i is 1 when the features whose hash has bit i set outweigh those whose hash has not. A tie
    gives 0.

    Args:
        features: pairs of a 64-bit hash and a weight of at least 1.
        bits: width of the fingerprint: 32, 64 or 128.
    Returns:
        An integer of `bits` bits. 0 is a fingerprint, not "none".
    Raises:
        ValueError: no features (every empty page would match every other), a hash below 0 or beyond
            64 bits, a weight below 1, a sum of 2**62 or more.
        TypeError: a hash or a weight is not a whole number: 1.5 would count as 1.

    Cost: O(bits · features).  Source: Charikar, STOC 2002.

    >>> fold([(0b01, 1), (0b10, 1)]), fold([(0b01, 1), (0b10, 300)])
    (0, 2)
    """
    return signs(tally(features, bits))


def tally(features: Iterable[tuple[int, int]], bits: int = 64) -> list[int]:
    """
    Return the sums whose signs are the fingerprint: by bit, the weights with it less the rest.

    Arguments and errors are those of `fold`.

    >>> tally([(0b01, 1), (0b10, 300)])[:3]
    [-299, 299, -301]
    """
    found = [(operator.index(value), operator.index(weight)) for value, weight in features]
    for value, weight in found:
        if not 0 <= value < 1 << 64:
            raise ValueError(f"a feature's hash has 64 bits, got {value:#x}")
        if weight < 1:
            raise ValueError(
                f"a weight must be at least 1, got {weight}: leave the feature out instead"
            )
    weights = [weight for _, weight in found]
    if not 0 < sum(weights) < WEIGHT_SUM_MAX:
        raise ValueError(f"the weights of a fingerprint must sum to 1 to 2**62, got {sum(weights)}")
    wide = b"".join(wide_hash(value, bits).to_bytes(bits // 8, "little") for value, _ in found)
    is_set = np.unpackbits(np.frombuffer(wide, np.uint8), bitorder="little").reshape(-1, bits)
    sums: list[int] = (2 * np.array(weights, np.int64) @ is_set - sum(weights)).tolist()
    return sums


def signs(sums: Sequence[int]) -> int:
    """
    Return the fingerprint of a tally: bit i is 1 where sum i is above 0.

    >>> signs([3, -1, 2] + [-1] * 61)
    5
    """
    return sum(1 << bit for bit, one in enumerate(sums) if one > 0)


def doubts(sums: Sequence[int]) -> int:
    """
    Return the doubt bits of a tally: bit i is 1 when a small edit may change the sign of sum i.

    That is so below 0.35 of the root mean square of all sums, each without the low bits that the
    largest has beyond 24. A sum of just that size is not in doubt.

    Source: Sood and Loguinov, CIKM 2011 (volatile bits).

    >>> bin(doubts([100, -34, 3, -100]))
    '0b100'
    """
    shift = max(0, max(abs(one) for one in sums).bit_length() - DOUBT_BITS)
    squares = [(abs(one) >> shift) ** 2 for one in sums]
    limit = DOUBT_RIGHT * sum(squares)
    return sum(
        1 << bit for bit, square in enumerate(squares) if DOUBT_LEFT * len(sums) * square < limit
    )


def hamming_distance(a: int, b: int) -> int:
    """
    Return the bits in which two fingerprints differ.

    Raises:
        ValueError: one is negative, as numbers of a signed column are.
        TypeError: one is no whole number.

    Cost: O(1).

    >>> hamming_distance(0b1010, 0b0110)
    2
    """
    try:
        first, second = map(operator.index, (a, b))
    except TypeError:
        raise TypeError(
            f"a fingerprint is a whole number, got {type(a).__name__} and {type(b).__name__}: "
            "read decimal digits with int(…), hexadecimal ones with int(…, 16)"
        ) from None
    if first < 0 or second < 0:
        raise ValueError(
            f"a fingerprint is 0 or more, got {first} and {second}: "
            "convert an int64 column with .view(np.uint64)"
        )
    return (first ^ second).bit_count()


# The language of a text, by votes: each function word among its tokens votes for the languages
# whose lists have it.
#
# A word of one list brings its language 2 points, a word of several lists 1 to each. Most points
# win, at least `POINTS_MIN`; of equals the first code wins. All tokens vote, up to `TOKENS_MAX`, so
# that a menu, a footer or some words of another language do not tip the result: with the first 200
# alone, two versions of a page could get two languages and lie 9 to 19 bits apart. The result is a
# pure function of the text and of our own lists: no library, no model, no floating point takes
# part, and `stopwords.version()`, which is in the parameter hash, changes whenever a result could.

# voters; with 200 of them a third more results are wrong, with more hardly fewer.
TOKENS_MAX = 4_096
# Of a text that `detect` reads: room for 4,096 tokens of nearly every language.
CHARACTERS_MAX = 32_768
# Three words of one language alone; below it nine of ten menus are of no language, prose hardly
# ever.
POINTS_MIN = 6
LANGUAGES_MAX = 60  # bits of a vote; a kernel has room for the points above them
# Of a word of one list; of several.
POINTS_ALONE = 2
POINTS_SHARED = 1
# Function words that web addresses and English pages are full of.
VOTELESS = frozenset({"com", "net", "us"})

Vote = tuple[int, int]  # bits over `languages()`, points for each


def detect(text: str) -> str | None:
    """
    Return the ISO 639-1 code of a text's language, or None if too few function words tell.

    Cost: about 1 µs per character of the first 32,768. The fingerprint has the tokens already and
    calls `elect`.

    >>> detect("Die Brücke wurde von zwei Brüdern gebaut, als das Wasser des Flusses stieg.")
    'de'
    >>> detect("橋は二人の兄弟によって建てられた。"), detect("Shop | Sale | Contact"), detect("")
    ('ja', None, None)
    """
    return elect(tokens(text[:CHARACTERS_MAX]))


def elect(words: Iterable[str]) -> str | None:
    """
    Return the language that the first `TOKENS_MAX` of these tokens elect.

    None: no language has `POINTS_MIN` points. Of languages with equal points, the first code wins.

    >>> elect("the water and the bridge were old".split())
    'en'
    """
    points = _points(islice(words, TOKENS_MAX))
    most = max(points)
    return languages()[points.index(most)] if most >= POINTS_MIN else None


def _points(words: Iterable[str]) -> list[int]:
    """Return the points that these tokens bring each language."""
    table = votes()
    points = [0] * len(languages())
    for word in words:
        bits, brought = table.get(word, (0, 0))
        while bits:
            lowest = bits & -bits
            points[lowest.bit_length() - 1] += brought
            bits ^= lowest
    return points


# Of a text in two languages the function words of both anchor. If only those of the first did, two
# versions of a half-translated page, with 49 and with 51 % of it in one language, would lie some 20
# bits apart.
#
# Other languages are judged by the votes that the first does not share, and of these by the words
# of the union alone: what is advertising somewhere anchors nowhere else. Their words join one by
# one, so that no share is a cliff: from a twentieth of both languages' points on the first, from a
# quarter on all. Which words come early their hashes say.

SHARE_UNITS = 1_280  # parts of the points that the first language and another have together
# Of these units: a twentieth. A word joins at SHARE_MIN plus the top byte of its hash.
SHARE_MIN = 64


def elected_words(words: Sequence[str]) -> frozenset[str]:
    """
    Return the function words that anchor a text, by the languages that its tokens speak.

    They are those of the elected language, and those in the text of other languages that have a
    share of it. Without an elected language, they are the union.

    >>> text = "der Fluss und die Brücke und " * 4 + "the river and the bridge, " * 4
    >>> mixed = elected_words(text.split())
    >>> {"und", "the"} <= mixed
    True
    """
    first = elect(words)
    anchoring = folded_words(lists.stopwords(first), "word")
    if first is None:
        return anchoring
    table = votes()
    own_bit = 1 << languages().index(first)
    union = folded_words(lists.stopwords(None), "word")
    others = {word for word in words if word in union and not table[word][0] & own_bit}
    voters = words[:TOKENS_MAX]
    points = _points(word for word in voters if word in others)
    of_first = _points(voters)[languages().index(first)]
    limits = [_limit(of_other, of_first) for of_other in points]
    joined = []
    for word in others:
        bits = table[word][0]
        reached = max(limit for number, limit in enumerate(limits) if bits >> number & 1)
        if SHARE_MIN + (token_hash(word) >> 56) <= reached:
            joined.append(word)
    return anchoring.union(joined)


def _limit(points: int, first: int) -> int:
    """
    Return the share of another language in SHARE_UNITS; 0 without the points that a language needs.
    """
    return SHARE_UNITS * points // (first + points) if points >= POINTS_MIN else 0


@cache
def votes() -> Mapping[str, Vote]:
    """
    Return the vote of each function word: bit i for each `languages()[i]` that has it, and its
    points.

    Words are folded like tokens. Cost: 50 ms, once.
    """
    if len(languages()) > LANGUAGES_MAX:
        raise ValueError(
            f"a vote has {LANGUAGES_MAX} bits, got {len(languages())} languages: "
            "widen it in kernels too"
        )
    masks: dict[str, int] = {}
    for number, code in enumerate(languages()):
        for word in stopwords(code):
            for token in tokens(word):
                masks[token] = masks.get(token, 0) | 1 << number
    points = {
        word: POINTS_ALONE if bits.bit_count() == 1 else POINTS_SHARED
        for word, bits in masks.items()
    }
    return {word: (bits, 0 if word in VOTELESS else points[word]) for word, bits in masks.items()}


class Kind(IntEnum):
    """How much of a text could be fingerprinted."""

    EMPTY = 0  # no token: nothing to compare, the document is skipped
    SHORT = 1  # too few tokens for a near-duplicate to mean anything: only an equal text matches
    FULL = 2


class Fingerprint(NamedTuple):
    """The fingerprint of one text."""

    value: int
    features: int  # distinct shingles that count
    digest: int  # of the tokens: equal texts up to case, spaces and punctuation
    kind: Kind
    doubts: int = 0  # bits whose sign a small edit may change; 0 unless FULL
    # 512 bits of the shingles' least hashes, which confirm a candidate; 0 unless FULL.
    sketch: int = 0


def digest(words: list[str]) -> int:
    """
    Return XXH64, seed 0, of the hashes of all tokens in order, eight little-endian bytes each.
    """
    return xxhash.xxh64_intdigest(
        b"".join(token_hash(word).to_bytes(8, "little") for word in words)
    )


def anchor_words(
    words: Sequence[str], parameters: Parameters, language: str | None
) -> frozenset[str]:
    """
    Return the function words that anchor a text of these tokens.

    Where the unit is a character, only the words of scripts without spaces anchor, and no language
    is elected.
    """
    if parameters.stopwords is not None:
        return folded_words(parameters.stopwords, parameters.token_unit)
    chosen = lists.language_code(language) if parameters.anchors == "named" else None
    if chosen is None and parameters.anchors != "union" and parameters.token_unit == "word":
        return elected_words(words)
    return folded_words(lists.stopwords(chosen), parameters.token_unit)


@lru_cache(maxsize=256)
def folded_words(words: frozenset[str], unit: Literal["word", "character"]) -> frozenset[str]:
    """
    Return function words as tokens. In scripts without spaces, only words of a single character.
    """
    folded = [tokens(word) for word in words]
    if unit == "word":
        return frozenset(token for found in folded for token in found)
    kinds = token_kinds("word")
    return frozenset(
        found[0] for found in folded if len(found) == 1 and kinds[ord(found[0][0])] == CHARACTER
    )


def explain(
    document: str | Mapping[str, str], parameters: Parameters, language: str | None = None
) -> list[Feature]:
    """
    Return the features of a text, or of a document in fields, by first occurrence.

    A shingle in two fields is two features. A SHORT document has one feature, its whole text; an
    EMPTY one has none. Arguments are those of `define`.
    """
    return _explained(document, parameters, language)[2]


def define(
    document: str | Mapping[str, str], parameters: Parameters, language: str | None = None
) -> Fingerprint:
    """
    Return the fingerprint of a text, or of a document in fields.

    Args:
        document: a text; or texts by field, weighed by `parameters.fields`. A field that is missing
            is empty. A document without any shingle (one word in each field) is SHORT too.
        parameters: how a text becomes a fingerprint.
        language: the language of the text, for parameters whose `anchors` are "named".

    Cost: some 2 ms for 4 KB. This is the definition; `Fingerprinter` is the fast way.
    """
    kind, whole, found = _explained(document, parameters, language)
    if kind != Kind.FULL:
        return Fingerprint(
            wide_hash(whole, parameters.bits) if found else 0, len(found), whole, kind
        )
    sums = tally(((feature.hash, feature.weight) for feature in found), parameters.bits)
    made = sketch(
        value
        for words in _words(document, parameters)
        for value in sketch_hashes(words, parameters)
    )
    return Fingerprint(signs(sums), len(found), whole, kind, doubts(sums), made)


def _words(document: str | Mapping[str, str], parameters: Parameters) -> list[list[str]]:
    """Return the tokens of a text, or of each field of a document."""
    if isinstance(document, str):
        return [tokens(document, parameters.token_unit)]
    return [tokens(document.get(name, ""), parameters.token_unit) for name, _ in parameters.fields]


def _explained(
    document: str | Mapping[str, str], parameters: Parameters, language: str | None
) -> tuple[Kind, int, list[Feature]]:
    """Return what could be made of a document, its digest, and its features."""
    words = _words(document, parameters)
    weights = [1]
    if isinstance(document, str):
        whole = digest(words[0])
    else:
        weights = [weight for _, weight in parameters.fields]
        whole = xxhash.xxh64_intdigest(b"".join(digest(one).to_bytes(8, "little") for one in words))
    if not any(words):
        return Kind.EMPTY, whole, []
    found = [
        one._replace(weight=one.weight * weight)
        for own, weight in zip(words, weights, strict=True)
        for one in features(own, parameters, anchor_words(own, parameters, language))
    ]
    if found and sum(map(len, words)) >= parameters.tokens_min:
        return Kind.FULL, whole, found
    joined = " ".join(word for own in words for word in own)
    return Kind.SHORT, whole, [Feature(joined, whole, 1, anchored=False, occurrences=1)]
