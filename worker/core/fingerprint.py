"""Texts to fingerprints: the library's entry, one text or many at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
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
from worker.core.kernels.anchors import ELECT, POINTS_BIT, SIEVE_BITS, UNION, Anchors
from worker.core.kernels.machine import SLACK
from worker.core.kernels.tally import LOG, ONE, TF
from worker.core.kernels.two_slots import table_of
from worker.core.kernels.unicode import code_points
from worker.core.sketch import SKETCH, sketch_of
from worker.core.tokens import MASK, nfc
from worker.errors import check_type, safe_repr


def _list_number(parameters: Parameters, language: str | None) -> int:
    """
    Return whose words anchor a text: the bit of a language, UNION, or ELECT for the kernel to find
    out.
    """
    code = (
        lists.language_code(language)
        if parameters.anchors == "named" and parameters.stopwords is None
        else None
    )
    if code is not None:
        return lists.languages().index(code)
    by_union = (
        parameters.anchors == "union"
        or parameters.stopwords is not None
        or parameters.token_unit == "character"
    )
    return UNION if by_union else ELECT


@lru_cache(maxsize=16)
def _anchor_table(own: frozenset[str] | None, unit: Literal["word", "character"]) -> Anchors:
    """
    Return the function words of these parameters, and the lists that each is in. Cost: 0.1 s for
    all, once per process.
    """
    words: dict[str, int] = {}
    if own is None and unit == "word":
        words = {word: bits | points << POINTS_BIT for word, (bits, points) in votes().items()}
    elif own is None:
        for number, code in enumerate(lists.languages()):
            for word in folded_words(lists.stopwords(code), unit):
                words[word] = words.get(word, 0) | 1 << number
    for word in folded_words(lists.stopwords(None) if own is None else own, unit):
        words[word] = words.get(word, 0) | 1 << UNION
    vote_of = {token_hash(word): vote for word, vote in words.items()}
    return Anchors(table_of(vote_of), _sieve(vote_of))


def _sieve(words: Iterable[int]) -> NDArray[np.uint32]:
    """Return a bit for each value of a hash's upper SIEVE_BITS: whether any of these has it."""
    bits = np.zeros(1 << SIEVE_BITS, np.uint8)
    for word in words:
        bits[word >> (64 - SIEVE_BITS)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


class FingerprintBatch(NamedTuple):
    """The fingerprints of n texts, as columns."""

    fingerprints: NDArray[np.uint64]  # [n]; for 128 bits [n, 2]: bits 0 to 63, bits 64 to 127
    features: NDArray[np.uint32]  # [n]: distinct shingles that count
    # [n]: of the tokens; equal digest, equal text up to case, spaces and punctuation.
    digests: NDArray[np.uint64]
    kinds: NDArray[np.uint8]  # [n]: Kind.EMPTY, SHORT or FULL
    # Like fingerprints: bits whose sign a small edit may change; 0 unless FULL.
    doubts: NDArray[np.uint64]
    sketches: NDArray[np.uint64]  # [n, 8]: what confirms a candidate; 0 unless FULL

    def rows(self) -> Iterator[Fingerprint]:
        """
        Yield each row as the definition gives it, for people and tests; the columns are faster.

        Cost: some 2 µs per row.
        """
        values = _whole_numbers(self.fingerprints)
        doubts = _whole_numbers(self.doubts)
        columns = (self.features.tolist(), self.digests.tolist(), map(Kind, self.kinds.tolist()))
        sketches = map(sketch_of, self.sketches.tolist())
        return itertools.starmap(Fingerprint, zip(values, *columns, doubts, sketches, strict=True))


def _whole_numbers(column: NDArray[np.uint64]) -> list[int]:
    """Return the numbers of a column, whose rows may be halves of 64 bits, the low one first."""
    if column.ndim == 1:
        numbers: list[int] = column.tolist()
        return numbers
    return [low | high << 64 for low, high in column.tolist()]


class Fingerprinter:
    """
    Makes fingerprints under fixed parameters. Instances are immutable and may be shared by threads.

    Args:
        parameters: everything that changes a fingerprint.
        stopwords: a list of one's own; it becomes part of `self.parameters`, and so of their hash.
    Raises:
        TypeError: `parameters` is something else.

    >>> fingerprinter = Fingerprinter()
    >>> text = "The quick brown fox jumps over the lazy dog and then it runs away from us."
    >>> a = fingerprinter.one(text)
    >>> b = fingerprinter.one(text.lower().replace("jumps", "-- jumps").replace("dog", "dog,"))
    >>> (a ^ b).bit_count()
    0
    """

    def __init__(
        self, parameters: Parameters | None = None, stopwords: frozenset[str] | None = None
    ) -> None:
        parameters = Parameters() if parameters is None else parameters
        check_type("parameters", parameters, Parameters)
        self.parameters = (
            parameters if stopwords is None else replace(parameters, stopwords=stopwords)
        )
        self._unnamed = _list_number(self.parameters, None)
        unit = self.parameters.token_unit
        self._points = code_points(unit)
        self._anchors = _anchor_table(self.parameters.stopwords, unit)
        self._weights = np.array([weight for _, weight in self.parameters.fields], np.int64)
        self._rules = _rules(self.parameters, self._weights[:0])

    def one(self, text: str, language: str | None = None) -> int:
        """
        Return the fingerprint of one text: an integer in [0, 2**bits). That of an empty text is 0,
        which other texts may have as well.

        Args:
            language: its tag, like "de" or "pt-BR", for parameters that go by the named language.
        Raises:
            TypeError: it is no text.

        Cost: O(len(text)).
        """
        if not isinstance(text, str):
            raise _no_text(text)
        number = self._unnamed if language is None else _list_number(self.parameters, language)
        batch = _pack_one(text, self.parameters.token_unit == "word", number)
        columns = self._run_packed(batch, _empty_columns(1, self.parameters.bits), self._rules)
        low = columns.fingerprints.item(0)
        return low if self.parameters.bits != 128 else low | columns.fingerprints.item(1) << 64

    def many(
        self, texts: Sequence[str], languages: Sequence[str | None] | None = None
    ) -> NDArray[np.uint64]:
        """
        Return the fingerprints of many texts.

        Args:
            languages: of each text, or None.
        Returns:
            uint64[n]; for 128 bits uint64[n, 2], low half first.
        Raises:
            TypeError: one is no text, or it is one text; ValueError: not as many languages as
                texts.

        Cost: O(characters).
        """
        return self.batch(texts, languages).fingerprints

    def batch(
        self, texts: Sequence[str], languages: Sequence[str | None] | None = None
    ) -> FingerprintBatch:
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
        Return the fingerprints of documents that have fields (title, headings, body), weighted by
        `parameters.fields`.

        Args:
            documents: field -> text; a field that one lacks is empty.
        Raises:
            ValueError: a field without a weight, no weights at all, or not as many languages as
                documents.

        Cost: O(characters).

        >>> weighing = Fingerprinter(Parameters(fields=(("title", 4), ("body", 1))))
        >>> body = "It was late again and nobody has said why."
        >>> page = {"title": "The ferry on the river", "body": body}
        >>> other = page | {"title": "THE FERRY: on the river!"}
        >>> a, b = weighing.of_fields([page, other]).fingerprints.tolist()
        >>> (a ^ b).bit_count()
        0
        """
        names = [name for name, _ in self.parameters.fields]
        for document in documents if names else [{}]:
            if not names or not document.keys() <= set(names):
                raise ValueError(
                    f"Parameters(fields=…) must weigh each field, "
                    f"got fields {sorted(document)} and weights {dict(self.parameters.fields)}: "
                    f"a field without a weight would be left out silently"
                )
        each = _each(languages, len(documents), "document", len(names))
        texts = [document.get(name, "") for document in documents for name in names]
        return self._run(texts, each, self._rules._replace(fields=self._weights))

    def packed(
        self, texts: kernels.PackedTexts, languages: Sequence[str | None] | None = None
    ) -> FingerprintBatch:
        """
        Return the fingerprints of texts that are packed already, as `pages.extract_pages` packs
        them.

        Args:
            texts: with `parameters.fields`, the fields of each document next to each other, in
                their order. The column LIST of its spans is overwritten.
            languages: of each document, or None.
        Raises:
            ValueError: not as many languages as documents.
            TypeError: the texts are not packed.

        Cost: O(characters).
        """
        check_type("texts", texts, kernels.PackedTexts)
        fields = max(len(self._weights), 1)
        documents = len(texts.spans) // fields
        each = _each(languages, documents, "text", fields)
        texts.spans[:, kernels.LIST] = self._list_numbers(each, 0, len(texts.spans))
        columns = _empty_columns(documents, self.parameters.bits)
        texts = texts if self.parameters.token_unit == "word" else _widened(texts)
        return _as_batch(
            self._run_packed(texts, columns, self._rules._replace(fields=self._weights))
        )

    def of_features(self, features: Mapping[str, int] | Mapping[int, int]) -> int:
        """
        Return the fingerprint of weighted features of one's own, in place of shingles.

        Args:
            features: feature -> weight (a whole number, 1 or more). A feature is a 64-bit hash, or
                text, whose hash is the XXH64 of its UTF-8 bytes.
        Raises:
            ValueError: no features, a weight below 1, or weights that sum beyond 2**62.
            TypeError: a hash or a weight that is not a whole number.

        Cost: O(bits · features), about 0.1 ms for 1,000 of them.

        >>> Fingerprinter().of_features({0b01: 255, 0b10: 256})
        2
        """
        check_type("features", features, Mapping)
        hashes = [
            token_hash(feature) if isinstance(feature, str) else feature for feature in features
        ]
        return fold(zip(hashes, features.values(), strict=True), self.parameters.bits)

    def features(self, text: str, language: str | None = None) -> list[Feature]:
        """
        Return the features of a text's fingerprint: each distinct shingle with its hash, weight and
        number of occurrences.

        Raises:
            TypeError: it is no text.

        Cost: about 1 µs per character; for people, not for the pipeline.
        """
        if not isinstance(text, str):
            raise _no_text(text)
        return explain(text, self.parameters, language)

    def warm_up(self) -> None:
        """
        Compile or load everything now that the first fingerprint would wait for. A worker does so
        before it joins its group.

        Cost: some seconds, up to a minute, where no machine code is cached; else a fraction of one.
        """
        self.batch(["warm"])

    def _run(
        self, texts: Sequence[str], languages: Sequence[str | None] | None, rules: kernels.Rules
    ) -> FingerprintBatch:
        """The fingerprints of documents, the texts of whose fields stand side by side."""
        if isinstance(texts, str) or not isinstance(texts, Sized):
            raise TypeError(
                f"wanted a list of texts, got {safe_repr(texts):.50}: use `one` for a single text"
            )
        if not set(map(type, texts)) <= {str}:
            for text in texts:
                if not isinstance(text, str):
                    raise _no_text(text)
        languages = _each(languages, len(texts), "text", 1)
        fields = max(rules.fields.size, 1)
        columns = _empty_columns(len(texts) // fields, self.parameters.bits)
        begin = 0
        for end in _chunks(texts, fields):
            batch = _pack(texts[begin:end], by_byte=self.parameters.token_unit == "word")
            batch.spans[:, kernels.LIST] = self._list_numbers(languages, begin, end)
            rows = slice(begin // fields, end // fields)
            self._run_packed(batch, kernels.Columns(*(column[rows] for column in columns)), rules)
            begin = end
        return _as_batch(columns)

    def _list_numbers(
        self, languages: Sequence[str | None] | None, begin: int, end: int
    ) -> int | list[int]:
        if languages is None or self.parameters.anchors != "named":
            return self._unnamed
        return [_list_number(self.parameters, language) for language in languages[begin:end]]

    def _run_packed(
        self, batch: kernels.PackedTexts, columns: kernels.Columns, rules: kernels.Rules
    ) -> kernels.Columns:
        """Fill the columns; documents that are to be composed come again, composed."""
        if kernels.fingerprint_batch(batch, False, self._points, rules, self._anchors, columns):
            again = np.flatnonzero(columns.about[:, kernels.KIND] == kernels.NOT_COMPOSED)
            fields = max(rules.fields.size, 1)
            composed = _compose(batch, np.ravel(again[:, np.newaxis] * fields + np.arange(fields)))
            rows = _empty_columns(again.size, self.parameters.bits)
            kernels.fingerprint_batch(composed, True, self._points, rules, self._anchors, rows)
            for column, found in zip(columns, rows, strict=True):
                column[again] = found
        return columns


def _each(
    languages: Sequence[str | None] | None, count: int, what: str, fields: int
) -> Sequence[str | None] | None:
    """
    The language of each of the fields of so many texts. Raises ValueError: not as many languages.
    """
    if languages is None:
        return None
    if len(languages) != count:
        raise ValueError(
            f"each {what} has a language or None, got {count} {what}s, {len(languages)} languages"
        )
    return [language for language in languages for _ in range(fields)]


def _as_batch(columns: kernels.Columns) -> FingerprintBatch:
    about = columns.about
    values, doubts = (halves[:, 0] if halves.shape[1] == 1 else halves for halves in columns[:2])
    features = about[:, kernels.FEATURES].astype(np.uint32)
    kinds = about[:, kernels.KIND].astype(np.uint8)
    return FingerprintBatch(
        values, features, about[:, kernels.DIGEST].copy(), kinds, doubts, columns.sketches
    )


def _rules(parameters: Parameters, fields: NDArray[np.int64]) -> kernels.Rules:
    return kernels.Rules(
        bits=parameters.bits,
        halves=2 if parameters.bits == 128 else 1,
        low_mask=np.uint64((1 << min(parameters.bits, 64)) - 1),
        widths=np.array(parameters.shingle_widths, np.uint64),
        anchored_weight=parameters.anchored_weight,
        unanchored_weight=parameters.unanchored_weight,
        fields=fields,
        term_frequency={"one": ONE, "log": LOG, "tf": TF}[parameters.term_frequency],
        tokens_min=np.uint64(parameters.tokens_min),
        shingles_min=np.uint64(parameters.shingles_min),
        mask_numbers=parameters.mask_numbers,
        mask_identifiers=parameters.mask_identifiers,
        mask_hash=np.uint64(token_hash(MASK)),
        by_letter=parameters.token_unit == "character",
    )


def _no_text(given: object) -> TypeError:
    return TypeError(
        f"a text is a str, got {type(given).__name__} {safe_repr(given):.50}: "
        f"decode it, or leave it out"
    )


# Python's strings as the kernels read them, and the columns that they fill.

# Copied at once: a call costs 30 µs, and then a wait for the interpreter's lock.
# Smaller chunks take less time to copy, and 5 to 8 % more in all; `PyUnicode_AsUCS4` in place of an
# array of one string takes 2 % off, which is not worth a call by ctypes.
CHUNK_CHARACTERS = 1 << 20
_SLACK = bytes(SLACK)
_SLACK_TEXT = _SLACK.decode()
# For reading, like the bytes of a text: else it would be another kernel.
_NO_BYTES = np.frombuffer(_SLACK, np.uint8)
_NO_CODES = np.zeros(1, np.uint32)


def _chunks(texts: Sequence[str], fields: int) -> Iterator[int]:
    """
    Return where to cut a batch: behind each document that completes CHUNK_CHARACTERS, and at the
    end.
    """
    characters = 0
    for number, text in enumerate(texts, start=1):
        characters += len(text)
        if number == len(texts) or (characters >= CHUNK_CHARACTERS and number % fields == 0):
            yield number
            characters = 0


def _pack(texts: Sequence[str], by_byte: bool) -> kernels.PackedTexts:
    """
    Texts for a kernel: those in ASCII as bytes, the others as code points, each kind in one buffer.

    `by_byte`: ASCII may go by bytes; False where the unit is a character.
    """
    is_wide = [not (by_byte and text.isascii()) for text in texts]
    narrow = [text for text, wide in zip(texts, is_wide, strict=True) if not wide]
    wide = "".join([text for text, wide in zip(texts, is_wide, strict=True) if wide])
    spans = np.zeros((len(texts), 4), np.uint64)
    lengths = np.array([len(text) for text in texts], np.uint64)
    spans[:, kernels.IS_WIDE] = is_wide
    spans[:, kernels.END] = np.where(
        is_wide,
        np.cumsum(lengths * spans[:, kernels.IS_WIDE]),
        np.cumsum(lengths * (1 - spans[:, kernels.IS_WIDE])),
    )
    spans[:, kernels.START] = spans[:, kernels.END] - lengths
    joined = np.frombuffer("".join([*narrow, _SLACK_TEXT]).encode("ascii"), np.uint8)
    return kernels.PackedTexts(joined, _code_points(wide), spans)


def _pack_one(text: str, by_byte: bool, number: int) -> kernels.PackedTexts:
    """One text for a kernel; `number` is its list of function words."""
    if by_byte and text.isascii():
        narrow = np.frombuffer(text.encode("ascii") + _SLACK, np.uint8)
        return kernels.PackedTexts(
            narrow, _NO_CODES, np.array([[0, len(text), 0, number]], np.uint64)
        )
    return kernels.PackedTexts(
        _NO_BYTES, _code_points(text), np.array([[0, len(text), 1, number]], np.uint64)
    )


def _compose(batch: kernels.PackedTexts, rows: NDArray[np.intp]) -> kernels.PackedTexts:
    """The texts in these rows, in NFC."""
    return _as_code_points(batch, rows, [nfc(batch.text(row)) for row in rows.tolist()])


def _widened(batch: kernels.PackedTexts) -> kernels.PackedTexts:
    """Return the texts as code points."""
    rows = np.arange(len(batch.spans))
    return _as_code_points(batch, rows, [batch.text(row) for row in rows.tolist()])


def _as_code_points(
    batch: kernels.PackedTexts, rows: NDArray[np.intp], texts: list[str]
) -> kernels.PackedTexts:
    """Return these texts in place of those in the rows, as code points."""
    spans = batch.spans[rows]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.uint64)
    spans[:, kernels.START], spans[:, kernels.END] = ends[:-1], ends[1:]
    spans[:, kernels.IS_WIDE] = 1
    return kernels.PackedTexts(batch.narrow, _code_points("".join(texts)), spans)


def _empty_columns(rows: int, bits: int) -> kernels.Columns:
    """Columns for a kernel to fill."""
    fingerprints, doubts = np.empty((2, rows, 2 if bits == 128 else 1), np.uint64)
    return kernels.Columns(
        fingerprints, doubts, np.empty((rows, 3), np.uint64), np.empty(rows, SKETCH)
    )


def _code_points(text: str) -> NDArray[np.uint32]:
    """NumPy's strings are arrays of code points; surrogates stand in them as they are."""
    return np.array([text]).view(np.uint32) if text else _NO_CODES
