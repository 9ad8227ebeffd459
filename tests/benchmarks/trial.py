"""
One contender, in a process of its own, and on one core where its speed counts.

`of_texts`: its speed on each set of texts, and what it finds again. A speed is that of the best pass
over the texts, in processor time of the whole process; passes go on for some seconds.

`of_pairs`: what it says of pairs of texts. A folder holds texts.json and pairs.npy, a row per pair;
found.npy is written there, a row a method.

`of_fingerprints`: it is loaded to a size, then asked and fed, 500 documents a call. First come
documents that are new, then ones of which half are near a resident. Fingerprints are `random`, or
those of a file. The contender `growth` is ours from nothing to the size, told nothing beforehand.
"""

from __future__ import annotations

import json
import mmap
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import psutil

from tests.benchmarks.common import Figures, flipped, on_one_core, package_of
from tests.benchmarks.contenders import (
    OF_FINGERPRINTS,
    OF_PAIRS,
    OF_TEXTS,
    IndexContender,
    Numbers,
    TextContender,
)

BATCH = 500
OPERATIONS = 100_000  # of each kind
STREAM_S = 3.0  # at most for each kind
CHECKED = 500  # of the second kind, against a scan
COMPARED_MAX = 5 * 10**8  # fingerprints compared by that scan
CHECKED_WHOLE_MAX = 1_000_000  # documents held; the check sorts them all, once a table
LOADS = 50
TOUCHED_MAX = 2 * 10**9  # bytes


def passes(contender: TextContender, texts: list[str], seconds: float) -> float:
    """
    The processor time of the best pass: of one, for a contender that takes longer than the seconds
    for it.
    """
    held = contender.hold(texts)
    best, begun = float("inf"), time.perf_counter()
    while best == float("inf") or time.perf_counter() - begun < seconds:
        before = time.process_time()
        contender.run(held)
        best = min(best, time.process_time() - before)
    return best


def of_texts(name: str, path: str, seconds: float) -> Figures:
    on_one_core()
    contender = OF_TEXTS[name]()
    texts = json.loads(Path(path).read_text(encoding="utf-8"))
    speed = {}
    for kind, chosen in texts["speed"].items():
        spent = passes(contender, chosen, seconds)
        size = sum(len(text.encode()) for text in chosen)
        speed[kind] = {"documents_s": len(chosen) / spent, "mb_s": size / spent / 1e6}
    nearness = {
        kind: contender.nearness(chosen["originals"], chosen["changes"])
        for kind, chosen in texts["quality"].items()
    }
    return {
        "speed": speed,
        "shares": contender.shares(next(iter(texts["speed"].values()))),
        "nearness": nearness,
    }


def of_pairs(name: str, folder: str) -> Figures:
    texts = json.loads(Path(folder, "texts.json").read_text(encoding="utf-8"))
    found = OF_PAIRS[name](texts, np.load(Path(folder, "pairs.npy")))
    np.save(Path(folder, "found.npy"), np.stack(list(found.values())))
    return {"methods": list(found)}


def drawn(data: str, count: int) -> tuple[Numbers, Numbers]:
    """The residents, and as many new ones as are asked."""
    if data == "random":
        numbers = np.random.default_rng(1).integers(0, 2**64, count + OPERATIONS, dtype=np.uint64)
    else:
        numbers = np.load(data)[: count + OPERATIONS].astype(np.uint64)
        if len(numbers) < count + OPERATIONS:
            raise TimeoutError(f"there are {len(numbers):,} fingerprints of texts")
    return numbers[:count], numbers[count:]


def half_near(resident: Numbers, new: Numbers, max_distance: int) -> Numbers:
    """Half new ones, half some bits away from a resident: 0 to k + 2 of them."""
    dice = np.random.default_rng(2)
    copies = flipped(resident[dice.integers(0, len(resident), len(new))], max_distance + 2, dice)
    return np.where(
        dice.random(len(new)) < 0.5, copies, new[::-1] ^ np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    )


