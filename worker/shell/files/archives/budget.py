"""
The budget of one input: what reading it may cost.

The author of a file chooses every byte of it. So the cost of reading must follow from the bytes
that are read, and not from what they claim. Each input gets one `Budget`, and every reader takes
its bytes, values and damage out of it. An input beyond its budget is damage, and the reason names
the value, the bound and the remedy. The other inputs are read.

    what                           at most                                   beyond it
    bytes out of the compressions  OUT_FREE_BYTES, and OUT_PER_BYTE for      the input ends
    and dictionaries of an input   each byte that has been read
    damaged records                DAMAGED_FREE, and one for each document   the input ends
    bytes that are read again      AGAIN_FREE_BYTES, and AGAIN_PER_BYTE for  the input ends
    behind damage                  each byte that has been read
    values of a line or element    VALUES_MAX                                that line is damage
    columns of a table             COLUMNS_MAX                               the table is damage
    bytes of an index of Parquet   INDEX_BYTES_MAX                           the file is damage
    its row groups, their columns  CHUNKS_MAX                                the file is damage
    bytes of a page of Parquet     PAGE_BYTES_MAX, and PAGE_FREE_BYTES plus  the rest is damage
                                   OUT_PER_BYTE for each compressed byte
    bytes of rows of Parquet that  ROWS_BYTES_MAX, or of a dictionary        fewer rows at a time
    are held at once               DICTIONARY_ROWS_BYTES_MAX, or one row

The bounds are far above what honest files need. Deflate makes at most 1,032 bytes of one, and of
text it makes 3 to 30. A line of a million values may hold a text, all of its tokens, and the
embeddings of its sentences. Only an input with several layers of compression, or one that repeats
one thing, reaches a bound.
"""

from __future__ import annotations

import re
from typing import AnyStr

OUT_FREE_BYTES = 64 << 20
OUT_PER_BYTE = 1_100
DAMAGED_FREE = 1_000
AGAIN_FREE_BYTES = 1 << 30  # some hundred large records; a second or less
AGAIN_PER_BYTE = 16
VALUES_MAX = 1_000_000  # each takes 30 to 250 bytes when a line is parsed
COLUMNS_MAX = 100_000
# Of a table of 100 columns and 8,000 row groups, which is read in half a minute.
INDEX_BYTES_MAX = 64 << 20
CHUNKS_MAX = 1_000_000  # with 64 MiB of the smallest ones, Arrow would take 15 GB
PAGE_FREE_BYTES = 64 << 20
PAGE_BYTES_MAX = 512 << 20
ROWS_BYTES_MAX = 32 << 20
DICTIONARY_ROWS_BYTES_MAX = 64 << 20  # if each row had the longest text, which none has

# A value begins behind each of these marks, unless they stand in a string.
_MARKS = (b",", b"[", b"{")
_MARK = re.compile(rb'[^"\[{,]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"?[^"\[{,]*+)*+[\[{,]', re.DOTALL)


class BudgetError(Exception):
    """An input is beyond its budget: it is read up to here. The text is the reason."""


class Budget:
    """
    The part of one input's budget that has been used.

    Attributes:
        bytes_in: bytes of the input that have been read.
        bytes_out: bytes that were made of them.
        bytes_again: bytes that were read again, because a record before them was damaged.
        damaged_left: damaged records that are still reported before the input ends.
        is_spent: whether the input must end, because its bytes become too many.
    """

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_again = 0
        self.damaged_left = DAMAGED_FREE
        self.is_spent = False

    def take_in(self, count: int) -> None:
        """Note that bytes of the input have been read."""
        self.bytes_in += count

    def take_out(self, count: int) -> str | None:
        """
        Take bytes that were made of the input.

        Returns:
            Why the input must end here; None if it is within its budget.
        """
        self.bytes_out += count
        bytes_max = OUT_FREE_BYTES + OUT_PER_BYTE * self.bytes_in
        if self.bytes_out <= bytes_max:
            return None
        self.is_spent = True
        return (
            f"{self.bytes_in:,} bytes become more than {bytes_max:,}, the most that are read of "
            f"them: unpack it, or write it again without repetitions"
        )

    def take_again(self, count: int) -> None:
        """
        Take bytes that are read again behind a damaged record.

        Raises:
            BudgetError: they are too many: lengths of records were made to reach over others.
        """
        self.bytes_again += count
        bytes_max = AGAIN_FREE_BYTES + AGAIN_PER_BYTE * self.bytes_in
        if self.bytes_again > bytes_max:
            raise BudgetError(
                f"lengths of damaged records reach over more than {bytes_max:,} bytes in all: the "
                f"rest of the file is not read. Write it again with the lengths of its records"
            )

    def give_document(self) -> None:
        """Give back, for a document, what one damaged record has taken."""
        self.damaged_left = min(self.damaged_left + 1, DAMAGED_FREE)

    def take_damaged(self) -> None:
        """
        Take one damaged record.

        Raises:
            BudgetError: the input has too many of them.
        """
        self.damaged_left -= 1
        if self.damaged_left < 0:
            raise BudgetError(
                f"more than {DAMAGED_FREE:,} damaged records beyond one for each document: the "
                f"rest of the file is not read. Check its format, its encoding and its columns"
            )


def has_more(pattern: re.Pattern[AnyStr], data: AnyStr, count_max: int) -> bool:
    """
    Return whether a pattern matches more often than that, each time where the last match ended.

    >>> has_more(re.compile("a,"), "a,a,b,a,", 1), has_more(re.compile("a,"), "a,a,b,a,", 2)
    (True, False)
    """
    at = 0
    for _ in range(count_max + 1):
        found = pattern.match(data, at)
        if found is None:
            return False
        at = found.end()
    return True


def check_values(line: bytes) -> None:
    """
    Check that a line or an element of JSON has at most VALUES_MAX values, before it is parsed.

    Raises:
        ValueError: it has more.

    Cost: O(bytes) in C, and a step for each value of a line that has nearly as many marks in all.
    """
    if len(line) <= VALUES_MAX or sum(map(line.count, _MARKS)) <= VALUES_MAX:
        return
    if has_more(_MARK, line, VALUES_MAX):
        raise ValueError(
            f"more than {VALUES_MAX:,} values, the most that a line or an element may have: leave "
            f"out fields that are not text"
        )
