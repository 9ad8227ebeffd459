"""`neardup warm-up` runs every kernel and says where their machine code is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from worker.cli import app
from worker.core import warm

REPOSITORY = Path(__file__).resolve().parents[2]


def test_it_says_where_the_code_is_kept() -> None:
    """The directory that `cache_directory` names."""
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0, result.output
    assert "kernels ready in" in result.output
    assert "__pycache__" in result.output or "kept in" in result.output


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    """What a worker, dedup and the searches run was compiled by the command: an image for reading needs no more."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def kept(*arguments: str, text: str = "") -> set[str]:
        subprocess.run(
            [sys.executable, "-m", "worker", *arguments], env=environment, check=True, input=text.encode(),
            stdout=subprocess.DEVNULL, cwd=REPOSITORY,
        )  # fmt: skip
        return {path.name for path in tmp_path.rglob("*.nbc")}

    compiled = kept("warm-up")
    crawl = tmp_path / "crawl.warc.gz"
    kept("sample-crawl", "--documents", "300", "--seed", "1", str(crawl))
    numbers = "".join(f"{number * 0x9E3779B97F4A7C15 % 2**64}\n" for number in range(20_000))
    assert kept("dedup", "--threads", "1", str(crawl)) == compiled
    assert kept("find-all", text=numbers) == compiled
    assert kept("find-clusters", text=numbers) == compiled


def test_it_says_that_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy."""
    monkeypatch.setattr(warm, "cache_directory", lambda _function: None)
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0, result.output
    assert "in memory only" in result.output
    assert "Set NUMBA_CACHE_DIR" in result.output
