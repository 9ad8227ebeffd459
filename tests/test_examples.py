"""The programs of deploy/examples do what they say, as a user runs them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import neardup
import pandas

from tests.cli.test_dedup import ARTICLE
from tests.conftest import REPOSITORY

EXAMPLES = REPOSITORY / "deploy" / "examples"
OTHER = "Nobody in the harbour has seen the ferry since the morning, and the office of the port says that it is late."
LINES_MAX = 40


def run(folder: Path, name: str, *arguments: str) -> str:
    """Run an example to its end; give what it said."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_example_is_short() -> None:
    """Each fits on a page."""
    lengths = {path.name: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert len(lengths) == 2
    assert {name for name, length in lengths.items() if length > LINES_MAX} == set()


def test_a_data_frame_keeps_its_columns_and_loses_its_copies(tmp_path: Path) -> None:
    """The copy is named with its original; a row without a text is no document."""
    rows = {
        "url": ["https://a.example/", "https://b.example/", "https://c.example/", "https://d.example/"],
        "fetched_at": ["2026-01-02T03:04:05Z"] * 4,
        "text": [ARTICLE, OTHER, ARTICLE.upper(), None],
        "author": ["Ada", "Bo", "Cy", "Di"],
    }
    pandas.DataFrame(rows).to_csv(tmp_path / "articles.csv")
    said = run(tmp_path, "data_frame.py", "articles.csv")
    assert "https://c.example/ https://a.example/         1.0" in said
    assert list(pandas.read_csv(tmp_path / "kept.csv").author) == ["Ada", "Bo"]
    assert len(neardup.Deduplicator.load(tmp_path / "articles.ndsnap")) == 2


def wet(*texts: str) -> bytes:
    """Return a WET file, each record a member."""
    return b"".join(
        gzip.compress(
            b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:uuid:%08d-0000-0000-0000-000000000000>\r\n"
            b"WARC-Date: 2024-05-01T12:00:00Z\r\nWARC-Target-URI: https://example.org/%d\r\n"
            b"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
            % (number, hash(text) % 1_000, len(text.encode()), text.encode())
        )
        for number, text in enumerate(texts)
    )


def test_common_crawls_texts_are_kept_once_over_two_runs(tmp_path: Path) -> None:
    """The second run knows what the first kept; damage is named."""
    (tmp_path / "one.warc.wet.gz").write_bytes(wet(ARTICLE, OTHER, ARTICLE + " "))
    (tmp_path / "two.warc.wet.gz").write_bytes(wet(OTHER.upper(), "A third text that nobody has read before.") + b"x")
    assert "'new': 2, 'duplicate': 1" in run(tmp_path, "common_crawl.py", "kept.jsonl", "one.warc.wet.gz")
    said = run(tmp_path, "common_crawl.py", "kept.jsonl", "two.warc.wet.gz")
    assert "damaged: two.warc.wet.gz" in said
    assert "3 originals known" in said
    kept = [json.loads(line)["text"] for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert kept == [ARTICLE, OTHER, "A third text that nobody has read before."]
