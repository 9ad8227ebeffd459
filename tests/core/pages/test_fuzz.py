"""
A page never harms: nothing is written outside, and every index is within its array.

Random pages go through the scanner and the selection, with canaries round every buffer that is written.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import EXAMPLES
from worker.core.compiled import kernel
from worker.core.kernels.machine import SLACK
from worker.core.pages import names
from worker.core.pages import skeleton as s
from worker.core.pages.batch import extract_pages
from worker.core.pages.characters import REFERENCES
from worker.core.pages.select import select

CANARY = 64  # elements before and behind each array
MARK = 0xA7
BITS = [
    b"<", b"</", b">", b"<!--", b"-->", b"<script>", b"</script>", b"<svg>", b"</svg>", b"<a href=x>", b"</a>", b"<p>",
    b"</p>", b"<li>", b"<table>", b"<td>", b"</div>", b'<div class="ad nav', b'"', b"'", b"=", b"&", b"&amp", b"&nGt;",
    b"&#x", "ä".encode(), "\u00a0".encode(), "文。".encode(), b"\0", b" ", b"<br>", b"<template>", b"<select>",
    b"<title>", b"<![CDATA[", b"]]>", b"<div hidden>", b"<article>", b"word, text. ", b"<b>", b"<span class=ad>",
    b"<frameset>", b"<plaintext>", b"<xmp>", b"<h1>", b"<form>", "𝒜".encode(), b"<desc>", b"<button>", b"<option>",
    b"<input>",
    *(f"<{name}>".encode() for name in sorted(names.TAGS)), *(f"</{name}>".encode() for name in sorted(names.TAGS)),
]  # fmt: skip


class Guarded:
    def __init__(self, shape: tuple[int, ...], kind: type[np.generic]) -> None:
        size = int(np.prod(shape))
        self.whole = np.full(size + 2 * CANARY, MARK, kind)
        self.array: NDArray[np.generic] = self.whole[CANARY : CANARY + size].reshape(shape)

    def check(self) -> None:
        assert (self.whole[:CANARY] == MARK).all(), "written before the array"
        assert (self.whole[self.whole.size - CANARY :] == MARK).all(), "written behind the array"


@kernel
def run(page: object, size: object, skeleton: s.Skeleton) -> object:
    """The bytes of text; what is selected is not looked at."""
    text = s.scan(np.int64(page.ctypes.data), np.int64(0), size, skeleton)  # type: ignore[attr-defined]
    select(skeleton)
    return text


def random_page(rng: random.Random) -> bytes:
    """A page of random bits, well-formed UTF-8."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(400)).decode("utf-8", "replace").encode()
    few = rng.sample(BITS, rng.randrange(1, len(BITS)))
    page = b"".join(rng.choices(few, k=rng.randrange(400)))
    cut = rng.randrange(len(page) + 1) if rng.random() < 0.2 else len(page)
    return page[:cut].decode("utf-8", "ignore").encode()


def check(page: bytes) -> None:
    """A page writes nothing outside its arrays, and its blocks and containers are in order."""
    tags = page.count(b"<")
    guards = [
        Guarded((len(page) + len(page) // 4 + SLACK,), np.uint8),
        Guarded((tags + 2, s.BLOCK_COLUMNS), np.int64),
        Guarded((tags + 2, s.NODE_COLUMNS), np.int64),
        Guarded((s.TITLE_MAX + s.TITLE_MAX // 4 + SLACK,), np.uint8),
        Guarded((s.STACK_MAX, s.STACK_COLUMNS), np.int64),
        Guarded((256,), np.int64),
        Guarded((s.STATE_SIZE,), np.int64),
    ]
    skeleton = s.Skeleton(*(guard.array for guard in guards), REFERENCES)  # type: ignore[arg-type, call-arg]
    data = np.frombuffer(bytearray(page + bytes(SLACK)), np.uint8)
    text = run(data, len(page), skeleton)
    for guard in guards:
        guard.check()
    blocks, nodes = skeleton.blocks[: skeleton.state[s.BLOCKS]], skeleton.nodes[: skeleton.state[s.NODES]]
    assert 0 <= text <= len(page) + len(page) // 4 + 1
    assert (blocks[:, s.B_START] < blocks[:, s.B_END]).all()
    assert (blocks[:, s.B_END] <= text).all()
    assert (blocks[:, s.B_NODE] >= 0).all()
    assert (blocks[:, s.B_NODE] < len(nodes)).all()
    assert (nodes[1:, s.N_PARENT] >= 0).all()
    assert (nodes[1:, s.N_PARENT] < np.arange(1, len(nodes))).all()
    assert (nodes[:, s.N_FIRST] <= nodes[:, s.N_END]).all()
    assert (nodes[:, s.N_END] <= len(blocks)).all()


def fuzz(pages: int, seed: int) -> None:
    """Check so many pages, and that they are the same alone and in a batch."""
    rng = random.Random(seed)
    batch = [random_page(rng) for _ in range(pages)]
    for page in batch:
        try:
            check(page)
        except AssertionError as error:
            raise AssertionError(f"{error} (seed {seed}): {page!r}") from error
    together = extract_pages(batch)
    for number in range(0, pages, 17):
        assert together.text(number) == extract_pages(batch[number : number + 1]).text(0), batch[number]


def test_no_page_writes_outside_its_arrays() -> None:
    """Random pages leave the canaries round every array as they were."""
    fuzz(20 * EXAMPLES, random.randrange(1 << 32))


@pytest.mark.slow
def test_every_index_is_within_its_array(tmp_path: Path) -> None:
    """With numba's checks of bounds compiled in, no random page reads or writes beyond an array's end."""
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    script = "from tests.core.pages.test_fuzz import fuzz; fuzz(400, seed=2)"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
