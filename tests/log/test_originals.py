"""The store of originals."""

from __future__ import annotations

import numpy as np
import pytest

from worker.core.verdict import Original
from worker.log.originals import Originals
from worker.log.texts import Texts


def test_rows_come_back_as_they_went_in() -> None:
    """Texts of any script, empty ones and lone surrogates, times before 1970 and far ahead."""
    originals = Originals()
    texts = ["a", "", "文書", "\ud800", "x" * 1_000]
    times = [0, -1, 2**62, 1_700_000_000_000, 7]
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    first = Texts.of(encoded[:1])
    assert originals.append(np.array(times, np.int64), Texts.of(encoded), Texts.of(encoded[::-1])) == 0
    assert originals.append(np.array(times[:1], np.int64), first, first) == 5
    for row, (text, url, time) in enumerate(zip(texts, texts[::-1], times, strict=True)):
        assert originals.get(row) == Original(text, url, time)
    assert len(originals) == 6


def test_a_row_that_is_not_there_is_an_error() -> None:
    """Neither a negative row nor one past the end gives an original."""
    originals = Originals()
    for row in (-1, 0):
        with pytest.raises(IndexError):
            originals.get(row)
    with pytest.raises(ValueError, match="columns of one length"):
        originals.append(np.array([1], np.int64), Texts.of([]), Texts.of([]))
