"""
Rows that meet often: few doc_ids, blocks and pages, for histories that are drawn.

`DRAWN` draws what decides a row, and a test makes rows of it by `drawn_row`.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st

from tests.log.test_replica import MARKS
from worker.log.record import Row, RowKind

_DICE = random.Random(5)
BLOCKS = [_DICE.getrandbits(16) for _ in range(3)]
PAGES = [_DICE.getrandbits(512) for _ in range(3)]  # no two are alike


def drawn_row(
    offset: int,
    doc_id: str,
    blocks: int,
    page: int,
    kind: RowKind = RowKind.FULL,
    url: str = "",
    mark: int = 0,
) -> Row:
    """Return a row with one of three values in each block (base 3), and one of the pages' sketches."""
    fingerprint = sum(BLOCKS[blocks // 3**block % 3] << 16 * block for block in range(4))
    digest = page if kind == RowKind.SHORT else blocks * 3 + page
    return Row(offset, kind, doc_id, url, 0, fingerprint, digest, 9, sketch=PAGES[page], mark=mark)


# Of a row the doc_id, blocks, page, kind, mark, and how far before it the row stands that comes again.
DRAWN = st.tuples(
    st.integers(0, 11),
    st.integers(0, 80),
    st.integers(0, 2),
    st.sampled_from([RowKind.FULL] * 4 + [RowKind.SHORT, RowKind.DELETED]),
    st.sampled_from(MARKS),
    st.sampled_from([0, 0, 0, 1, 2, 5]),
)
