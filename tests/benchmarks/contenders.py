"""
The contenders, ours and the peers, each as its own documents advise: of texts, of pairs of texts,
of fingerprints.

Of texts, `hold` takes them to where the contender wants them, uncounted; `run` makes the
fingerprints, and that is measured; `nearness` tells which copies are found again, and how many
unrelated pairs are taken for copies. MinHash is no SimHash: its limit is an estimate of 0.8, not
three bits. Shingles are of three words where a peer lets one choose.

Of fingerprints, `step` takes a batch, gives for each the distance of the best match that was there
before, -1 for none, and then holds them too. Each sees those before it, as in a stream; where a
name says otherwise, and with faiss Flat, a batch is answered as a whole, which is faster for them.
"""

# Peers come without types, and only the one that is measured is imported.
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.common import Figures
from worker.core.permutation import split_bits

DISTANCE_MAX = 3
ESTIMATE_MIN = 0.8
PERMUTATIONS = 128
Numbers = NDArray[np.uint64]
Pairs = NDArray[np.int64]  # [n, 2], rows of texts


class TextContender:
    """One that gives 64-bit fingerprints, a row a text."""

    def hold(self, texts: list[str]) -> Any:
        return texts

    def run(self, held: Any) -> Any:
        raise NotImplementedError

    def distinct(self, one: Any, others: Any) -> NDArray[np.bool_]:
        """Which rows differ by more than the limit."""
        return np.bitwise_count(one ^ others) > DISTANCE_MAX

    def shares(self, texts: list[str]) -> list[float] | None:
        """The share of the texts with each bit set; None where that can't be seen."""
        made = np.array(self.run(self.hold(texts)))
        if made.dtype != np.uint64 or made.ndim > 1:
            return None
        bits = np.unpackbits(made.view(np.uint8).reshape(len(made), -1), axis=1, bitorder="little")
        shares: list[float] = bits.mean(axis=0).tolist()
        return shares

    def nearness(self, originals: list[str], changes: dict[str, list[str]]) -> Figures:
        """
        The share of the copies within the limit of their originals, by change; pairs of originals
        within it.
        """
        made = np.array(self.run(self.hold(originals)))
        copies = {change: np.array(self.run(self.hold(texts))) for change, texts in changes.items()}
        recall = {
            change: float(np.mean(~self.distinct(made, found))) for change, found in copies.items()
        }
        false_pairs = sum(
            int(np.sum(~self.distinct(made[row], made[row + 1 :]))) for row in range(len(made))
        )
        return {
            "recall": recall,
            "false_pairs": false_pairs,
            "pairs": len(made) * (len(made) - 1) // 2,
        }


class Ours(TextContender):
    def __init__(self) -> None:
        from neardup import Fingerprinter

        self.fingerprinter = Fingerprinter()
        self.fingerprinter.warm_up()

    def run(self, held: Any) -> Any:
        return self.fingerprinter.many(held)


class OursAlone(Ours):
    """One `str` a call."""

    def run(self, held: Any) -> Any:
        one = self.fingerprinter.one
        return np.array([one(text) for text in held], np.uint64)


class ClickHouse(TextContender):
    """chdb: ClickHouse in this process, the texts in a table in memory, one thread."""

    function = "wordShingleSimHash"

    def __init__(self) -> None:
        from chdb import session

        self.session = session.Session()
        self.tables = 0

    def hold(self, texts: list[str]) -> str:
        self.tables += 1
        name = f"t{self.tables}"
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"n": number, "text": text}) + "\n" for number, text in enumerate(texts)
            )
            file.flush()
            self.session.query(f"CREATE TABLE {name} (n UInt32, text String) ENGINE = Memory")
            self.session.query(
                f"INSERT INTO {name} SELECT n, text FROM file('{file.name}', 'JSONEachRow')"
            )
        return name

    def run(self, held: Any) -> Any:
        query = f"SELECT {self.function}(text) FROM {held} ORDER BY n SETTINGS max_threads = 1"
        return np.array(str(self.session.query(query, "TSV")).split(), np.uint64)


