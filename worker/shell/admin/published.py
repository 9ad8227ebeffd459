"""The messages of the topics of answers, as `audit.py` reads them: their places and digests."""

from __future__ import annotations

from typing import NamedTuple

import orjson
import xxhash

from worker.core.document import Verdict
from worker.errors import DocumentError
from worker.shell.messages import decode_dead_letter, decode_verdict, encode_verdict
from worker.shell.ports import Headers

OFFSET_BITS, PARTITION_BITS = 44, 20  # more than any topic has


class AnswerMessage(NamedTuple):
    """One committed message of the verdicts' or the dead letters' topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    is_dead_letter: bool


def checked_place(partition: int, offset: int) -> tuple[int, int]:
    """Return a place that a topic can have; ValueError: a number of another program."""
    if not (0 <= partition < 1 << PARTITION_BITS and 0 <= offset < 1 << OFFSET_BITS):
        raise ValueError(f"no topic has an offset {offset} of a partition {partition}")
    return partition, offset


def place_of(published: AnswerMessage) -> tuple[int, int] | None:
    """Return partition and offset of the document that an answer is to; None: it is no answer."""
    try:
        if published.is_dead_letter:
            letter = decode_dead_letter(published.key, published.value, published.headers)
            return checked_place(letter.source_partition, letter.source_offset)
        source = orjson.loads(published.value or b"")["source"]
        return checked_place(int(source["partition"]), int(source["offset"]))
    except (DocumentError, ValueError, KeyError, TypeError, OverflowError):
        return None


def digest(key: bytes | None, value: bytes | None) -> int:
    """Return 64 bits of a verdict's message, never 0, which stands for "none is expected"."""
    return xxhash.xxh3_64_intdigest(b"%b\0%b" % (key or b"", value or b"")) or 1


def digest_again(published: AnswerMessage) -> int:
    """
    Return a digest of a verdict's content. The order and the spelling of its fields do not change
    it.
    """
    try:
        verdict: Verdict = decode_verdict(published.value or b"")
    except DocumentError:
        return 0
    key, value = encode_verdict(verdict)
    return digest(published.key, value) if key == published.key else 0
