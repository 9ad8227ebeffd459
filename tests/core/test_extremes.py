"""Megabytes of one thing: defined results, and memory bounded by a multiple of the text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPOSITORY

MEGABYTES = 4
# What a fingerprint may need at its peak for a byte of text (UTF-8), the text itself not counted, with one width. A
# token costs some 50 bytes of scratch memory, and a text of words of one letter has one in two bytes.
MEMORY_PER_BYTE_MAX = 30

MEASURE = """
import re, sys
from pathlib import Path
from worker.core.fingerprint import Fingerprinter, Kind

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) << 10

fingerprinter = Fingerprinter()
fingerprinter.batch(["warm", "w\\u00e4rmer", "e\\u0301"])
for expression in sys.argv[1:]:
    text = eval(expression)
    size = len(text.encode())
    Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is this text's
    before = peak()
    batch = fingerprinter.batch([text])
    grown = peak() - before
    assert fingerprinter.one(text) == batch.fingerprints[0]
    print(size, grown, Kind(batch.kinds[0]).name, batch.features[0], batch.fingerprints[0])
"""


def of_size(piece: str) -> str:
    """An expression for a piece repeated to four megabytes."""
    return f"{piece!r} * {(MEGABYTES << 20) // len(piece.encode())}"


ONE_THING: list[tuple[str, str, int]] = [
    ("''", "EMPTY", 0),
    ("'bridge'", "SHORT", 1),
    ("'river ' * 8", "FULL", 1),
    (of_size("river "), "FULL", 1),
    (of_size("река "), "FULL", 1),
    (of_size("川"), "FULL", 1),
    (of_size("a b "), "FULL", 2),
    (of_size("я б "), "FULL", 2),
    (of_size("river"), "SHORT", 1),
    (of_size("e\u0301"), "SHORT", 1),
    (of_size("\u0301\u0316\u0323"), "SHORT", 1),
    (of_size("\u0e48\u0e38"), "SHORT", 1),
    (of_size("\U0001f600\U0001f44d\U0001f3fd\u200d"), "EMPTY", 0),
    (of_size("\x00\x01\x1f\x7f"), "EMPTY", 0),
    (of_size("\u200b\u00ad"), "EMPTY", 0),
    (of_size("\ufdfa"), "SHORT", 1),
]
UNIQUE: list[tuple[str, int]] = [
    ("' '.join(map(str, range(560_000)))", 559_999),
    ("' '.join('\\u0430' + hex(n) for n in range(480_000))", 479_999),
    # each character of one block with each of another, and the other way round
    ("''.join(chr(0x6000 + n // 1900) + chr(0x4e00 + n % 1900) for n in range(700_000))", 1_399_999),
]


class Measured(NamedTuple):
    """What became of a text."""

    bytes: int
    grown: int  # bytes of memory at the peak
    kind: str
    features: int
    fingerprint: int


@pytest.fixture(scope="module")
def measured() -> dict[str, Measured]:
    """Each text fingerprinted in a process of its own that does nothing else."""
    expressions = [text[0] for text in ONE_THING] + [text[0] for text in UNIQUE]
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the peak of a process can't be reset here")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *expressions], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = (line.split() for line in done.stdout.splitlines())
    return {
        expression: Measured(int(size), int(grown), kind, int(features), int(value))
        for expression, (size, grown, kind, features, value) in zip(expressions, rows, strict=True)
    }


@pytest.mark.parametrize(("text", "kind", "features"), ONE_THING)
def test_megabytes_of_one_thing(measured: dict[str, Measured], text: str, kind: str, features: int) -> None:
    """Words, letters, marks, emoji, control characters: the kind and the number of shingles that it must have."""
    found = measured[text]
    assert (found.kind, found.features) == (kind, features)
    assert (kind == "EMPTY") == (found.fingerprint == 0)


@pytest.mark.parametrize(("text", "features"), UNIQUE)
def test_megabytes_of_unique_words(measured: dict[str, Measured], text: str, features: int) -> None:
    """Every shingle is another one, in ASCII, Cyrillic and Han."""
    found = measured[text]
    assert found.kind == "FULL"
    assert found.bytes > 3 << 20
    assert found.features == features


def test_memory_is_bounded_by_a_multiple_of_the_text(measured: dict[str, Measured]) -> None:
    """Whatever the text is made of."""
    multiples = {text: found.grown / found.bytes for text, found in measured.items() if found.bytes > 1 << 20}
    assert len(multiples) > 10
    assert max(multiples.values()) <= MEMORY_PER_BYTE_MAX, multiples


def test_one_repeated_word_is_the_same_at_any_length(measured: dict[str, Measured]) -> None:
    """Megabytes of a word have the fingerprint of eight of it: one shingle, whatever its weight."""
    assert measured[of_size("river ")].fingerprint == measured["'river ' * 8"].fingerprint
