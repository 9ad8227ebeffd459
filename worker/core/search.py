"""
The rules of the search for duplicates: which originals a query finds, and which one it chooses.

"exact"     every original within `max_distance` bits is a candidate.
"directed"  an original is found when in one of the blocks its bits differ from the query's by one
            of the `patterns` likeliest patterns, those of the query's doubtful bits (Sood and
            Loguinov, CIKM 2011). It is a candidate when it lies within `max_distance` bits and its
            second look is at least `look_min`.

Of the candidates the one with the greatest look is taken, then the nearest, then the earliest. With
`similarity_min` the 16 that are first in this order are compared by their sketches, and of those
that are alike enough the most similar is taken, then the first. So a page of the same template with
other facts is another page.

The best must stand out. A page of a template is about as similar to many originals as to the most
similar one, while a copy is more similar to its own. So below SURE_SIMILARITY a document is a
duplicate only if the most similar candidate exceeds the fourth most similar by `similarity_margin`.
Three others may be as similar: families of syndicated copies have a few originals.

Two pages of one host are kept apart. If their URLs and titles differ, they are copies only from a
similarity of 0.90 and 100 features on (`marks.are_apart`). Most of a shorter text is what all pages
of the site show. A candidate that is kept apart from the document cannot be its original, but
counts among those from which another one must stand out. Where no sketches are compared, there is
no such rule.

A thin page that comes again is a copy of its own original. Any number of pages of one host with one
text may be kept apart, and any 16 of them may be the candidates. So before the search the original
of a page with less than 100 features is looked up by its text and its URL, and then by its text,
its host and its title (`marks.are_thin`, `worker.log.thin`).

A text that was a duplicate before is one again. Its copies are duplicates of the same original for
as long as that one is there, whatever has become an original since: `again`. Which texts are
remembered, the log decides (`worker.log.duplicates`).

Nothing else decides: neither the size of an index nor how it lies in memory. The functions below
define the search, in plain Python; the index must equal them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import IntEnum
from itertools import combinations
from math import isqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.arguments import whole_number
from worker.core.marks import (
    APART_SIMILARITY,
    FEATURES_MIN,
    HASH_MASK,
    NO_MARK,
    are_apart,
)
from worker.core.sketch import (
    SIMILARITY_MAX,
    SIMILARITY_MIN,
    sketch_similarities,
    sketch_similarity,
)

# Fields of SearchRules whose settings have the same names; the others begin with "search_".
PLAIN_NAMES = ("max_distance", "similarity_min", "similarity_margin")
LISTED_ALL = (1 << 16) - 1


class SearchedOriginal(NamedTuple):
    """An original, as the search sees it."""

    row: int
    fingerprint: int
    doubts: int
    sketch: int
    mark: int = NO_MARK
    listed: int = LISTED_ALL  # the blocks in which it may be found, bit by bit: `listed`


class SearchedDocument(NamedTuple):
    """The document whose original is searched, as the search sees it."""

    fingerprint: int
    doubts: int
    sketch: int
    mark: int = NO_MARK  # which page of which host it is: `marks.page_mark`


class Match(NamedTuple):
    """
    The original of a document, and how near it is: bits, then thousandths; look 0 where the search
    is exact.
    """

    row: int
    distance: int
    look: int
    similarity: int


class Apart(NamedTuple):
    """The most similar original of a document that is no duplicate of it, and why."""

    row: int
    by: ApartBy
    similarity: int  # in thousandths

    @property
    def told(self) -> int:
        """The rule and the similarity, as columns have them."""
        return self.by << APART_SHIFT | self.similarity


class ApartBy(IntEnum):
    """The rule by which a document is no duplicate of the most similar original."""

    NONE = 0
    OTHER_PAGE = 1  # both are pages of one host: `marks.are_apart`
    LIKE_OTHERS = 2  # others are about as similar: it does not stand out from them


BITS = 64
DISTANCE_MAX = 16  # beyond it most candidates are unrelated
LOOK_MAX = 1_000  # the look is in thousandths
NO_MATCH = 255  # the distance beside row -1
PATTERNS_MAX = 128
# Doubtful and sure bits flipped, the likeliest first.
KINDS = ((0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (4, 0), (1, 1))
# Weight of a sure position in the second look, that of a doubtful one is 1: their mean tallies'
# ratio.
SURE = 6
PREFIX_MAX_MAX = 1 << 20
CONFIRMED_MAX = 16  # candidates whose sketches are read: families of thousands cost no more
SURE_SIMILARITY = 800  # thousandths: as similar as this, a candidate need not stand out
RIVAL = (
    3  # the place of the candidate that the best must exceed, the most similar first: the fourth
)
MARGIN = 120  # thousandths: the default by which it must
APART_SHIFT = 10  # columns say which rule keeps apart above these bits, and the similarity in them
BLOCK_BITS_MIN = 16
BLOCK_BITS_MAX = 32
PAIRED = {3: 3, 6: 4, 10: 5, 15: 6}  # so many blocks are the pairs of so many runs of bits


# Of a short text that another page of the host has, too.
APART_EQUAL = ApartBy.OTHER_PAGE << APART_SHIFT | SIMILARITY_MAX


@dataclass(frozen=True, slots=True)
class SearchRules:
    """
    The rules by which a document's original is searched; part of the log's definition.

    Args:
        mode: "directed" or "exact". Exact rules have only a distance and, if set, a similarity; all
            other values are set to 0.
        max_distance: bits in which a duplicate may differ from its original, 0 to 16.
        blocks: parts of the fingerprint, each of which may find an original: 1 to 4 adjacent runs
            of bits, or 3, 6, 10 or 15 pairs of 3, 4, 5 or 6 runs.
        block_bits: of each block, 16 to 32. Pairs share the 64 bits: 10 blocks have at most 26
            (some one less).
        patterns: prefixes that are looked up in each block, 1 to 128.
        look_min: second look in thousandths, 0 to 1000, that a candidate must reach.
        prefix_max: how many originals with one value in a block are listed there at a time; one
            that is born when there are so many is not found through this block. It limits the cost
            of a query when many originals share a prefix of 16 bits. With wider blocks it limits
            what is found, while the cost grows with the number of blocks.
        similarity_min: the estimated Jaccard index of the phrases (four tokens in a row) that a
            duplicate must reach, 0 to 1, rounded to thousandths. With 0 no candidate is checked.
            The default is 0.54, and 0 in exact rules.
        similarity_margin: by how much the most similar candidate must exceed the fourth most
            similar, 0 to 1, rounded to thousandths, unless its own similarity is 0.80 or more. With
            0 it need not. The default is 0.12, and 0 without `similarity_min`.
    Raises:
        TypeError: a number is none, or not a whole one.
        ValueError: a value is out of its bounds, or the blocks don't fit into 64 bits.

    >>> SearchRules().text
    'directed, distance 16, 4 blocks of 16 bits, 64 patterns, 4096 listed a prefix, ...'
    >>> SearchRules("exact", 3, patterns=16) == SearchRules("exact", 3)
    True
    """

    mode: Literal["directed", "exact"] = "directed"
    max_distance: int = 16
    blocks: int = 4
    block_bits: int = 16
    patterns: int = 64
    look_min: int = 600
    prefix_max: int = 4_096
    similarity_min: float = -1
    similarity_margin: float = -1

    def __post_init__(self) -> None:
        if self.mode not in ("directed", "exact"):
            raise ValueError(f"mode must be 'directed' or 'exact', got {self.mode!r}")
        self._keep_number("max_distance", 0, DISTANCE_MAX)
        object.__setattr__(self, "similarity_min", self._checked_similarity_min() / SIMILARITY_MAX)
        object.__setattr__(self, "similarity_margin", self._checked_margin() / SIMILARITY_MAX)
        if self.mode == "exact":
            for name in ("blocks", "block_bits", "patterns", "look_min", "prefix_max"):
                object.__setattr__(self, name, 0)
            return
        self._keep_number("blocks", 1, max(PAIRED))
        self._keep_number("block_bits", BLOCK_BITS_MIN, BLOCK_BITS_MAX)
        self._keep_number("patterns", 1, PATTERNS_MAX)
        self._keep_number("look_min", 0, LOOK_MAX)
        self._keep_number("prefix_max", 1, PREFIX_MAX_MAX)
        if not (self._fits_side_by_side or self._fits_in_pairs):
            raise ValueError(
                f"blocks must fit into {BITS} bits side by side, "
                "or be 3, 6, 10 or 15 pairs of runs of at most 22, 16, 13 or 11 bits, "
                f"got blocks={self.blocks}, block_bits={self.block_bits}"
            )

    def _keep_number(self, name: str, low: int, high: int) -> None:
        """Check a rule that is a number, and keep it as an `int`, since its JSON is hashed."""
        number = whole_number(name, getattr(self, name))
        if not low <= number <= high:
            raise ValueError(f"{name} must be {low} to {high}, got {number}")
        object.__setattr__(self, name, number)

    def _checked_similarity_min(self) -> int:
        """Return it in thousandths, the default where it was left out."""
        if self.similarity_min == -1:
            return SIMILARITY_MIN if self.mode == "directed" else 0
        if not 0 <= self.similarity_min <= 1:
            raise ValueError(
                f"similarity_min must be a Jaccard index, 0 to 1, got {self.similarity_min!r}"
            )
        return round(self.similarity_min * SIMILARITY_MAX)

    def _checked_margin(self) -> int:
        """Return it in thousandths, the default where it was left out."""
        if self.mode == "exact" or not self.similarity_min:
            return 0
        if self.similarity_margin == -1:
            return MARGIN
        if not 0 <= self.similarity_margin <= 1:
            raise ValueError(
                f"similarity_margin must be a difference of similarities, 0 to 1, "
                f"got {self.similarity_margin!r}"
            )
        return round(self.similarity_margin * SIMILARITY_MAX)

    @property
    def margin_thousandths(self) -> int:
        """`similarity_margin` in thousandths, in which sketches are compared: 0 to 1000."""
        return round(self.similarity_margin * SIMILARITY_MAX)

    @property
    def similarity_thousandths(self) -> int:
        """`similarity_min` in thousandths, in which sketches are compared: 0 to 1000."""
        return round(self.similarity_min * SIMILARITY_MAX)

    @property
    def text(self) -> str:
        """The rules in words; equal texts, equal rules."""
        text = f"{self.mode}, distance {self.max_distance}"
        if self.mode == "directed":
            text += f", {self.blocks} blocks of {self.block_bits} bits, {self.patterns} patterns"
            text += f", {self.prefix_max} listed a prefix, look {self.look_min}"
        if self.similarity_min:
            text += f", similarity {self.similarity_min:g}"
        return f"{text}, margin {self.similarity_margin:g}" if self.similarity_margin else text

    @property
    def settings(self) -> dict[str, Any]:
        """The rules by the names of the settings."""
        values = asdict(self)
        plain = {name: values.pop(name) for name in PLAIN_NAMES}
        return {**plain, **{f"search_{name}": value for name, value in values.items()}}

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> SearchRules:
        """
        Return the rules that these settings describe; the inverse of `settings`.

        Raises:
            KeyError: one of PLAIN_NAMES is missing.
            ValueError: a value is out of its bounds.
        """
        values: dict[str, Any] = {
            field.name: settings.get(f"search_{field.name}") for field in fields(cls)
        }
        return cls(**values | {name: settings[name] for name in PLAIN_NAMES})

    @property
    def runs(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """
        Return the runs of bits of each block as (lowest bit, width), the lowest first. Directed
        rules only.

        >>> SearchRules(blocks=3, block_bits=20).runs
        (((0, 20),), ((21, 20),), ((42, 20),))
        >>> SearchRules(blocks=10, block_bits=26).runs[-1]
        ((39, 13), (52, 12))
        """
        if self._fits_side_by_side:
            return tuple(
                ((BITS * block // self.blocks, self.block_bits),) for block in range(self.blocks)
            )
        width = self.block_bits // 2
        runs = [(run * width, min(width, BITS - run * width)) for run in range(PAIRED[self.blocks])]
        return tuple(combinations(runs, 2))

    @property
    def _fits_side_by_side(self) -> bool:
        return self.blocks >= 1 and self.blocks * self.block_bits <= BITS

    @property
    def _fits_in_pairs(self) -> bool:
        runs = PAIRED.get(self.blocks, 0)
        return runs > 0 and self.block_bits % 2 == 0 and self.block_bits // 2 <= -(-BITS // runs)


def block_of(fingerprint: int, runs: Iterable[tuple[int, int]]) -> int:
    """
    Return the bits of one block side by side, its lowest run lowest.

    Args:
        runs: the runs of bits of the block, as in `SearchRules.runs`: (lowest bit, width).

    >>> bin(block_of(0b1011_0000_0110, [(1, 2), (8, 4)]))
    '0b101111'
    """
    value = shift = 0
    for low, width in runs:
        value |= (fingerprint >> low & ((1 << width) - 1)) << shift
        shift += width
    return value


def patterns(doubts: int, width: int, count: int) -> list[int]:
    """
    Return the likeliest differences of a block from the same block of a duplicate, at most `count`.

    First no difference; then one, two and three doubtful bits; one sure bit; four doubtful bits;
    one sure and one doubtful bit. This order was measured on labelled web documents. Patterns of
    one kind are ordered by the number that their sure bits make, then by that of their doubtful
    bits.

    Args:
        doubts: the document's doubt bits in this block.
        width: the width of the block, in bits.
        count: how many patterns to return; fewer, if there are fewer of these kinds.

    Cost: all patterns of all kinds are made, 0.04 ms for 16 bits and 0.4 ms for 32: a definition.
    The kernels read them from a table (`tables/patterns.py`).

    >>> [bin(pattern) for pattern in patterns(0b0101, 4, 6)]
    ['0b0', '0b1', '0b100', '0b101', '0b10', '0b1000']
    """
    bits = [1 << bit for bit in range(width)]
    doubtful = [bit for bit in bits if bit & doubts]
    sure = [bit for bit in bits if not bit & doubts]
    ordered: list[int] = []
    for doubtful_count, sure_count in KINDS:
        doubtful_parts = sorted(map(sum, combinations(doubtful, doubtful_count)))
        for sure_part in sorted(map(sum, combinations(sure, sure_count))):
            ordered += [sure_part + doubtful_part for doubtful_part in doubtful_parts]
    return ordered[:count]


def look(fingerprint: int, doubts: int, other: int, other_doubts: int) -> int:
    """
    Return how alike two documents' tallies are: floor(1000 * cosine), 0 for a negative one.

    Tallies are not stored, so their signs and doubts stand for them: a sure position counts +6 or
    -6, a doubtful one +1 or -1.

    Cost: some 10 µs; `looks` takes 30 ns for each of many.

    >>> look(0, 0, 0, 0), look(0, 0, 2**64 - 1, 0)
    (1000, 0)
    """
    product = norm = other_norm = 0
    for bit in range(BITS):
        weight = 1 if doubts >> bit & 1 else SURE
        other_weight = 1 if other_doubts >> bit & 1 else SURE
        product += weight * other_weight * (-1 if (fingerprint ^ other) >> bit & 1 else 1)
        norm += weight**2
        other_norm += other_weight**2
    return isqrt(LOOK_MAX**2 * product**2 // (norm * other_norm)) if product > 0 else 0


def looks(
    differ: NDArray[np.uint64], one: NDArray[np.uint64], other: NDArray[np.uint64]
) -> NDArray[np.uint16]:
    """
    Return the `look` of many pairs.

    Args:
        differ: uint64[n]: the bits in which the fingerprints of each pair differ.
        one, other: uint64[n]: the doubts of each pair's two documents.
    Returns:
        uint16[n], in thousandths; bit for bit what `look` says of each pair.

    Cost: 30 ns per pair.
    """
    product = np.zeros(len(differ), np.int64)
    for weight, where in ((1, one & other), (SURE, one ^ other), (SURE**2, ~(one | other))):
        signs = np.bitwise_count(where).astype(np.int64) - 2 * np.bitwise_count(
            where & differ
        ).astype(np.int64)
        product += weight * signs
    norms = [
        SURE**2 * BITS - (SURE**2 - 1) * np.bitwise_count(doubts).astype(np.int64)
        for doubts in (one, other)
    ]
    # At most 10**6: its root as a float is exact below.
    squares = LOOK_MAX**2 * product**2 // (norms[0] * norms[1])
    return np.where(product > 0, np.sqrt(squares).astype(np.int64), 0).astype(np.uint16)


def best(
    rules: SearchRules, document: SearchedDocument, originals: Sequence[SearchedOriginal]
) -> Match | None:
    """
    Return the original that a document is a duplicate of, or None.

    This is the definition of the search; the kernels must equal it. The order of `originals` does
    not matter, because their rows decide which is the earliest.

    Cost: O(originals), some 10 µs for each: for tests and explanations.
    """
    compared = _compared(rules, document, originals)
    found = [similarity for similarity, *_ in compared]
    for place, (similarity, alike, distance, row, is_apart) in enumerate(compared):
        if not is_apart:
            return (
                Match(row, distance, alike, similarity)
                if is_confirmed(rules, found, place)
                else None
            )
    return None


def kept_apart(
    rules: SearchRules, document: SearchedDocument, originals: Sequence[SearchedOriginal]
) -> Apart | None:
    """
    Return why a document is no duplicate although the most similar original is near enough; None
    where it is a duplicate, or none is near enough.

    Near enough: it is compared, and its similarity is at least `similarity_min`.

    Cost: as `best`.

    >>> from worker.core.marks import page_mark
    >>> one, other = (page_mark(f"https://a.example/{title}", title, 120) for title in (3, 24))
    >>> originals = [SearchedOriginal(0, 7, 0, 0b111, one)]
    >>> kept_apart(SearchRules(), SearchedDocument(7, 0, 0b1111, other), originals)
    Apart(row=0, by=<ApartBy.OTHER_PAGE: 1>, similarity=749)
    >>> kept_apart(SearchRules(), SearchedDocument(7, 0, 0b1111, one), originals) is None
    True
    """
    compared = _compared(rules, document, originals)
    is_near = bool(compared) and compared[0][0] >= rules.similarity_thousandths
    if not rules.similarity_min or not is_near or best(rules, document, originals) is not None:
        return None
    similarity, _, _, row, is_apart = compared[0]
    return Apart(row, ApartBy.OTHER_PAGE if is_apart else ApartBy.LIKE_OTHERS, similarity)


def similarities(
    rules: SearchRules, document: SearchedDocument, originals: Sequence[SearchedOriginal]
) -> list[int]:
    """
    Return the similarities of the originals that a search compares, in thousandths, the greatest
    first: what `is_confirmed` looks at.

    Cost: as `best`.
    """
    return [similarity for similarity, *_ in _compared(rules, document, originals)]


def _compared(
    rules: SearchRules, document: SearchedDocument, originals: Sequence[SearchedOriginal]
) -> list[tuple[int, int, int, int, bool]]:
    """
    Return the originals whose sketches a search compares, the most similar first: similarity, look,
    distance, row, and whether it is kept apart from the document.
    """
    # 1. The originals that the tables lead to.
    is_exact = rules.mode == "exact"
    looked_at = originals if is_exact else _found(rules, document, originals)
    # 2. Of these the near ones, the best first: by the look, then the distance, then the row.
    candidates = []
    for original in looked_at:
        distance = (document.fingerprint ^ original.fingerprint).bit_count()
        if is_exact:
            alike = 0
        else:
            alike = look(
                document.fingerprint, document.doubts, original.fingerprint, original.doubts
            )
        if distance <= rules.max_distance and alike >= rules.look_min:
            candidates.append((-alike, distance, original.row, original.sketch, original.mark))
    candidates.sort()
    # 3. The sketches of the first of them are compared, and the most similar one that is not kept
    # apart from the document wins, if it is similar enough and stands out.
    compared = []
    for negative_look, distance, row, sketch, mark in candidates[
        : CONFIRMED_MAX if rules.similarity_min else 1
    ]:
        similarity = sketch_similarity(document.sketch, sketch)
        is_apart = bool(rules.similarity_min) and are_apart(document.mark, mark, similarity)
        compared.append((-similarity, negative_look, distance, row, is_apart))
    return [
        (-negative_similarity, -negative_look, distance, row, is_apart)
        for negative_similarity, negative_look, distance, row, is_apart in sorted(compared)
    ]


def again(
    rules: SearchRules, document: SearchedDocument, original: SearchedOriginal
) -> Match | None:
    """
    Return the match of a document with the original that its text was a duplicate of before.

    It need neither stand out nor be looked up: both hold of a search at one time, and the text has
    passed it once. All that depends on the two alone is held against it again: the document may be
    another page of the original's host, and equal digests do not prove that the texts are equal.

    Returns:
        The match; None where the two are not near enough, so the texts only share a digest.

    >>> rules = SearchRules(similarity_min=0.5)
    >>> original = SearchedOriginal(7, 0b11, 0, 0b111)
    >>> again(rules, SearchedDocument(0b01, 0, 0b111), original)
    Match(row=7, distance=1, look=968, similarity=1000)
    >>> again(rules, SearchedDocument(0b01, 0, 0b1001), original) is None
    True
    """
    distance = (document.fingerprint ^ original.fingerprint).bit_count()
    alike = 0
    if rules.mode == "directed":
        alike = look(document.fingerprint, document.doubts, original.fingerprint, original.doubts)
    similarity = sketch_similarity(document.sketch, original.sketch)
    is_near = distance <= rules.max_distance and alike >= rules.look_min
    if not is_near or similarity < rules.similarity_thousandths:
        return None
    if rules.similarity_min and are_apart(document.mark, original.mark, similarity):
        return None
    return Match(original.row, distance, alike, similarity)


def agains(
    rules: SearchRules,
    document: Sequence[NDArray[np.uint64]],
    original: Sequence[NDArray[np.uint64]],
) -> tuple[NDArray[np.bool_], NDArray[np.uint8], NDArray[np.uint16]]:
    """
    Return what `again` says of many pairs.

    Args:
        document, original: of each pair the fingerprints, the doubts, the sketches and the marks,
            uint64[n], uint64[n], uint64[n, 8] and uint64[n].
    Returns:
        Whether each pair matches; its distance; its similarity in thousandths.

    Cost: 0.2 ms, and some 0.2 µs per pair.
    """
    differ = document[0] ^ original[0]
    distances = np.bitwise_count(differ)
    similarities = sketch_similarities(document[2], original[2])
    is_match = distances <= rules.max_distance
    is_match &= similarities >= rules.similarity_thousandths
    if rules.mode == "directed":
        is_match &= looks(differ, document[1], original[1]) >= rules.look_min
    if rules.similarity_min:
        marks = document[3]
        other_marks = original[3]
        are_of_one_host = (marks ^ other_marks) & np.uint64(HASH_MASK) == 0
        for at in np.flatnonzero(is_match & are_of_one_host & (marks != NO_MARK)).tolist():
            is_match[at] = not are_apart(
                int(marks[at]), int(other_marks[at]), int(similarities[at])
            )
    return is_match, distances, similarities


def is_confirmed(rules: SearchRules, similarities: Sequence[int], place: int = 0) -> bool:
    """
    Return whether the most similar candidate is similar enough, and stands out from the others.

    Args:
        similarities: those of all candidates that were compared, in thousandths, the greatest
            first. Where there are fewer than four, there is nothing to stand out from.
        place: that of the candidate among them; those before it are kept apart from the document.

    >>> rules = SearchRules()
    >>> is_confirmed(rules, [600, 590, 580]), is_confirmed(rules, [600, 590, 580, 500])
    (True, False)
    >>> is_confirmed(rules, [800, 790, 790, 790])
    True
    """
    most = similarities[place]
    if most < rules.similarity_thousandths:
        return False
    if most >= SURE_SIMILARITY or len(similarities) <= RIVAL:
        return True
    return max(most - similarities[RIVAL], 0) >= rules.margin_thousandths


def condition(rules: SearchRules, document: SearchedDocument, original: SearchedOriginal) -> str:
    """
    Say why a document is a duplicate of an original, or which condition fails.

    Of a failed condition, the text names the value and the bound. It looks at this original alone:
    another one may be more similar, and of a similarity that has to stand out it only says so.

    Cost: some 10 µs, and of a directed search the patterns of each block.
    """
    distance = (document.fingerprint ^ original.fingerprint).bit_count()
    if distance > rules.max_distance:
        return f"{distance} bits, at most {rules.max_distance} allowed"
    alike = sketch_similarity(document.sketch, original.sketch)
    if rules.mode == "directed":
        seen = look(document.fingerprint, document.doubts, original.fingerprint, original.doubts)
        if seen < rules.look_min:
            return f"second look {seen / 1_000:.3f}, {rules.look_min / 1_000:.3f} required"
        if not _found(rules, document, [original]):
            return (
                f"none of the {rules.patterns} prefixes that are looked up in each block "
                "is the original's"
            )
    if alike < rules.similarity_thousandths:
        return f"similarity {alike / 1_000:.3f}, {rules.similarity_min:.3f} required"
    told = f"similarity {alike / 1_000:.3f}"
    if rules.similarity_min and are_apart(document.mark, original.mark, alike):
        return f"{told}: {apart_rule(rules, ApartBy.OTHER_PAGE)}"
    if alike < SURE_SIMILARITY and rules.margin_thousandths:
        told += f"; {apart_rule(rules, ApartBy.LIKE_OTHERS)}, if there are four"
    return told


def apart_rule(rules: SearchRules, by: ApartBy) -> str:
    """Return a rule by which a document is kept apart from an original, in words."""
    if by is ApartBy.OTHER_PAGE:
        return (
            "two pages of one host at other URLs and with other titles are copies from "
            f"{APART_SIMILARITY / 1_000:.3f} on, with {FEATURES_MIN} shingles each"
        )
    return (
        f"below {SURE_SIMILARITY / 1_000:.3f} it must be {rules.similarity_margin:.3f} above "
        "the fourth most similar original"
    )


def listed(rules: SearchRules, fingerprint: int, originals: Sequence[SearchedOriginal]) -> int:
    """
    Return in which blocks an original is listed that is born among these, bit b for block b.

    It is listed in a block if fewer than `prefix_max` of them are listed there with the same value.
    This is decided once, at its birth: an original that leaves frees a place for later births
    alone. So whether a document finds an original depends on the two of them, and on nobody else.

    >>> rules = SearchRules(prefix_max=1)
    >>> bin(listed(rules, 1 << 16, [SearchedOriginal(0, 0, 0, 1)]))
    '0b10'
    """
    mask = 0
    for block, runs in enumerate(rules.runs):
        value = block_of(fingerprint, runs)
        alike = [
            original
            for original in originals
            if original.listed >> block & 1 and block_of(original.fingerprint, runs) == value
        ]
        mask |= (len(alike) < rules.prefix_max) << block
    return mask


def _found(
    rules: SearchRules, document: SearchedDocument, originals: Sequence[SearchedOriginal]
) -> set[SearchedOriginal]:
    """Return the originals that are listed in a block under a prefix that is looked up."""
    reached: set[SearchedOriginal] = set()
    for number, runs in enumerate(rules.runs):
        block = block_of(document.fingerprint, runs)
        width = sum(width for _, width in runs)
        looked_up = patterns(block_of(document.doubts, runs), width, rules.patterns)
        prefixes = {block ^ pattern for pattern in looked_up}
        for original in originals:
            if original.listed >> number & 1 and block_of(original.fingerprint, runs) in prefixes:
                reached.add(original)
    return reached