def load(contender: IndexContender, resident: Numbers, limit_s: float) -> None:
    """Load in parts, and give up as soon as it is clear that the limit will not do."""
    step = -(-len(resident) // LOADS)
    begun = time.perf_counter()
    for start in range(0, len(resident), step):
        contender.load(resident[start : start + step])
        taken = time.perf_counter() - begun
        expected = taken * len(resident) / min(start + step, len(resident))
        if expected > limit_s and taken > min(2.0, limit_s / 4):
            raise TimeoutError(f"loading would take {expected:,.0f} s")


def timed(
    contender: IndexContender, asked: Numbers, seconds_max: float
) -> Iterator[tuple[float, list[int]]]:
    """
    The processor's seconds of each call, which other load lengthens less, and its answers; up to so
    many in all.
    """
    total = 0.0
    for start in range(0, len(asked), BATCH):
        begun = time.process_time()
        found = contender.step(asked[start : start + BATCH])
        taken = time.process_time() - begun
        yield taken, found
        total += taken
        if total > seconds_max:
            return


def figures(taken: list[float], name: str) -> dict[str, float]:
    """Operations a second; quantiles over calls of a document's share; the longest call."""
    each = np.array(taken) / BATCH * 1e6
    return {
        f"{name}_per_s": len(taken) * BATCH / sum(taken),
        f"{name}_p50_us": float(np.quantile(each, 0.5)),
        f"{name}_p99_us": float(np.quantile(each, 0.99)),
        f"{name}_worst_ms": max(taken) * 1e3,
    }


def touch(count: int) -> None:
    """
    Write so much memory and give it back: a virtual machine gets a page from its host when it is
    first written.

    That took 13 ms for 2 MB where this was measured, and is no index's doing.
    """
    with mmap.mmap(
        -1, min(TOUCHED_MAX, 200 * count)
    ) as memory:  # not the allocator's: it would keep some
        np.frombuffer(memory, np.uint8)[:] = 1


def loaded_and_asked(
    contender: IndexContender, resident: Numbers, new: Numbers, near: Numbers, limit_s: float
) -> tuple[Figures, list[int]]:
    """
    Load a contender, then ask for new ones and for near ones; the figures, and the answers of the
    near ones.
    """
    process = psutil.Process()
    before = process.memory_info().rss
    load(contender, resident, limit_s)
    held = process.memory_info().rss - before
    calls, near_calls = (list(timed(contender, asked, STREAM_S)) for asked in (new, near))
    result: Figures = figures([taken for taken, _ in calls], "new") | figures(
        [taken for taken, _ in near_calls], "near"
    )
    result |= {
        "bytes_each": held / len(resident),
        "operations": (len(calls) + len(near_calls)) * BATCH,
    }
    return result, [distance for _, answers in near_calls for distance in answers]


def trial(name: str, size: int, max_distance: int, data: str, limit_s: float) -> Figures:
    resident, new = drawn(data, size)
    near = half_near(resident, new, max_distance)
    touch(size)
    if name == "growth":
        return growth(resident, max_distance)
    contender = OF_FINGERPRINTS[name](max_distance, size)
    result, found = loaded_and_asked(contender, resident, new, near, limit_s)
    result["recall"] = recall(
        resident, near, found[: min(CHECKED, max(20, COMPARED_MAX // size))], max_distance
    )
    if name == "neardup":
        if size <= CHECKED_WHOLE_MAX:
            contender.index.check()  # type: ignore[attr-defined]
        result["layout"] = contender.index.layout.name  # type: ignore[attr-defined]
    return result


def growth(resident: Numbers, max_distance: int) -> Figures:
    """From nothing to all: the rate over the whole life, and the longest call."""
    contender = OF_FINGERPRINTS["neardup"](max_distance, 0)
    taken = [seconds for seconds, _ in timed(contender, resident, 1e9)]
    return figures(taken, "new") | {"operations": len(resident)}


def recall(resident: Numbers, asked: Numbers, found: list[int], max_distance: int) -> float | None:
    """
    The share of those with a match among the residents for which one as near, or a nearer one, was
    given.
    """
    due = hit = 0
    for fingerprint, distance in zip(asked, found, strict=False):
        nearest = int(np.bitwise_count(resident ^ fingerprint).min())
        if nearest <= max_distance:
            due += 1
            hit += 0 <= distance <= nearest
    return hit / due if due else None


def of_fingerprints(name: str, size: int, max_distance: int, data: str, limit_s: float) -> Figures:
    on_one_core()
    if name in ("neardup directed", "unrelated"):
        # Peers have no numba.
        from tests.benchmarks.index_data import directed_trial  # noqa: PLC0415

        return directed_trial(name, size, limit_s)
    return trial(name, size, max_distance, data, limit_s)


OF: dict[str, Callable[..., Figures]] = {
    "texts": of_texts,
    "pairs": of_pairs,
    "fingerprints": of_fingerprints,
}


def of_contender(kind: str, name: str, *given: object) -> Figures:
    """Return what one contender's trial finds, with the version of its package."""
    package = package_of(name) or "neardup"
    try:
        return {"version": metadata.version(package)} | OF[kind](name, *given)
    except ImportError:  # also of metadata that are not there
        return {"left_out": f"absent: {package} cannot be installed here"}
    except TimeoutError as reason:
        return {"left_out": str(reason)}
