"""Texts to fingerprints: the library's entry, one text or many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.definition import Fingerprint, Kind, define, explain
from worker.core.parameters import Parameters
from worker.core.shingles import Feature
from worker.core.simhash import hamming_distance, similarity

__all__ = ["FingerprintBatch", "Fingerprinter", "Kind", "hamming_distance", "similarity"]

_64 = (1 << 64) - 1


class FingerprintBatch(NamedTuple):
    """The fingerprints of n texts, as columns."""

    fingerprints: NDArray[np.uint64]  # [n]; for 128 bits [n, 2]: bits 0 to 63, bits 64 to 127
    features: NDArray[np.uint32]  # [n]: distinct shingles that count
    digests: NDArray[np.uint64]  # [n]: XXH64 of the tokens joined by one space; equal digest, equal text
    kinds: NDArray[np.uint8]  # [n]: Kind.EMPTY, SHORT or FULL


class Fingerprinter:
    """
    Makes fingerprints under fixed parameters. Instances are immutable and may be shared by threads.

    Args:
        parameters: everything that changes a fingerprint.
        stopwords: a list of one's own; it becomes part of `self.parameters`, and so of their hash.

    >>> fingerprinter = Fingerprinter()
    >>> a = fingerprinter.one("The quick brown fox jumps over the lazy dog and then it runs away from us.")
    >>> b = fingerprinter.one("the quick brown fox -- jumps over the lazy dog, and then it runs away from us")
    >>> hamming_distance(a, b)
    0
    """

    def __init__(self, parameters: Parameters | None = None, stopwords: frozenset[str] | None = None) -> None:
        parameters = parameters or Parameters()
        self.parameters = parameters if stopwords is None else replace(parameters, stopwords=stopwords)

    def one(self, text: str, language: str | None = None) -> int:
        """
        The fingerprint of one text, an integer in [0, 2**bits). 0 is a fingerprint too; of an empty text it is 0.

        Cost: O(len(text)).
        """
        return define(text, self.parameters, language).value

    def many(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> NDArray[np.uint64]:
        """
        The fingerprints of many texts.

        Args:
            languages: of each text, or None.
        Returns:
            uint64[n]; for 128 bits uint64[n, 2], low half first.
        Raises:
            ValueError: not as many languages as texts.

        Cost: O(characters).
        """
        return self.batch(texts, languages).fingerprints

    def batch(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> FingerprintBatch:
        """
        The fingerprints of many texts, with features, digests and kinds.

        Raises:
            ValueError: not as many languages as texts.

        Cost: O(characters).
        """
        if languages is not None and len(languages) != len(texts):
            raise ValueError(f"each text has a language or None, got {len(texts)} texts, {len(languages)} languages")
        named = languages or [None] * len(texts)
        rows = [define(text, self.parameters, language) for text, language in zip(texts, named, strict=True)]
        return FingerprintBatch(
            self._column(rows),
            np.array([row.features for row in rows], np.uint32),
            np.array([row.digest for row in rows], np.uint64),
            np.array([row.kind for row in rows], np.uint8),
        )

    def features(self, text: str, language: str | None = None) -> list[Feature]:
        """
        What the fingerprint of a text is made of: each distinct shingle with its hash, weight and occurrences.

        Cost: about 1 µs a character; for people, not for the pipeline.
        """
        return explain(text, self.parameters, language)

    def warm_up(self) -> None:
        """Do now what the first fingerprint would have to wait for. A worker calls it before it joins its group."""
        self.batch(["warm"])

    def _column(self, rows: list[Fingerprint]) -> NDArray[np.uint64]:
        if self.parameters.bits == 128:
            halves = [(row.value & _64, row.value >> 64) for row in rows]
            return np.array(halves, np.uint64).reshape(len(rows), 2)
        return np.array([row.value for row in rows], np.uint64)
