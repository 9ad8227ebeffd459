"""Megabytes of one thing: defined results, and memory bounded by a multiple of the text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    print(Kind(batch.kinds[0]).name, batch.features[0], batch.fingerprints[0], grown / (size or 1))
"""


def of_size(piece: str) -> str:
    """An expression for a piece repeated to four megabytes."""
    return f"{piece!r} * {(MEGABYTES << 20) // len(piece.encode())}"


SHORT_ONES = {"''": ("EMPTY", 0), "'bridge'": ("SHORT", 1), "'river ' * 8": ("FULL", 1)}
LONG_ONES = {
    **{of_size(piece): ("FULL", 1) for piece in ("river ", "река ", "川")},
    **{of_size(piece): ("FULL", 2) for piece in ("a b ", "я б ")},
    **{of_size(piece): ("SHORT", 1) for piece in ("river", "e\u0301", "\u0301\u0316\u0323", "\u0e48\u0e38", "\ufdfa")},
    **{
        of_size(piece): ("EMPTY", 0)
        for piece in ("\U0001f600\U0001f44d\U0001f3fd\u200d", "\x00\x01\x1f\x7f", "\u200b\u00ad")
    },
    # each shingle is another one, in ASCII, Cyrillic and Han: of two blocks each character with each of the other
    "' '.join(map(str, range(560_000)))": ("FULL", 559_999),
    "' '.join('\\u0430' + hex(n) for n in range(480_000))": ("FULL", 479_999),
    "''.join(chr(0x6000 + n // 1900) + chr(0x4e00 + n % 1900) for n in range(700_000))": ("FULL", 1_399_999),
}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of a process can't be reset here")
def test_megabytes_of_one_thing_and_of_many() -> None:
    """Each text has the kind and number of shingles that it must have, and needs memory for a multiple of its size."""
    expected = SHORT_ONES | LONG_ONES
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *expected], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = dict(zip(expected, map(str.split, done.stdout.splitlines()), strict=True))
    assert {text: (kind, int(features)) for text, (kind, features, *_) in found.items()} == expected
    assert all((kind == "EMPTY") == (value == "0") for kind, _, value, _ in found.values())
    assert found[of_size("river ")][2] == found["'river ' * 8"][2]  # one shingle, whatever its weight
    assert {text: found[text][3] for text in LONG_ONES if float(found[text][3]) > MEMORY_PER_BYTE_MAX} == {}
