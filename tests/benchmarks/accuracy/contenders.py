"""
What the peers say of pairs of texts: `python -m tests.benchmarks.accuracy.contenders NAME FOLDER`.

FOLDER holds texts.json and pairs.npy, a row per pair; found.npy is written there, a row a method, and one line of JSON
comes out with the methods' names. Shingles are of three words wherever a peer lets one choose, which is also what the
labels were made with.
"""

# Peers come without types, and only the one that is asked is imported.
# mypy: disable-error-code="import-not-found,import-untyped,no-any-return"
# ruff: noqa: PLC0415

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.fingerprint.contenders import ClickHouseUtf8, Simhash

PERMUTATIONS = 128
Found = dict[str, Any]
Pairs = NDArray[np.int64]  # [n, 2]


def clickhouse(texts: list[str], pairs: Pairs) -> Found:
    """wordShingleSimHashCaseInsensitiveUTF8, words by three, as it is by default."""
    return _within("ClickHouse SimHash", ClickHouseUtf8(), texts, pairs, (3, 6, 8))


def simhash(texts: list[str], pairs: Pairs) -> Found:
    """The simhash package, as it is by default."""
    return _within("simhash", Simhash(), texts, pairs, (3, 6, 8))


def _within(name: str, contender: Any, texts: list[str], pairs: Pairs, distances: tuple[int, ...]) -> Found:
    made = np.array(contender.run(contender.hold(texts)), np.uint64)
    one, other = pairs.T
    differ = np.bitwise_count(made[one] ^ made[other])
    return {f"{name}, k = {distance}": differ <= distance for distance in distances}


def gaoya(texts: list[str], pairs: Pairs) -> Found:
    """gaoya's SimHash index, words by three: each text asked for, of its own and its best distance."""
    from gaoya.simhash import SimHashStringIndex

    found: Found = {}
    for distance in (3, 6):
        index = SimHashStringIndex(64, distance + 1, distance, analyzer="word", lowercase=True, ngram_range=(3, 3))
        for number, text in enumerate(texts):
            index.insert_document(number, text)
        answers = {other: set(index.query(texts[other])) for other in np.unique(pairs[:, 1]).tolist()}
        found[f"gaoya, k = {distance}"] = np.array([one in answers[other] for one, other in pairs.tolist()], np.bool_)
    return found


def datasketch(texts: list[str], pairs: Pairs) -> Found:
    """datasketch's MinHash of 128 permutations, 512 bytes per document, over words by three."""
    from datasketch import MinHash

    rows = np.zeros((len(texts), PERMUTATIONS), np.uint32)  # hashes of 32 bits
    for number in np.unique(pairs).tolist():
        words = texts[number].lower().split()
        shingles = {" ".join(words[at : at + 3]).encode() for at in range(max(1, len(words) - 2))}
        one = MinHash(num_perm=PERMUTATIONS)
        one.update_batch(sorted(shingles))
        rows[number] = one.hashvalues
    chunks = np.array_split(pairs, len(pairs) // 100_000 + 1)
    estimates = np.concatenate([(rows[one] == rows[other]).mean(axis=1) for one, other in (part.T for part in chunks)])
    return {f"datasketch MinHash, ≥ {least}": estimates >= least for least in (0.5, 0.7, 0.8)}


CONTENDERS: dict[str, Callable[[list[str], Pairs], Found]] = {
    "clickhouse": clickhouse,
    "gaoya": gaoya,
    "simhash": simhash,
    "datasketch": datasketch,
}
PACKAGES = {"clickhouse": "chdb", "gaoya": "gaoya", "simhash": "simhash", "datasketch": "datasketch"}


def main() -> None:
    """Answer for one peer."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    try:
        version = metadata.version(PACKAGES[name])
    except metadata.PackageNotFoundError:
        print(json.dumps({"left_out": f"absent: {PACKAGES[name]} cannot be installed here"}))
        return
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    found = CONTENDERS[name](texts, np.load(folder / "pairs.npy"))
    np.save(folder / "found.npy", np.stack(list(found.values())))
    print(json.dumps({"version": version, "methods": list(found)}))


if __name__ == "__main__":
    main()
