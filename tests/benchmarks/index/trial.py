"""
One trial: a contender is loaded to a size, then asked and fed in batches of 500. It has a process to itself.

    python -m tests.benchmarks.index.trial CONTENDER SIZE K DATA LIMIT_S        prints one line of JSON
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.benchmarks.index.contenders import Contender, Numbers, make

BATCH = 500
OPERATIONS = 200_000
STREAM_S = 4.0
CHECKED = 1_000  # of the first batches, against a scan
LOADS = 50


def fingerprints(data: str, count: int) -> Numbers:
    """Random ones; or those of passages of real texts, 60 words long, as many as there are."""
    if data == "random":
        return np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)
    kept = Path(data)
    numbers: Numbers = np.load(kept)[:count].astype(np.uint64)
    return numbers


def stream(resident: Numbers, max_distance: int) -> Numbers:
    """Half new ones, half some bits away from a resident: 0 to k + 2 of them."""
    dice = np.random.default_rng(2)
    near = resident[dice.integers(0, len(resident), OPERATIONS)]
    flips = dice.integers(0, max_distance + 3, OPERATIONS)
    for number in range(max_distance + 2):
        bit = np.uint64(1) << dice.integers(0, 64, OPERATIONS, dtype=np.uint64)
        near = np.where(number < flips, near ^ bit, near)
    return np.where(dice.random(OPERATIONS) < 0.5, near, dice.integers(0, 2**64, OPERATIONS, dtype=np.uint64))


def load(contender: Contender, resident: Numbers, limit_s: float) -> list[float]:
    """Load in parts, and give up as soon as it is clear that the limit will not do. Gives the parts' seconds."""
    times: list[float] = []
    name = type(contender).__name__
    step = BATCH if name == "Ours" else -(-len(resident) // LOADS)
    begun = time.perf_counter()
    for start in range(0, len(resident), step):
        before = time.perf_counter()
        contender.load(resident[start : start + step])
        now = time.perf_counter()
        times.append(now - before)
        expected = (now - begun) * len(resident) / min(start + step, len(resident))
        if expected > limit_s and now - begun > min(2.0, limit_s / 4):
            raise TimeoutError(f"loading would take {expected:.0f} s, the limit is {limit_s:.0f} s")
    return times


def trial(name: str, size: int, max_distance: int, data: str, limit_s: float) -> dict[str, Any]:
    """Measure one contender."""
    resident = fingerprints(data, size)
    if len(resident) < size:
        raise TimeoutError(f"there are {len(resident):,} fingerprints of real texts")
    asked = stream(resident, max_distance)
    contender = make(name, max_distance)
    process = psutil.Process()
    before = process.memory_info().rss
    times = load(contender, resident, limit_s)
    held = process.memory_info().rss - before
    taken: list[float] = []
    found: list[int] = []
    for start in range(0, OPERATIONS, BATCH):
        batch = asked[start : start + BATCH]
        begun = time.perf_counter()
        answers = contender.step(batch)
        taken.append(time.perf_counter() - begun)
        if len(found) < CHECKED:
            found += answers
        if sum(taken) > STREAM_S:
            break
    each = np.array(taken) / BATCH * 1e6
    result: dict[str, Any] = {
        "ops_per_s": len(taken) * BATCH / sum(taken),
        "p50_us": float(np.quantile(each, 0.5)),
        "p99_us": float(np.quantile(each, 0.99)),
        "worst_batch_ms": max(taken) * 1e3,
        "bytes_each": held / size,
        "operations": len(taken) * BATCH,
        "recall": recall(resident, asked[: len(found)], found, max_distance),
    }
    if name == "neardup":
        result["growth_per_s"] = size / sum(times)
        result["growth_worst_batch_ms"] = max(times) * 1e3
        result["layout"] = contender.index.layout.name  # type: ignore[attr-defined]
    return result


def recall(resident: Numbers, asked: Numbers, found: list[int], max_distance: int) -> float | None:
    """The share of those with a match among the residents for which one as near, or a nearer one, was given."""
    due = hit = 0
    for fingerprint, distance in zip(asked[:CHECKED:5], found[:CHECKED:5], strict=True):
        nearest = int(np.bitwise_count(resident ^ fingerprint).min())
        if nearest <= max_distance:
            due += 1
            hit += 0 <= distance <= nearest
    return hit / due if due else None


def main() -> None:
    """Measure, print."""
    name, size, max_distance, data, limit_s = sys.argv[1:6]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        result = trial(name, int(size), int(max_distance), data, float(limit_s))
    except TimeoutError as reason:
        result = {"left_out": str(reason)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
