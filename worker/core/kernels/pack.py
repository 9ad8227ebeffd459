"""Python's strings as the kernels read them, and the columns that they fill."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.core.kernels.batch import END, IS_WIDE, START, Columns, Texts
from worker.core.kernels.machine import SLACK
from worker.core.parameters import Parameters
from worker.core.sketch import BINS, SKETCH
from worker.core.unicode_table import nfc

CHUNK_CHARACTERS = 1 << 20  # copied at once: a call costs 30 µs, and then a wait for the interpreter's lock
_SLACK = bytes(SLACK)
_SLACK_TEXT = _SLACK.decode()
_NO_BYTES = np.frombuffer(_SLACK, np.uint8)  # for reading, like the bytes of a text: else it would be another kernel
_NO_CODES = np.zeros(1, np.uint32)
_NO_TALLIES, _NO_MINIMA = np.empty((0, 0), np.int64), np.empty((0, 0), np.uint64)


def chunks(texts: Sequence[str]) -> Iterator[int]:
    """Where to cut a batch: behind each text with which CHUNK_CHARACTERS are reached, and at the end."""
    characters = 0
    for number, text in enumerate(texts, start=1):
        characters += len(text)
        if characters >= CHUNK_CHARACTERS or number == len(texts):
            yield number
            characters = 0


def pack(texts: Sequence[str], by_byte: bool) -> Texts:
    """
    Texts for a kernel: those in ASCII as bytes, the others as code points, each kind in one buffer.

    Args:
        by_byte: ASCII may go by bytes; False where the unit is a character.

    Cost: O(characters), about 0.3 ns each.
    """
    is_wide = [not (by_byte and text.isascii()) for text in texts]
    narrow = [text for text, wide in zip(texts, is_wide, strict=True) if not wide]
    wide = "".join([text for text, wide in zip(texts, is_wide, strict=True) if wide])
    spans = np.zeros((len(texts), 4), np.uint64)
    lengths = np.array([len(text) for text in texts], np.uint64)
    spans[:, IS_WIDE] = is_wide
    spans[:, END] = np.where(
        is_wide, np.cumsum(lengths * spans[:, IS_WIDE]), np.cumsum(lengths * (1 - spans[:, IS_WIDE]))
    )
    spans[:, START] = spans[:, END] - lengths
    joined = np.frombuffer("".join([*narrow, _SLACK_TEXT]).encode("ascii"), np.uint8)
    return Texts(joined, _code_points(wide), spans)


def pack_one(text: str, by_byte: bool, number: int) -> Texts:
    """
    One text for a kernel; `number` is its list of function words.

    Cost: O(characters), 2 µs at least.
    """
    if by_byte and text.isascii():
        return Texts(_bytes(text), _NO_CODES, np.array([[0, len(text), 0, number]], np.uint64))
    return Texts(_NO_BYTES, _code_points(text), np.array([[0, len(text), 1, number]], np.uint64))


def compose(batch: Texts, rows: NDArray[np.intp]) -> Texts:
    """The texts in these rows, which are code points, in NFC."""
    spans = batch.spans[rows]
    ranges = spans[:, [START, END]].tolist()
    texts = [nfc(batch.wide[begin:end].tobytes().decode("utf-32-le", "surrogatepass")) for begin, end in ranges]
    spans[:, END] = np.cumsum([len(text) for text in texts])
    spans[1:, START], spans[0, START] = spans[:-1, END], 0
    return Texts(batch.narrow, _code_points("".join(texts)), spans)


def widened(texts: Texts) -> Texts:
    """The same texts, all as code points."""
    spans = texts.spans.copy()
    narrow = spans[:, IS_WIDE] == 0
    spans[narrow, START : END + 1] += np.uint64(texts.wide.size)
    spans[:, IS_WIDE] = 1
    return Texts(texts.narrow, np.concatenate([texts.wide, texts.narrow], dtype=np.uint32), spans)


def empty_columns(rows: int, parameters: Parameters, tallies: bool = False) -> Columns:
    """Columns for a kernel to fill."""
    halves = 2 if parameters.bits == 128 else 1
    return Columns(
        np.empty((rows, halves), np.uint64),
        np.empty((rows, halves), np.uint64),
        np.empty((rows, 4), np.uint64),
        np.empty(rows, SKETCH),
        np.empty((rows, 64 * halves), np.int64) if tallies else _NO_TALLIES,
        np.empty((rows, BINS), np.uint64) if tallies else _NO_MINIMA,
    )


def _bytes(text: str) -> NDArray[np.uint8]:
    return np.frombuffer(text.encode("ascii") + _SLACK, np.uint8) if text else _NO_BYTES


def _code_points(text: str) -> NDArray[np.uint32]:
    """NumPy's strings are arrays of code points; surrogates stand in them as they are."""
    return np.array([text]).view(np.uint32) if text else _NO_CODES
