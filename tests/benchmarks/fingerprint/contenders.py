"""
The contenders: our kernel and five peers, each as its own documents advise.

`hold` takes texts to where the contender wants them, uncounted; `run` makes the fingerprints, and that is measured.
`nearness` tells which copies are found again, and how many unrelated pairs are taken for copies. MinHash is no SimHash:
its limit is an estimate of 0.8, not three bits.
"""

# Peers come without types, and only the one that is measured is imported.
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import tempfile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DISTANCE_MAX = 3
ESTIMATE_MIN = 0.8
PERMUTATIONS = 128


class Nearness(NamedTuple):
    """What is found again."""

    recall: dict[str, float]  # change -> share of the copies within the limit of their originals
    false_pairs: int  # of unrelated originals within the limit
    pairs: int


class Contender:
    """One that gives 64-bit fingerprints."""

    def hold(self, texts: list[str]) -> Any:
        """Return the texts as `run` takes them."""
        return texts

    def run(self, held: Any) -> Any:
        """Return a fingerprint a text."""
        raise NotImplementedError

    def distinct(self, one: Any, others: Any) -> NDArray[np.bool_]:
        """Return which rows differ by more than the limit."""
        return np.bitwise_count(one ^ others) > DISTANCE_MAX

    def shares(self, texts: list[str]) -> list[float] | None:
        """Return the share of the texts with each bit set; None where that can't be seen."""
        made = np.array(self.run(self.hold(texts)))
        if made.dtype != np.uint64 or made.ndim > 1:
            return None
        bits = np.unpackbits(made.view(np.uint8).reshape(len(made), -1), axis=1, bitorder="little")
        shares: list[float] = bits.mean(axis=0).tolist()
        return shares

    def nearness(self, originals: list[str], changes: dict[str, list[str]]) -> Nearness:
        """Compare each copy with its original, and the originals with each other."""
        made = np.array(self.run(self.hold(originals)))
        copies = {change: np.array(self.run(self.hold(texts))) for change, texts in changes.items()}
        recall = {change: float(np.mean(~self.distinct(made, found))) for change, found in copies.items()}
        false_pairs = sum(int(np.sum(~self.distinct(made[row], made[row + 1 :]))) for row in range(len(made)))
        return Nearness(recall, false_pairs, len(made) * (len(made) - 1) // 2)


class Ours(Contender):
    """Batches of all texts."""

    def __init__(self) -> None:
        from neardup import Fingerprinter

        self.fingerprinter = Fingerprinter()
        self.fingerprinter.warm_up()

    def run(self, held: Any) -> Any:
        """One call."""
        return self.fingerprinter.many(held)


class OursAlone(Ours):
    """One `str` a call."""

    def run(self, held: Any) -> Any:
        """A call each."""
        one = self.fingerprinter.one
        return np.array([one(text) for text in held], np.uint64)


class ClickHouse(Contender):
    """chdb: ClickHouse in this process, the texts in a table in memory, one thread."""

    def __init__(self, function: str = "wordShingleSimHash") -> None:
        from chdb import session

        self.function = function
        self.session = session.Session()
        self.tables = 0

    def hold(self, texts: list[str]) -> str:
        """A table."""
        self.tables += 1
        name = f"t{self.tables}"
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.writelines(json.dumps({"n": number, "text": text}) + "\n" for number, text in enumerate(texts))
            file.flush()
            self.session.query(f"CREATE TABLE {name} (n UInt32, text String) ENGINE = Memory")
            self.session.query(f"INSERT INTO {name} SELECT n, text FROM file('{file.name}', 'JSONEachRow')")
        return name

    def run(self, held: Any) -> Any:
        """One query."""
        query = f"SELECT {self.function}(text) FROM {held} ORDER BY n SETTINGS max_threads = 1"
        return np.array(str(self.session.query(query, "TSV")).split(), np.uint64)


class ClickHouseUtf8(ClickHouse):
    """The same by code points and without regard to case, as we do."""

    def __init__(self) -> None:
        super().__init__("wordShingleSimHashCaseInsensitiveUTF8")


class Gaoya(Contender):
    """gaoya's SimHash in Rust, word 3-shingles. Python sees its index alone: while that is empty, asking is hashing."""

    def _index(self) -> Any:
        from gaoya.simhash import SimHashStringIndex

        return SimHashStringIndex(
            64, DISTANCE_MAX + 1, DISTANCE_MAX, analyzer="word", lowercase=True, ngram_range=(3, 3)
        )

    def run(self, held: Any) -> Any:
        """A call each."""
        query = self._index().query
        return [query(text) for text in held]

    def nearness(self, originals: list[str], changes: dict[str, list[str]]) -> Nearness:
        """Ask an index that holds the originals."""
        index = self._index()
        false_pairs = 0
        for number, text in enumerate(originals):
            false_pairs += len(index.query(text))
            index.insert_document(number, text)
        recall = {
            change: sum(number in index.query(text) for number, text in enumerate(texts)) / len(texts)
            for change, texts in changes.items()
        }
        return Nearness(recall, false_pairs, len(originals) * (len(originals) - 1) // 2)


class Simhash(Contender):
    """The simhash package, as it is: character 4-grams, MD5."""

    def run(self, held: Any) -> Any:
        """A call each."""
        from simhash import Simhash as Peer

        return np.array([Peer(text).value for text in held], np.uint64)


class MinHash(Contender):
    """Rows of minima."""

    def distinct(self, one: Any, others: Any) -> NDArray[np.bool_]:
        """By the estimate."""
        return np.mean(one == others, axis=-1) < ESTIMATE_MIN


class Rensa(MinHash):
    """rensa's RMinHash in Rust, over words."""

    def run(self, held: Any) -> Any:
        """A call each."""
        from rensa import RMinHash

        rows = []
        for text in held:
            one = RMinHash(num_perm=PERMUTATIONS, seed=42)
            one.update(text.split())
            rows.append(one.digest())
        return rows


class Datasketch(MinHash):
    """datasketch's MinHash in NumPy, over words."""

    def run(self, held: Any) -> Any:
        """A call each."""
        from datasketch import MinHash as Peer

        rows = []
        for text in held:
            one = Peer(num_perm=PERMUTATIONS)
            one.update_batch([word.encode() for word in set(text.split())])
            rows.append(one.digest())
        return rows


CONTENDERS = {
    "neardup": Ours,
    "neardup, one a call": OursAlone,
    "ClickHouse wordShingleSimHash": ClickHouse,
    "ClickHouse …CaseInsensitiveUTF8": ClickHouseUtf8,
    "gaoya": Gaoya,
    "rensa RMinHash": Rensa,
    "datasketch MinHash": Datasketch,
    "simhash": Simhash,
}

PACKAGES = {
    "ClickHouse wordShingleSimHash": "chdb",
    "ClickHouse …CaseInsensitiveUTF8": "chdb",
    "gaoya": "gaoya",
    "rensa RMinHash": "rensa",
    "datasketch MinHash": "datasketch",
    "simhash": "simhash",
}


def make(name: str) -> Contender:
    """Begin."""
    return CONTENDERS[name]()
