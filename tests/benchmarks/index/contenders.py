"""
The contenders: our index and five peers, each as `load` and `step`.

`step` takes a batch of fingerprints, gives for each the distance of the best match that was there before, -1 for none,
and then holds them too. Each sees those before it, as in a stream; where a name says otherwise, and with faiss Flat, a
batch is answered as a whole, which is faster for them.
"""

# Peers come without types, and only the one that is measured is imported.
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.core.permutation import split_bits

Numbers = NDArray[np.uint64]


class Contender(Protocol):
    """One index."""

    def load(self, fingerprints: Numbers) -> None:
        """Hold these too."""

    def step(self, fingerprints: Numbers) -> list[int]:
        """Ask for each, then hold it."""


class Ours:
    """PermutedIndex, its layout planned for so many documents."""

    def __init__(self, max_distance: int, documents: int) -> None:
        from worker.core.index import PermutedIndex

        self.index = PermutedIndex(max_distance, documents_expected=documents)
        self.index.warm_up()

    def load(self, fingerprints: Numbers) -> None:
        """At once."""
        held = len(self.index)
        self.index.insert(fingerprints, np.arange(held, held + len(fingerprints), dtype=np.uint32))

    def step(self, fingerprints: Numbers) -> list[int]:
        """One call."""
        found = self.index.query_then_insert(fingerprints, len(self.index))
        return np.where(found.rows < 0, -1, found.distances).tolist()


class FaissFlat:
    """faiss IndexBinaryFlat: a scan with popcounts."""

    def __init__(self, max_distance: int, _documents: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index: Any = faiss.IndexBinaryFlat(64)
        self.max_distance = max_distance

    def load(self, fingerprints: Numbers) -> None:
        """At once."""
        self.index.add(_bytes(fingerprints))

    def step(self, fingerprints: Numbers) -> list[int]:
        """The nearest of each, then all added."""
        distances, _ = self.index.search(_bytes(fingerprints), 1)
        self.load(fingerprints)
        return [distance if distance <= self.max_distance else -1 for distance in distances[:, 0].tolist()]


class FaissMultiHash:
    """faiss IndexBinaryMultiHash: four hashes of 16 bits, neighbours within 1 bit where the distance needs them."""

    def __init__(self, max_distance: int, _documents: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index: Any = faiss.IndexBinaryMultiHash(64, 4, 16)
        self.index.nflip = max_distance // 4
        self.max_distance = max_distance

    def load(self, fingerprints: Numbers) -> None:
        """At once."""
        self.index.add(_bytes(fingerprints))

    def step(self, fingerprints: Numbers) -> list[int]:
        """Every match of each, then all added."""
        ends, distances, _ = self.index.range_search(_bytes(fingerprints), self.max_distance + 1)
        self.load(fingerprints)
        pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return [int(distances[a:b].min()) if b > a else -1 for a, b in pairs]


class FaissMultiHashInTurn(FaissMultiHash):
    """The same, one by one, so that a document sees the one before it, as with ours."""

    def step(self, fingerprints: Numbers) -> list[int]:
        """One call of each kind for each."""
        return [
            distance
            for n in range(len(fingerprints))
            for distance in FaissMultiHash.step(self, fingerprints[n : n + 1])
        ]


class Gaoya:
    """
    gaoya's SimHash index, in Rust. Its Python side takes texts only: each fingerprint is told as a text of one word.

    So its fingerprints are others than ours, as random; nearness is not kept and recall not told.
    """

    def __init__(self, max_distance: int, _documents: int) -> None:
        from gaoya.simhash import SimHashStringIndex

        self.index = SimHashStringIndex(64, max_distance + 1, max_distance)
        self.size = 0

    def load(self, fingerprints: Numbers) -> None:
        """One by one."""
        for text in map(str, fingerprints.tolist()):
            self.index.insert_document(self.size, text)
            self.size += 1

    def step(self, fingerprints: Numbers) -> list[int]:
        """One by one."""
        for text in map(str, fingerprints.tolist()):
            self.index.query(text)
            self.index.insert_document(self.size, text)
            self.size += 1
        return []


class Datasketch:
    """datasketch MinHashLSH, its bands filled with the blocks of the fingerprint; candidates compared in full."""

    def __init__(self, max_distance: int, _documents: int) -> None:
        from datasketch import MinHash, MinHashLSH

        self.max_distance = max_distance
        widths = np.array(split_bits(max_distance + 1))
        self.shifts = (64 - np.cumsum(widths)).astype(np.uint64)
        self.masks = ((1 << widths.astype(object)) - 1).astype(np.uint64)
        self.lsh = MinHashLSH(num_perm=len(widths), params=(len(widths), 1))
        self.make = MinHash

    def sketch(self, fingerprint: int) -> Any:
        """The blocks in place of hash values."""
        values = (np.uint64(fingerprint) >> self.shifts) & self.masks
        return self.make(num_perm=len(values), hashvalues=values, scheme="legacy")

    def load(self, fingerprints: Numbers) -> None:
        """One by one."""
        for fingerprint in fingerprints.tolist():
            self.lsh.insert(fingerprint, self.sketch(fingerprint), check_duplication=False)

    def step(self, fingerprints: Numbers) -> list[int]:
        """One by one."""
        found = []
        for fingerprint in fingerprints.tolist():
            sketch = self.sketch(fingerprint)
            best = min(((fingerprint ^ other).bit_count() for other in self.lsh.query(sketch)), default=64)
            found.append(best if best <= self.max_distance else -1)
            self.lsh.insert(fingerprint, sketch, check_duplication=False)
        return found


class Simhash:
    """1e0ng/simhash, the popular one in pure Python."""

    def __init__(self, max_distance: int, _documents: int) -> None:
        from simhash import Simhash as Value
        from simhash import SimhashIndex

        self.make = Value
        self.index = SimhashIndex([], f=64, k=max_distance)

    def load(self, fingerprints: Numbers) -> None:
        """One by one; the name of each is its number."""
        for fingerprint in fingerprints.tolist():
            self.index.add(str(fingerprint), self.make(fingerprint))

    def step(self, fingerprints: Numbers) -> list[int]:
        """One by one."""
        found = []
        for fingerprint in fingerprints.tolist():
            value = self.make(fingerprint)
            near = self.index.get_near_dups(value)
            found.append(min(((fingerprint ^ int(other)).bit_count() for other in near), default=-1))
            self.index.add(str(fingerprint), value)
        return found


CONTENDERS: dict[str, type] = {
    "neardup": Ours,
    "faiss MultiHash": FaissMultiHashInTurn,
    "faiss MultiHash, 500 a call": FaissMultiHash,
    "faiss Flat": FaissFlat,
    "gaoya": Gaoya,
    "datasketch": Datasketch,
    "simhash": Simhash,
}


PACKAGES = {
    "faiss MultiHash": "faiss-cpu",
    "faiss MultiHash, 500 a call": "faiss-cpu",
    "faiss Flat": "faiss-cpu",
    "gaoya": "gaoya",
    "datasketch": "datasketch",
    "simhash": "simhash",
}


def make(name: str, max_distance: int, documents: int) -> Contender:
    """Begin empty; so many documents will come."""
    contender: Contender = CONTENDERS[name](max_distance, documents)
    return contender


def _bytes(fingerprints: Numbers) -> NDArray[np.uint8]:
    return fingerprints.view(np.uint8).reshape(-1, 8)
