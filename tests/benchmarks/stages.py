"""
Where a fingerprint's time goes: each stage of the kernel, in ns per token.

The stages are those of `fingerprint_batch`, in its order, up to one that is named. What a stage takes
is the time up to it, less the time up to the one before: of each the best pass, in processor time.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.caching import NullCache

from tests.benchmarks.common import on_one_core
from worker.core.compiled import kernel
from worker.core.fingerprint import Fingerprinter, _empty_columns, _pack
from worker.core.kernels import fingerprint as kernels
from worker.core.kernels.sketch import NO_HASH, add_sketch, find_numbers, pack_minima
from worker.core.kernels.tally import doubt_rule, doubts, settle, signs
from worker.core.kernels.tokens import TOKEN_LANES, token_hashes, xxh64
from worker.core.sketch import BITS

U = np.uint64
STAGES = (
    "code points",  # Python's strings to the arrays that kernels read
    "tokens",
    "hashes",
    "election",
    "shingles",
    "occurrences",
    "tally",
    "doubts",
    "sketch",
)
TOKENS, HASHES, ELECTION, SHINGLES, OCCURRENCES, TALLY, DOUBTS, SKETCH = range(1, len(STAGES))


@kernel
def _to_stage(texts: Any, points: Any, rules: Any, anchors: Any, columns: Any, last: Any) -> Any:
    """Do what `fingerprint_batch` does, up to stage `last`; returns the number of tokens."""
    token_room = kernels._token_room(texts.spans)
    out, edges, kinds, _ = token_room
    room = U(out.size)
    hashes = np.empty(room + U(TOKEN_LANES), np.uint64)
    numbers = np.empty(room + U(1), np.uint32)
    scratch = kernels._scratch(room, U(1))
    product, _, anchored, with_anchor, without, counting, _, _, sizes, pairs = scratch
    tally = np.empty(64, np.int64)
    minima = np.empty(BITS, np.uint32)
    tokens = U(0)
    for d in range(columns.about.shape[0]):
        count, _, characters = kernels._scan(texts, d, True, points, token_room)
        tokens += count
        if last == TOKENS:
            continue
        token_hashes(out, edges, count, hashes, product, counting[1])
        columns.about[d, kernels.DIGEST] = xxh64(hashes, U(0), count << U(3))
        number_count = find_numbers(product, count, numbers)
        if last == HASHES:
            continue
        kernels._find_anchors(hashes, count, anchors, texts.spans[d, kernels.LIST], scratch)
        if last == ELECTION:
            continue
        kernels._make_shingles(hashes, count, rules, scratch)
        if last == SHINGLES:
            continue
        if last == OCCURRENCES:
            settle(with_anchor, sizes[0], rules.term_frequency, product, counting)
            settle(without, sizes[1], rules.term_frequency, product, counting)
            continue
        tally[:] = 0
        kernels._add_shingles(rules, np.int64(1), scratch, tally)
        if last == TALLY:
            continue
        shift, limit = doubt_rule(tally, rules.bits)
        columns.fingerprints[d, 0] = signs(tally)
        columns.doubts[d, 0] = doubts(tally, shift, limit)
        if last == DOUBTS:
            continue
        minima[:] = NO_HASH
        marks = (kinds, numbers[:number_count])
        add_sketch(hashes, pairs, marks, characters, count, False, (product, anchored), minima)
        pack_minima(minima, columns.sketches[d])
    return tokens


_to_stage._cache = NullCache()  # it would not see that this file has changed


def prepared(texts: list[str]) -> Callable[[int], tuple[int, kernels.Columns]]:
    """
    Return what takes these texts, which need no composing, up to a stage, and returns how many
    tokens they have and what the kernel wrote.
    """
    fingerprinter = Fingerprinter()
    batch = _pack(texts, by_byte=True)
    batch.spans[:, kernels.LIST] = fingerprinter._unnamed
    columns = _empty_columns(len(texts), fingerprinter.parameters.bits)
    given = batch, fingerprinter._points, fingerprinter._rules, fingerprinter._anchors, columns
    return lambda stage: (int(_to_stage(*given, stage)), columns)


def measured(texts: list[str], rounds: int) -> dict[str, float]:
    """Return what each stage takes, in ns per token."""
    run = prepared(texts)
    tokens, _ = run(SKETCH)  # compiles
    best = [float("inf")] * len(STAGES)
    for _ in range(rounds):
        for stage in range(len(STAGES)):
            begun = time.process_time_ns()
            if stage == 0:
                _pack(texts, by_byte=True)
            else:
                run(stage)
            best[stage] = min(best[stage], time.process_time_ns() - begun)
    before = [0.0, 0.0, *best[1:-1]]  # the kernel begins with the second stage
    return {
        name: (up_to - less) / tokens
        for name, up_to, less in zip(STAGES, best, before, strict=True)
    }


def pieces(texts: list[str], size: int, dice: random.Random) -> str:
    """Return a text of so many bytes, put together from these pieces."""
    found = ""
    while len(found.encode()) < size:
        text = dice.choice(texts)
        begin = dice.randrange(len(text))
        found += text[begin : begin + dice.randrange(5, 40)] + " "
    return found


def of_texts(path: str, rounds: int) -> dict[str, dict[str, float]]:
    """Return what each stage takes of each set of texts in a file, on one core."""
    on_one_core()
    sets: Mapping[str, list[str]] = json.loads(Path(path).read_text(encoding="utf-8"))
    return {name: measured(texts, rounds) for name, texts in sets.items()}
