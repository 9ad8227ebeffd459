"""Real pages, where there are any."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_pages(corpora: Path) -> list[str]:
    """The pages of the corpus, well-formed."""
    path = corpora / "pages" / "articles.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no pages at {path}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["html"].encode("utf-8", "replace").decode() for line in lines]
