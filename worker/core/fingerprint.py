"""Texts to fingerprints: the library's entry, one text or many at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core import stopwords as lists
from worker.core.definition import (
    Feature,
    Fingerprint,
    Kind,
    Parameters,
    explain,
    fold,
    folded_words,
    token_hash,
    votes,
)
from worker.core.kernels import fingerprint as kernels
from worker.core.kernels.unicode import code_points
from worker.core.sketch import sketch_of
from worker.core.tokens import MASK

# Function words as a table for the kernels: a word lies in one of two slots, so a look-up never branches.

MOVES_MAX = 500  # words moved for one to find its place, before other bits are tried


def anchor_table(parameters: Parameters) -> kernels.Anchors:
    """Return the function words of these parameters, and which lists each is in. 0.1 s for all, once a process."""
    return _table(parameters.stopwords, parameters.token_unit)


def list_number(parameters: Parameters, language: str | None) -> int:
    """Whose words anchor a text: the bit of a language, UNION, or ELECT for the kernel to find out."""
    code = lists.language_code(language) if parameters.anchors == "named" and parameters.stopwords is None else None
    if code is not None:
        return lists.languages().index(code)
    by_union = parameters.anchors == "union" or parameters.stopwords is not None or parameters.token_unit == "character"
    return kernels.UNION if by_union else kernels.ELECT


@lru_cache(maxsize=16)
def _table(own: frozenset[str] | None, unit: Literal["word", "character"]) -> kernels.Anchors:
    words: dict[str, int] = {}
    if own is None and unit == "word":
        words = {word: bits | points << kernels.POINTS_BIT for word, (bits, points) in votes().items()}
    elif own is None:
        for number, code in enumerate(lists.languages()):
            for word in folded_words(lists.stopwords(code), unit):
                words[word] = words.get(word, 0) | 1 << number
    for word in folded_words(lists.stopwords(None) if own is None else own, unit):
        words[word] = words.get(word, 0) | 1 << kernels.UNION
    vote_of = {token_hash(word): vote for word, vote in words.items()}
    bits = max(4, len(vote_of).bit_length() + 1)
    while True:
        for shift in range(64 - bits, bits - 1, -1):
            slots = _place(sorted(vote_of), bits, (shift, shift - bits))
            if slots is not None:
                shape = np.array([(1 << bits) - 1, shift, shift - bits], np.uint64)
                return kernels.Anchors(_rows(slots, vote_of), shape)
        bits += 1


def _rows(slots: list[int], vote_of: dict[int, int]) -> NDArray[np.uint64]:
    """Each slot with its vote. An empty one repeats a word, so that no token equals what is not one."""
    filler = next(iter(vote_of), 0)
    return np.array([(slot or filler, vote_of.get(slot or filler, 0)) for slot in slots], np.uint64)


def _place(words: list[int], bits: int, shifts: tuple[int, int]) -> list[int] | None:
    """Each word in one of its two slots (a cuckoo table), or None when some find no place."""
    mask = (1 << bits) - 1
    slots = [0] * (mask + 1)
    for word in words:
        moved, side = word, 0
        for _ in range(MOVES_MAX):
            slot = moved >> shifts[side] & mask
            slots[slot], moved = moved, slots[slot]
            if moved == 0:
                break
            side = 1 if moved >> shifts[0] & mask == slot else 0
        else:
            return None
    return slots


class FingerprintBatch(NamedTuple):
    """The fingerprints of n texts, as columns."""

    fingerprints: NDArray[np.uint64]  # [n]; for 128 bits [n, 2]: bits 0 to 63, bits 64 to 127
    features: NDArray[np.uint32]  # [n]: distinct shingles that count
    digests: NDArray[np.uint64]  # [n]: of the tokens; equal digest, equal text up to case, spaces and punctuation
    kinds: NDArray[np.uint8]  # [n]: Kind.EMPTY, SHORT or FULL
    doubts: NDArray[np.uint64]  # like fingerprints: bits whose sign a small edit may change; 0 unless FULL
    sketches: NDArray[np.uint64]  # [n, 8]: what confirms a candidate; 0 unless FULL

    def rows(self) -> Iterator[Fingerprint]:
        """Yield each row as the definition gives it, for people and tests; columns are what is fast."""
        count = len(self.kinds)
        values, doubts = (
            [sum(half << 64 * place for place, half in enumerate(row)) for row in column.reshape(count, -1).tolist()]
            for column in (self.fingerprints, self.doubts)
        )
        columns = (self.features.tolist(), self.digests.tolist(), map(Kind, self.kinds.tolist()))
        sketches = map(sketch_of, self.sketches.tolist())
        return itertools.starmap(Fingerprint, zip(values, *columns, doubts, sketches, strict=True))


class Fingerprinter:
    """
    Makes fingerprints under fixed parameters. Instances are immutable and may be shared by threads.

    Args:
        parameters: everything that changes a fingerprint.
        stopwords: a list of one's own; it becomes part of `self.parameters`, and so of their hash.

    >>> fingerprinter = Fingerprinter()
    >>> a = fingerprinter.one("The quick brown fox jumps over the lazy dog and then it runs away from us.")
    >>> b = fingerprinter.one("the quick brown fox -- jumps over the lazy dog, and then it runs away from us")
    >>> (a ^ b).bit_count()
    0
    """

    def __init__(self, parameters: Parameters | None = None, stopwords: frozenset[str] | None = None) -> None:
        parameters = parameters or Parameters()
        self.parameters = parameters if stopwords is None else replace(parameters, stopwords=stopwords)
        self._unnamed = list_number(self.parameters, None)
        self._points, self._anchors = code_points(self.parameters.token_unit), anchor_table(self.parameters)
        self._weights = np.array([weight for _, weight in self.parameters.fields], np.int64)
        self._rules = _rules(self.parameters, self._weights[:0])

    def one(self, text: str, language: str | None = None) -> int:
        """
        Return the fingerprint of one text, an integer in [0, 2**bits). 0 is one, too; that of an empty text is 0.

        Raises:
            TypeError: it is no text.

        Cost: O(len(text)).
        """
        if not isinstance(text, str):
            raise _no_text(text)
        number = self._unnamed if language is None else list_number(self.parameters, language)
        batch = kernels.pack_one(text, self.parameters.token_unit == "word", number)
        columns = self._run_packed(batch, kernels.empty_columns(1, self.parameters.bits), self._rules)
        low = columns.fingerprints.item(0)
        return low if self.parameters.bits != 128 else low | columns.fingerprints.item(1) << 64

    def many(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> NDArray[np.uint64]:
        """
        Return the fingerprints of many texts.

        Args:
            languages: of each text, or None.
        Returns:
            uint64[n]; for 128 bits uint64[n, 2], low half first.
        Raises:
            TypeError: one is no text, or it is one text; ValueError: not as many languages as texts.

        Cost: O(characters).
        """
        return self.batch(texts, languages).fingerprints

    def batch(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> FingerprintBatch:
        """
        Return the fingerprints of many texts, with features, digests and kinds.

        Raises:
            TypeError, ValueError: as `many`.

        Cost: O(characters).
        """
        return self._run(texts, languages, self._rules)

    def of_fields(
        self, documents: Sequence[Mapping[str, str]], languages: Sequence[str | None] | None = None
    ) -> FingerprintBatch:
        """
        Return the fingerprints of documents in fields (title, headings, body), which `parameters.fields` weighs.

        Args:
            documents: field -> text; a field that one lacks is empty.
        Raises:
            ValueError: a field without a weight, no weights at all, or not as many languages as documents.

        Cost: O(characters).

        >>> weighing = Fingerprinter(Parameters(fields=(("title", 4), ("body", 1))))
        >>> page = {"title": "The ferry on the river", "body": "It was late again and nobody has said why."}
        >>> a, b = weighing.of_fields([page, page | {"title": "THE FERRY: on the river!"}]).fingerprints.tolist()
        >>> (a ^ b).bit_count()
        0
        """
        names = [name for name, _ in self.parameters.fields]
        for document in documents if names else [{}]:
            if not names or not document.keys() <= set(names):
                raise ValueError(
                    f"Parameters(fields=…) must weigh each field, got fields {sorted(document)} and weights "
                    f"{dict(self.parameters.fields)}: a field without a weight would be left out silently"
                )
        if languages is not None and len(languages) != len(documents):
            raise ValueError(
                f"each document has a language or None, got {len(documents)} documents, {len(languages)} languages"
            )
        texts = [document.get(name, "") for document in documents for name in names]
        each = None if languages is None else [language for language in languages for _ in names]
        return self._run(texts, each, self._rules._replace(fields=self._weights))

    def packed(self, texts: kernels.Texts, languages: Sequence[str | None] | None = None) -> FingerprintBatch:
        """
        Return the fingerprints of texts that are packed already, as `pages.extract_pages` packs them.

        Args:
            texts: with `parameters.fields` the fields of each document side by side, in their order; its spans' LIST
                is written.
            languages: of each document, or None.
        Raises:
            ValueError: not as many languages as documents.

        Cost: O(characters).
        """
        fields = max(len(self._weights), 1)
        documents = len(texts.spans) // fields
        if languages is not None and len(languages) != documents:
            raise ValueError(f"each text has a language or None, got {documents} texts, {len(languages)} languages")
        each = None if languages is None else [language for language in languages for _ in range(fields)]
        texts.spans[:, kernels.LIST] = self._list_numbers(each, 0, len(texts.spans))
        columns = kernels.empty_columns(documents, self.parameters.bits)
        texts = texts if self.parameters.token_unit == "word" else kernels.widened(texts)
        return _as_batch(self._run_packed(texts, columns, self._rules._replace(fields=self._weights)))

    def of_features(self, features: Mapping[str, int] | Mapping[int, int]) -> int:
        """
        Return the fingerprint of weighted features of one's own, in place of shingles.

        Args:
            features: feature -> weight (a whole number, 1 or more). A feature is a 64-bit hash, or text, whose hash is
                the XXH64 of its UTF-8 bytes.
        Raises:
            ValueError: no features, a weight below 1, or weights that sum beyond 2**62.
            TypeError: a hash or a weight that is not a whole number.

        Cost: O(bits · features), about 0.1 ms for 1,000 of them.

        >>> Fingerprinter().of_features({0b01: 255, 0b10: 256})
        2
        """
        hashes = [token_hash(feature) if isinstance(feature, str) else feature for feature in features]
        return fold(zip(hashes, features.values(), strict=True), self.parameters.bits)

    def features(self, text: str, language: str | None = None) -> list[Feature]:
        """
        Return what the fingerprint of a text is made of: each distinct shingle with its hash, weight and occurrences.

        Cost: about 1 µs per character; for people, not for the pipeline.
        """
        return explain(text, self.parameters, language)

    def warm_up(self) -> None:
        """Do now what the first fingerprint would have to wait for. A worker calls it before it joins its group."""
        self.batch(["warm"])

    def _run(
        self, texts: Sequence[str], languages: Sequence[str | None] | None, rules: kernels.Rules
    ) -> FingerprintBatch:
        """The fingerprints of documents, the texts of whose fields stand side by side."""
        if isinstance(texts, str) or not isinstance(texts, Sized):
            raise TypeError(f"wanted a list of texts, got {texts!r:.50}: `one` takes one")
        if not set(map(type, texts)) <= {str}:
            for text in texts:
                if not isinstance(text, str):
                    raise _no_text(text)
        if languages is not None and len(languages) != len(texts):
            raise ValueError(f"each text has a language or None, got {len(texts)} texts, {len(languages)} languages")
        fields = max(rules.fields.size, 1)
        columns = kernels.empty_columns(len(texts) // fields, self.parameters.bits)
        begin = 0
        for end in kernels.chunks(texts, fields):
            batch = kernels.pack(texts[begin:end], by_byte=self.parameters.token_unit == "word")
            batch.spans[:, kernels.LIST] = self._list_numbers(languages, begin, end)
            self._run_packed(batch, columns.rows(begin // fields, end // fields), rules)
            begin = end
        return _as_batch(columns)

    def _list_numbers(self, languages: Sequence[str | None] | None, begin: int, end: int) -> int | list[int]:
        if languages is None or self.parameters.anchors != "named":
            return self._unnamed
        return [list_number(self.parameters, language) for language in languages[begin:end]]

    def _run_packed(self, batch: kernels.Texts, columns: kernels.Columns, rules: kernels.Rules) -> kernels.Columns:
        """Fill the columns; documents that are to be composed come again, composed."""
        if kernels.fingerprint_batch(batch, False, self._points, rules, self._anchors, columns):
            again = np.flatnonzero(columns.about[:, kernels.KIND] == kernels.NOT_COMPOSED)
            fields = max(rules.fields.size, 1)
            composed = kernels.compose(batch, np.ravel(again[:, np.newaxis] * fields + np.arange(fields)))
            rows = kernels.empty_columns(again.size, self.parameters.bits)
            kernels.fingerprint_batch(composed, True, self._points, rules, self._anchors, rows)
            for column, found in zip(columns, rows, strict=True):
                column[again] = found
        return columns


def _as_batch(columns: kernels.Columns) -> FingerprintBatch:
    about = columns.about
    values, doubts = (halves[:, 0] if halves.shape[1] == 1 else halves for halves in columns[:2])
    features, kinds = about[:, kernels.FEATURES].astype(np.uint32), about[:, kernels.KIND].astype(np.uint8)
    return FingerprintBatch(values, features, about[:, kernels.DIGEST].copy(), kinds, doubts, columns.sketches)


def _rules(parameters: Parameters, fields: NDArray[np.int64]) -> kernels.Rules:
    return kernels.Rules(
        bits=parameters.bits,
        halves=2 if parameters.bits == 128 else 1,
        low_mask=np.uint64((1 << min(parameters.bits, 64)) - 1),
        widths=np.array(parameters.shingle_widths, np.uint64),
        anchored_weight=parameters.anchored_weight,
        unanchored_weight=parameters.unanchored_weight,
        fields=fields,
        term_frequency={"one": kernels.ONE, "log": kernels.LOG, "tf": kernels.TF}[parameters.term_frequency],
        tokens_min=np.uint64(parameters.tokens_min),
        shingles_min=np.uint64(parameters.shingles_min),
        mask_numbers=parameters.mask_numbers,
        mask_identifiers=parameters.mask_identifiers,
        mask_hash=np.uint64(token_hash(MASK)),
    )


def _no_text(given: object) -> TypeError:
    return TypeError(f"a text is a str, got {type(given).__name__} {given!r:.50}: decode it, or leave it out")
