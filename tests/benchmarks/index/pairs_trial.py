"""
One trial of all pairs: seconds and the most memory that the whole process ever held. It has a process to itself.

    python -m tests.benchmarks.index.pairs_trial SIZE K DATA        prints one line of JSON

DATA: `random`; `crawl`, where half are 0 to 5 bits away from one of the others; or a file of fingerprints.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.core.pairs import all_pairs, clusters

PART = 1 << 18
FLIPS_MAX = 5


def fingerprints(data: str, size: int) -> NDArray[np.uint64]:
    """Those that are asked for."""
    dice = np.random.default_rng(1)
    if data == "random":
        return dice.integers(0, 2**64, size, dtype=np.uint64)
    if data != "crawl":
        numbers: NDArray[np.uint64] = np.load(data, mmap_mode="r")[:size].astype(np.uint64)
        if len(numbers) < size:
            raise ValueError(f"{data} has {len(numbers)} fingerprints, {size} are asked for")
        return numbers
    made = dice.integers(0, 2**64, size, dtype=np.uint64)
    for begin in range(size // 2, size, PART):  # part by part: the memory of this counts, too
        part = made[begin : begin + PART]
        part[:] = made[dice.integers(0, size // 2, len(part))]
        flips = dice.integers(0, FLIPS_MAX + 1, len(part))
        for number in range(FLIPS_MAX):
            part ^= np.where(number < flips, np.uint64(1) << dice.integers(0, 64, len(part), dtype=np.uint64), 0)
    return made


def trial(size: int, max_distance: int, data: str) -> dict[str, Any]:
    """Find all pairs, then all clusters."""
    few = fingerprints("random", 1_000)
    list(all_pairs(few, max_distance))
    clusters(few, max_distance)
    numbers = fingerprints(data, size)
    begun = time.perf_counter()
    pairs = sum(len(found) for found in all_pairs(numbers, max_distance))
    seconds = time.perf_counter() - begun
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begun = time.perf_counter()
    groups = len(clusters(numbers, max_distance))
    return {
        "pairs": pairs,
        "seconds": seconds,
        "bytes_max": held,
        "clusters": groups,
        "clusters_seconds": time.perf_counter() - begun,
        "clusters_bytes_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main() -> None:
    """Measure, print."""
    size, max_distance, data = sys.argv[1:4]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(trial(int(size), int(max_distance), data)))


if __name__ == "__main__":
    main()
