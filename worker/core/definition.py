"""
The definition of a fingerprint from end to end, in plain Python. The kernels must equal it bit for bit.

    text ─normalise─► NFC ─tokens─► tokens ─shingles─► weighted features ─┬simhash─► fingerprint, doubts
                                                                          └sketch──► sketch

No token at all is EMPTY (fingerprint 0). Fewer than `tokens_min` tokens is SHORT: the digest of the whole text is the
only feature. Everything else is FULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Literal, NamedTuple

import xxhash

from worker.core import stopwords as lists
from worker.core.language import elect
from worker.core.parameters import Parameters
from worker.core.shingles import Feature, features, token_hash
from worker.core.simhash import doubts, signs, tally, wide_hash
from worker.core.sketch import sketch
from worker.core.tokens import tokens
from worker.core.unicode_table import CHARACTER, token_kinds


class Kind(IntEnum):
    """What could be made of a text."""

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
    sketch: int = 0  # 512 bits of the shingles' least hashes, which confirm a candidate; 0 unless FULL


def digest(words: list[str]) -> int:
    """XXH64, seed 0, of the hashes of all tokens in order, eight little-endian bytes each."""
    return xxhash.xxh64_intdigest(b"".join(token_hash(word).to_bytes(8, "little") for word in words))


def anchor_words(words: Sequence[str], parameters: Parameters, language: str | None) -> frozenset[str]:
    """
    Return the function words that anchor a text of these tokens.

    Where the unit is a character, only the words of scripts without spaces anchor, and no language is elected.
    """
    if parameters.stopwords is not None:
        return folded_words(parameters.stopwords, parameters.token_unit)
    chosen = lists.language_code(language) if parameters.anchors == "named" else None
    if chosen is None and parameters.anchors != "union" and parameters.token_unit == "word":
        chosen = elect(words)
    return folded_words(lists.stopwords(chosen), parameters.token_unit)


@lru_cache(maxsize=256)
def folded_words(words: frozenset[str], unit: Literal["word", "character"]) -> frozenset[str]:
    """Function words as tokens; where the unit is a character, only those of one, in scripts without spaces."""
    folded = [tokens(word) for word in words]
    if unit == "word":
        return frozenset(token for found in folded for token in found)
    kinds = token_kinds("word")
    return frozenset(found[0] for found in folded if len(found) == 1 and kinds[ord(found[0][0])] == CHARACTER)


def explain(text: str, parameters: Parameters, language: str | None = None) -> list[Feature]:
    """Return a text's features in order of first occurrence; a SHORT text is one feature, an EMPTY one has none."""
    words = tokens(text, parameters.token_unit)
    if not words:
        return []
    if len(words) < parameters.tokens_min:
        return [Feature(" ".join(words), digest(words), 1, anchored=False, occurrences=1)]
    return features(words, parameters, anchor_words(words, parameters, language))


def define(text: str, parameters: Parameters, language: str | None = None) -> Fingerprint:
    """
    Return the fingerprint of a text.

    Args:
        text: any string.
        language: of the text, for parameters that go by the named language.

    Cost: about 2 ms for 4 KB.

    >>> define("", Parameters()).kind.name, define("One word", Parameters()).kind.name
    ('EMPTY', 'SHORT')
    """
    words = tokens(text, parameters.token_unit)
    if not words:
        return Fingerprint(0, 0, digest(words), Kind.EMPTY)
    if len(words) < parameters.tokens_min:
        return Fingerprint(wide_hash(digest(words), parameters.bits), 1, digest(words), Kind.SHORT)
    found = features(words, parameters, anchor_words(words, parameters, language))
    return _full(found, digest(words), parameters)


def explain_fields(fields: Mapping[str, str], parameters: Parameters, language: str | None = None) -> list[Feature]:
    """
    Return the features of a document in fields: those of each field's own text, their weights times that of the field.

    A shingle in two fields is two features. An EMPTY or SHORT document has none.
    """
    found: list[Feature] = []
    count = 0
    for name, weight in parameters.fields:
        words = tokens(fields.get(name, ""), parameters.token_unit)
        count += len(words)
        anchors = anchor_words(words, parameters, language)
        found += [one._replace(weight=one.weight * weight) for one in features(words, parameters, anchors)]
    return found if count >= parameters.tokens_min else []


def define_fields(fields: Mapping[str, str], parameters: Parameters, language: str | None = None) -> Fingerprint:
    """
    Return the fingerprint of a document in fields, as `parameters.fields` weighs them; a field that it lacks is empty.

    `tokens_min` counts the tokens of all fields. A document without any shingle (a word in each field) is SHORT too.
    The digest is the XXH64 of the fields' digests in the order of `parameters.fields`.

    >>> weights = Parameters(fields=(("title", 4), ("body", 1)))
    >>> define_fields({"body": "the ferry on the river is late again"}, weights).value == define(
    ...     "the ferry on the river is late again", Parameters()).value
    True
    """
    words = [tokens(fields.get(name, ""), parameters.token_unit) for name, _ in parameters.fields]
    whole = xxhash.xxh64_intdigest(b"".join(digest(one).to_bytes(8, "little") for one in words))
    if not any(words):
        return Fingerprint(0, 0, whole, Kind.EMPTY)
    found = explain_fields(fields, parameters, language)
    if not found:
        return Fingerprint(wide_hash(whole, parameters.bits), 1, whole, Kind.SHORT)
    return _full(found, whole, parameters)


def _full(found: list[Feature], whole: int, parameters: Parameters) -> Fingerprint:
    sums = tally(((feature.hash, feature.weight) for feature in found), parameters.bits)
    made = sketch(feature.hash for feature in found)
    return Fingerprint(signs(sums), len(found), whole, Kind.FULL, doubts(sums), made)