class ClickHouseUtf8(ClickHouse):
    """The same by code points and without regard to case, as we do."""

    function = "wordShingleSimHashCaseInsensitiveUTF8"


class Gaoya(TextContender):
    """
    gaoya's SimHash in Rust, word 3-shingles. Python sees its index alone: while that is empty,
    asking is hashing.
    """

    def run(self, held: Any) -> Any:
        query = gaoya_index().query
        return [query(text) for text in held]

    def nearness(self, originals: list[str], changes: dict[str, list[str]]) -> Figures:
        """Ask an index that holds the originals."""
        index = gaoya_index()
        false_pairs = 0
        for number, text in enumerate(originals):
            false_pairs += len(index.query(text))
            index.insert_document(number, text)
        recall = {
            change: sum(number in index.query(text) for number, text in enumerate(texts))
            / len(texts)
            for change, texts in changes.items()
        }
        return {
            "recall": recall,
            "false_pairs": false_pairs,
            "pairs": len(originals) * (len(originals) - 1) // 2,
        }


def gaoya_index(distance: int = DISTANCE_MAX) -> Any:
    from gaoya.simhash import SimHashStringIndex

    return SimHashStringIndex(
        64, distance + 1, distance, analyzer="word", lowercase=True, ngram_range=(3, 3)
    )


class Simhash(TextContender):
    """The simhash package, as it is: character 4-grams, MD5."""

    def run(self, held: Any) -> Any:
        from simhash import Simhash as Peer

        return np.array([Peer(text).value for text in held], np.uint64)


class MinHash(TextContender):
    """Rows of minima, alike by their estimate."""

    def distinct(self, one: Any, others: Any) -> NDArray[np.bool_]:
        return np.mean(one == others, axis=-1) < ESTIMATE_MIN


class Rensa(MinHash):
    """rensa's RMinHash in Rust, over words."""

    def run(self, held: Any) -> Any:
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
        return [datasketch_minima({word.encode() for word in text.split()}) for text in held]


def datasketch_minima(features: set[bytes]) -> NDArray[np.uint64]:
    from datasketch import MinHash as Peer

    one = Peer(num_perm=PERMUTATIONS)
    one.update_batch(list(features))
    return one.digest()


OF_TEXTS: dict[str, type[TextContender]] = {
    "neardup": Ours,
    "neardup, one a call": OursAlone,
    "ClickHouse wordShingleSimHash": ClickHouse,
    "ClickHouse …CaseInsensitiveUTF8": ClickHouseUtf8,
    "gaoya": Gaoya,
    "rensa RMinHash": Rensa,
    "datasketch MinHash": Datasketch,
    "simhash": Simhash,
}


def _within(
    name: str, contender: TextContender, texts: list[str], pairs: Pairs
) -> dict[str, NDArray[np.bool_]]:
    made = np.array(contender.run(contender.hold(texts)), np.uint64)
    one, other = pairs.T
    differ = np.bitwise_count(made[one] ^ made[other])
    return {f"{name}, k = {distance}": differ <= distance for distance in (3, 6, 8)}


def _gaoya_pairs(texts: list[str], pairs: Pairs) -> dict[str, NDArray[np.bool_]]:
    """Each text asked for, of its own and its best distance."""
    found = {}
    for distance in (3, 6):
        index = gaoya_index(distance)
        for number, text in enumerate(texts):
            index.insert_document(number, text)
        answers = {
            other: set(index.query(texts[other])) for other in np.unique(pairs[:, 1]).tolist()
        }
        found[f"gaoya, k = {distance}"] = np.array(
            [one in answers[other] for one, other in pairs.tolist()], np.bool_
        )
    return found


