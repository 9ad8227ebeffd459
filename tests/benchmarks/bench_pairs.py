"""
All pairs within a distance of a million and of ten million fingerprints: `make bench-pairs`.

Seconds and the most memory that the whole process ever held, on one core: random fingerprints; a
crawl, where half are 0 to 5 bits away from an earlier one; fingerprints of texts. Each trial has a
process to itself. Written to tests/benchmarks/results: pairs.json, pairs.md.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.common import Figures, ask, flipped, on_one_core, options, reached, table
from tests.benchmarks.index_data import kept_fingerprints
from tests.benchmarks.kept import finish, machine
from worker.core.pairs import all_pairs, clusters

MILLION = 1_000_000
DISTANCE = 3
TRIALS = (
    (MILLION, "random"),
    (MILLION, "crawl"),
    (MILLION, "texts"),
    (10 * MILLION, "random"),
    (10 * MILLION, "crawl"),
)
SECONDS_MAX = {MILLION: 0.5, 10 * MILLION: 4.0}
BYTES_MAX = 0.8e9
PART = 1 << 18
FLIPS_MAX = 5


def fingerprints(data: str, size: int) -> NDArray[np.uint64]:
    """Those that are asked for: `random`, `crawl`, or of a file."""
    if data.endswith(".npy"):
        numbers: NDArray[np.uint64] = np.load(data, mmap_mode="r")[:size].astype(np.uint64)
        return numbers
    dice = np.random.default_rng(1)
    made = dice.integers(0, 2**64, size, dtype=np.uint64)
    for begin in (
        range(size // 2, size, PART) if data == "crawl" else ()
    ):  # part by part: their memory counts, too
        part = made[begin : begin + PART]
        part[:] = flipped(made[dice.integers(0, size // 2, len(part))], FLIPS_MAX, dice)
    return made


def trial(size: int, data: str) -> Figures:
    """Find all pairs, then all clusters, on one core."""
    on_one_core()
    few = fingerprints("random", 1_000)
    list(all_pairs(few, DISTANCE))
    clusters(few, DISTANCE)
    numbers = fingerprints(data, size)
    begun = time.perf_counter()
    pairs = sum(len(found) for found in all_pairs(numbers, DISTANCE))
    seconds = time.perf_counter() - begun
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begun = time.perf_counter()
    groups = len(clusters(numbers, DISTANCE))
    return {
        "pairs": pairs,
        "seconds": seconds,
        "bytes_max": held,
        "clusters": groups,
        "clusters_seconds": time.perf_counter() - begun,
    }


def tables(found: Sequence[Figures]) -> list[str]:
    rows = []
    for one in found:
        size, data, seconds, held = one["size"], one["data"], one["seconds"], one["bytes_max"]
        bar = SECONDS_MAX[size]
        told = (
            f"{size:,} {data}",
            f"{one['pairs']:,}",
            f"{seconds:.2f}",
            f"≤ {bar} {reached(seconds <= bar)}",
        )
        memory = f"{held / 1e9:.2f} GB", f"≤ {BYTES_MAX / 1e9} {reached(held <= BYTES_MAX)}"
        rows.append((*told, *memory, f"{one['clusters']:,}", f"{one['clusters_seconds']:.2f}"))
    head = (
        f"k = {DISTANCE}",
        "pairs",
        "seconds",
        "wanted",
        "memory",
        "wanted",
        "clusters",
        "seconds",
    )
    return table(head, rows)


def main() -> None:
    chosen = options(__doc__, "a million, random").parse_args()
    where = machine()
    found = []
    for size, data in TRIALS[:1] if chosen.quick else TRIALS:
        source = kept_fingerprints(size) if data == "texts" else data
        told = ask("bench_pairs", "trial", size, source)
        found.append({"size": size, "data": data} | told)
        print(found[-1], flush=True)
    finish(chosen, "pairs", {"machine": where, "trials": found}, tables(found))


if __name__ == "__main__":
    main()
