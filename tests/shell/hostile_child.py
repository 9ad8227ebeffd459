"""A page process whose extractor does what the page's text tells it to: the tests' hostile pages."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Sequence

import numpy as np
import xxhash

from worker.core.document import Document
from worker.core.extract import Extracted, PageLimits, Skipped, extract
from worker.shell.page_child import serve


class DigestFingerprinter:
    """Stands in for the fingerprinter: every number is the XXH64 of the text."""

    def batch(self, texts: Sequence[str], languages: Sequence[str | None] | None = None) -> tuple[np.ndarray, ...]:
        """Give digests as fingerprints."""
        digests = np.array([xxhash.xxh64_intdigest(text.encode()) for text in texts], np.uint64)
        return digests, np.full(len(texts), 7, np.uint32), digests, np.full(len(texts), 2, np.uint8)

    def warm_up(self) -> None:
        """Nothing to load."""


def hostile(document: Document, limits: PageLimits) -> Extracted | Skipped:
    """Do what the text orders, else extract."""
    text = document.body if isinstance(document.body, str) else ""
    if text.startswith("crash"):
        ctypes.string_at(0)
    if text.startswith("exit"):
        os._exit(3)
    if text.startswith("hang"):
        while True:
            time.sleep(60)
    if text.startswith("spin"):
        while True:
            pass
    if text.startswith("eat slowly"):
        hoard: list[bytes] = []
        while True:
            hoard.append(b"\1" * (len(hoard) + (1 << 20)))
            time.sleep(0.001)
    if text.startswith("eat at once"):
        np.ones(1 << 33, np.uint8)
    if text.startswith("babble"):
        os.write(1, b"not a frame, but stdout of a chatty library\n")
    if text.startswith("panic"):
        raise BaseException("as a panic of the parser does")  # noqa: TRY002
    if text.startswith("slow"):
        time.sleep(0.3)
    return extract(document, limits)


if __name__ == "__main__":
    if "--never-ready" in sys.argv:
        sys.exit("cannot start: no kernels here")
    serve(hostile, DigestFingerprinter())
