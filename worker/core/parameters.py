"""Everything that changes a fingerprint, in one frozen value: two fingerprints compare only under equal parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

import orjson
import xxhash

from worker.core import language
from worker.core import stopwords as lists
from worker.core.unicode_table import TABLE_DIGEST, UNICODE_VERSION

SCHEME_VERSION = 3  # raised with any change of the definition that is not a parameter
WIDTHS_MAX = 4  # each width is another pass over the tokens
WIDTH_MAX = 32  # a longer shingle is a sentence: one changed word would change most of them
WEIGHT_MAX = 255  # with it 2**40 shingles still fit a 64-bit tally


@dataclass(frozen=True, slots=True)
class Parameters:
    """
    How a text becomes a fingerprint. The defaults are those that were measured best on web documents.

    Args:
        bits: width of the fingerprint; the index and the log use 64.
        token_unit: what a token is: "word" (a character in scripts without spaces) or always one "character".
        shingle_widths: tokens in a shingle, one or several, ascending.
        anchored_weight: of a shingle with at least one function word: prose.
        unanchored_weight: of the others: advertisements and menus are mostly such. 0 leaves them out.
        term_frequency: what n occurrences count: "one" 1, "log" 1 + floor(log2 n), "tf" n.
        anchors: whose function words: of the language that the text's own words elect ("elected"), of the one that
            comes with it, if there is one with a list ("named"), or of all languages ("union"). Without enough function
            words the union decides. A label that is wrong on one of two copies hides them from each other (recall
            at distance 3 falls from 0.67 to 0.04), so labels do not count by default.
        tokens_min: a document with fewer tokens is SHORT: only equal texts match.
        shingles_min: with fewer anchored shingles than this, and unanchored weight 0, every shingle counts as anchored.
        mask_numbers: tokens of which half or more are digits count as one and the same: dates, times, prices.
        mask_identifiers: so do hexadecimal and long mixed tokens: session ids, hashes.
        fields: weights of named parts of a document: (("title", 4), ("body", 1)).
        stopwords: a list of one's own instead of the built-in ones.
    Raises:
        ValueError: a value is out of its bounds, or contradicts another.

    >>> Parameters().scheme
    'simhash64-3-unicode-18.0.0'
    >>> Parameters().hash == Parameters(shingle_widths=(2,)).hash != Parameters(shingle_widths=(3,)).hash
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
        object.__setattr__(self, "shingle_widths", tuple(self.shingle_widths))  # hashable, whatever they were given as
        if self.stopwords is not None:
            object.__setattr__(self, "stopwords", frozenset(self.stopwords))
        _one_of("bits", self.bits, (32, 64, 128))
        _one_of("token_unit", self.token_unit, ("word", "character"))
        _one_of("term_frequency", self.term_frequency, ("one", "log", "tf"))
        _one_of("anchors", self.anchors, ("elected", "named", "union"))
        if not 1 <= len(self.shingle_widths) <= WIDTHS_MAX or sorted(set(self.shingle_widths)) != list(
            self.shingle_widths
        ):
            raise ValueError(
                f"shingle_widths must be 1 to {WIDTHS_MAX} different numbers, ascending, got {self.shingle_widths}"
            )
        for width in self.shingle_widths:
            _between("a width", width, 1, WIDTH_MAX)
        _between("anchored_weight", self.anchored_weight, 1, WEIGHT_MAX)
        _between("unanchored_weight", self.unanchored_weight, 0, WEIGHT_MAX)
        _between("tokens_min", self.tokens_min, 1, 1_000)
        _between("shingles_min", self.shingles_min, 1, 1_000)
        if self.tokens_min < self.shingle_widths[-1]:
            raise ValueError(
                f"tokens_min must be at least the largest width, got tokens_min={self.tokens_min}, "
                f"shingle_widths={self.shingle_widths}: a text of {self.tokens_min} tokens would have no shingle"
            )
        if len({name for name, _ in self.fields}) != len(self.fields):
            raise ValueError(f"a field has one weight, got {self.fields}")
        for name, weight in self.fields:
            _between(f"the weight of field {name!r}", weight, 1, WEIGHT_MAX)

    @property
    def scheme(self) -> str:
        """The name of the definition: kind and width of the fingerprint, version, Unicode table."""
        return f"simhash{self.bits}-{SCHEME_VERSION}-unicode-{UNICODE_VERSION}"

    @property
    def hash(self) -> str:
        """16 hex digits over scheme, parameters, Unicode table and stopwords: equal hash, equal fingerprints."""
        return _hash(self)


@lru_cache(maxsize=64)
def _hash(parameters: Parameters) -> str:
    values = asdict(parameters)
    own = parameters.stopwords
    values["stopwords"] = lists.version() if own is None else lists.digest(own)
    values["scheme"] = parameters.scheme
    values["table"] = TABLE_DIGEST
    points = language.POINTS_MIN, language.POINTS_ALONE, language.POINTS_SHARED
    values["votes"] = (language.TOKENS_MAX, *points, sorted(language.VOTELESS))
    return xxhash.xxh64_hexdigest(orjson.dumps(values, option=orjson.OPT_SORT_KEYS))


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _between(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, got {value}")