def _datasketch_pairs(texts: list[str], pairs: Pairs) -> dict[str, NDArray[np.bool_]]:
    """MinHash of 128 permutations, 512 bytes per document, over words by three."""
    rows = np.zeros((len(texts), PERMUTATIONS), np.uint32)  # hashes of 32 bits
    for number in np.unique(pairs).tolist():
        words = texts[number].lower().split()
        rows[number] = datasketch_minima(
            {" ".join(words[at : at + 3]).encode() for at in range(max(1, len(words) - 2))}
        )
    chunks = np.array_split(pairs, len(pairs) // 100_000 + 1)
    estimates = np.concatenate(
        [(rows[one] == rows[other]).mean(axis=1) for one, other in (part.T for part in chunks)]
    )
    return {f"datasketch MinHash, ≥ {least}": estimates >= least for least in (0.5, 0.7, 0.8)}


# What each says of pairs of texts, by method.
OF_PAIRS: dict[str, Callable[[list[str], Pairs], dict[str, NDArray[np.bool_]]]] = {
    "clickhouse": lambda texts, pairs: _within(
        "ClickHouse SimHash", ClickHouseUtf8(), texts, pairs
    ),
    "gaoya": _gaoya_pairs,
    "simhash": lambda texts, pairs: _within("simhash", Simhash(), texts, pairs),
    "datasketch": _datasketch_pairs,
}


class IndexContender(Protocol):
    """One index."""

    def load(self, fingerprints: Numbers) -> None:
        """Hold these too."""

    def step(self, fingerprints: Numbers) -> list[int]:
        """Ask for each, then hold it."""


class OurIndex:
    """PermutedIndex, its layout planned for so many documents."""

    def __init__(self, max_distance: int, documents: int) -> None:
        from worker.core.index import PermutedIndex

        self.index = PermutedIndex(max_distance, documents_expected=documents)
        self.index.warm_up()

    def load(self, fingerprints: Numbers) -> None:
        held = len(self.index)
        self.index.insert(fingerprints, np.arange(held, held + len(fingerprints), dtype=np.uint32))

    def step(self, fingerprints: Numbers) -> list[int]:
        found = self.index.query_then_insert(fingerprints, len(self.index))
        return np.where(found.rows < 0, -1, found.distances).tolist()


class FaissFlat:
    """faiss IndexBinaryFlat: a scan with popcounts."""

    def __init__(self, max_distance: int, _documents: int) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index: Any = self.make(faiss, max_distance)
        self.max_distance = max_distance

    def make(self, faiss: Any, _max_distance: int) -> Any:
        return faiss.IndexBinaryFlat(64)

    def load(self, fingerprints: Numbers) -> None:
        self.index.add(_bytes(fingerprints))

    def step(self, fingerprints: Numbers) -> list[int]:
        """The nearest of each, then all added."""
        distances, _ = self.index.search(_bytes(fingerprints), 1)
        self.load(fingerprints)
        return [
            distance if distance <= self.max_distance else -1
            for distance in distances[:, 0].tolist()
        ]


class FaissMultiHash(FaissFlat):
    """
    faiss IndexBinaryMultiHash: four hashes of 16 bits, neighbours within 1 bit where the distance
    needs them.
    """

    def make(self, faiss: Any, max_distance: int) -> Any:
        index = faiss.IndexBinaryMultiHash(64, 4, 16)
        index.nflip = max_distance // 4
        return index

    def step(self, fingerprints: Numbers) -> list[int]:
        """Every match of each, then all added."""
        ends, distances, _ = self.index.range_search(_bytes(fingerprints), self.max_distance + 1)
        self.load(fingerprints)
        pairs = zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        return [int(distances[a:b].min()) if b > a else -1 for a, b in pairs]


class FaissMultiHashInTurn(FaissMultiHash):
    """The same, one by one, so that a document sees the one before it, as with ours."""

    def step(self, fingerprints: Numbers) -> list[int]:
        step = super().step
        return [
            distance for n in range(len(fingerprints)) for distance in step(fingerprints[n : n + 1])
        ]


class OneByOne:
    """An index in Python, that takes values made of fingerprints one after the other."""

    value: Any  # of a fingerprint
    add: Any  # a fingerprint with its value
    near: Any  # the fingerprints that a value finds

    def load(self, fingerprints: Numbers) -> None:
        for fingerprint in fingerprints.tolist():
            self.add(fingerprint, self.value(fingerprint))

    def step(self, fingerprints: Numbers) -> list[int]:
        found = []
        for fingerprint in fingerprints.tolist():
            value = self.value(fingerprint)
            found.append(
                min(((fingerprint ^ other).bit_count() for other in self.near(value)), default=-1)
            )
            self.add(fingerprint, value)
        return found


class GaoyaIndex(OneByOne):
    """
    gaoya's SimHash index, in Rust. Its Python side takes texts only: each fingerprint is told as a
    text of one word.

    So its fingerprints are others than ours, as random; nearness is not kept and recall not told.
    """

    def __init__(self, max_distance: int, _documents: int) -> None:
        from gaoya.simhash import SimHashStringIndex

        self.index = SimHashStringIndex(64, max_distance + 1, max_distance)
        self.size = 0

    def value(self, fingerprint: int) -> Any:
        return str(fingerprint)

    def add(self, fingerprint: int, value: Any) -> None:
        self.index.insert_document(self.size, value)
        self.size += 1

    def near(self, value: Any) -> Iterable[int]:
        self.index.query(value)
        return ()

    def step(self, fingerprints: Numbers) -> list[int]:
        super().step(fingerprints)
        return []


class DatasketchIndex(OneByOne):
    """
    datasketch MinHashLSH, its bands filled with the blocks of the fingerprint; candidates compared
    in full.
    """

    def __init__(self, max_distance: int, _documents: int) -> None:
        from datasketch import MinHash, MinHashLSH

        self.max_distance = max_distance
        widths = np.array(split_bits(max_distance + 1))
        self.shifts = (64 - np.cumsum(widths)).astype(np.uint64)
        self.masks = ((1 << widths.astype(object)) - 1).astype(np.uint64)
        self.lsh = MinHashLSH(num_perm=len(widths), params=(len(widths), 1))
        self.make = MinHash

    def value(self, fingerprint: int) -> Any:
        """The blocks in place of hash values."""
        blocks = (np.uint64(fingerprint) >> self.shifts) & self.masks
        return self.make(num_perm=len(blocks), hashvalues=blocks, scheme="legacy")

    def add(self, fingerprint: int, value: Any) -> None:
        self.lsh.insert(fingerprint, value, check_duplication=False)

    def near(self, value: Any) -> Iterable[int]:
        return self.lsh.query(value)

    def step(self, fingerprints: Numbers) -> list[int]:
        return [
            distance if distance <= self.max_distance else -1
            for distance in super().step(fingerprints)
        ]


class SimhashIndex(OneByOne):
    """1e0ng/simhash, the popular one in pure Python; the name of each is its number."""

    def __init__(self, max_distance: int, _documents: int) -> None:
        from simhash import Simhash as Value
        from simhash import SimhashIndex as Peer

        self.make = Value
        self.index = Peer([], f=64, k=max_distance)

    def value(self, fingerprint: int) -> Any:
        return self.make(fingerprint)

    def add(self, fingerprint: int, value: Any) -> None:
        self.index.add(str(fingerprint), value)

    def near(self, value: Any) -> Iterable[int]:
        return map(int, self.index.get_near_dups(value))


OF_FINGERPRINTS: dict[
    str, Callable[[int, int], IndexContender]
] = {  # by distance, for so many documents
    "neardup": OurIndex,
    "faiss MultiHash": FaissMultiHashInTurn,
    "faiss MultiHash, 500 a call": FaissMultiHash,
    "faiss Flat": FaissFlat,
    "gaoya": GaoyaIndex,
    "datasketch": DatasketchIndex,
    "simhash": SimhashIndex,
}


def _bytes(fingerprints: Numbers) -> NDArray[np.uint8]:
    return fingerprints.view(np.uint8).reshape(-1, 8)
