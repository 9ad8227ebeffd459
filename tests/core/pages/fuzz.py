"""
Random pages through the scanner and the selection, with canaries round every buffer that is written.

    python -m tests.core.pages.fuzz [seconds] [seed]
"""

from __future__ import annotations

import random
import sys
import time

import numpy as np
from numpy.typing import NDArray

from worker.core.compiled import kernel
from worker.core.kernels.machine import SLACK
from worker.core.pages import names
from worker.core.pages.batch import extract_pages
from worker.core.pages.characters import REFERENCES
from worker.core.pages.scan import scan
from worker.core.pages.select import select
from worker.core.pages.skeleton import (
    B_END,
    B_NODE,
    B_START,
    BLOCK_COLUMNS,
    BLOCKS,
    N_END,
    N_FIRST,
    N_PARENT,
    NODE_COLUMNS,
    NODES,
    STACK_COLUMNS,
    STACK_MAX,
    STATE_SIZE,
    TITLE_MAX,
    Skeleton,
)

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
def run(page: object, size: object, skeleton: Skeleton) -> object:
    """The bytes of text; what is selected is not looked at."""
    text = scan(np.int64(page.ctypes.data), np.int64(0), size, skeleton)  # type: ignore[attr-defined]
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
        Guarded((tags + 2, BLOCK_COLUMNS), np.int64),
        Guarded((tags + 2, NODE_COLUMNS), np.int64),
        Guarded((TITLE_MAX + TITLE_MAX // 4 + SLACK,), np.uint8),
        Guarded((STACK_MAX, STACK_COLUMNS), np.int64),
        Guarded((256,), np.int64),
        Guarded((STATE_SIZE,), np.int64),
    ]
    skeleton = Skeleton(*(guard.array for guard in guards), REFERENCES)  # type: ignore[arg-type, call-arg]
    data = np.frombuffer(bytearray(page + bytes(SLACK)), np.uint8)
    text = run(data, len(page), skeleton)
    for guard in guards:
        guard.check()
    blocks, nodes = skeleton.blocks[: skeleton.state[BLOCKS]], skeleton.nodes[: skeleton.state[NODES]]
    assert 0 <= text <= len(page) + len(page) // 4 + 1
    assert (blocks[:, B_START] < blocks[:, B_END]).all()
    assert (blocks[:, B_END] <= text).all()
    assert (blocks[:, B_NODE] >= 0).all()
    assert (blocks[:, B_NODE] < len(nodes)).all()
    assert (nodes[1:, N_PARENT] >= 0).all()
    assert (nodes[1:, N_PARENT] < np.arange(1, len(nodes))).all()
    assert (nodes[:, N_FIRST] <= nodes[:, N_END]).all()
    assert (nodes[:, N_END] <= len(blocks)).all()


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


if __name__ == "__main__":
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    end, done = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        fuzz(1_000, first + done)
        done += 1
    print(f"{done * 1_000} pages, none wrote outside its arrays")
