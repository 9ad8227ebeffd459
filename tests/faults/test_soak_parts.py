"""The parts of `make soak`: its bound of memory lets originals grow, and nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.faults.soak import ORIGINAL_BYTES_MAX, WORK_MB_MAX, Sample, documents

EMPTY_MB = 200


@pytest.mark.parametrize(
    ("resident_mb", "originals", "is_within"),
    [
        (EMPTY_MB + WORK_MB_MAX - 1, 0, True),
        (EMPTY_MB + WORK_MB_MAX + 1, 0, False),  # nothing in it, and yet so large
        (EMPTY_MB + WORK_MB_MAX + ORIGINAL_BYTES_MAX - 1, 1 << 20, True),
        (EMPTY_MB + WORK_MB_MAX + ORIGINAL_BYTES_MAX + 1, 1 << 20, False),  # grows faster than its originals
    ],
)
def test_what_originals_and_work_do_not_explain_is_over_the_bound(
    resident_mb: int, originals: int, is_within: bool
) -> None:
    """Per original its bytes, for work a constant."""
    assert (Sample("w1", resident_mb, originals).unexplained_mb(EMPTY_MB) < 0) == is_within


def test_the_documents_are_what_the_soak_says() -> None:
    """Deletions and copies among originals; the same from the same seed."""
    first, again = (list(islice(documents(1, 4_000), 4_000)) for _ in range(2))
    assert first == again
    deleted = sum(value is None for _, value in first)
    texts = Counter(value[value.index(b'"text"') :].split(b'"')[3] for _, value in first if value is not None)
    assert 5 < deleted < 60
    assert 0.75 < len(texts) / len(first) < 0.95
