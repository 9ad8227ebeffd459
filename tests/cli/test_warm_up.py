"""`neardup warm-up` runs every kernel and says where their machine code is."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from worker.cli import app
from worker.shell.runtime import kernels


def test_it_says_where_the_code_is_kept() -> None:
    """The directory that `cache_directory` names."""
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0, result.output
    assert "kernels ready in" in result.output
    assert "__pycache__" in result.output or "kept in" in result.output


def test_it_says_that_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy."""
    monkeypatch.setattr(kernels, "kept_in", lambda: None)
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0, result.output
    assert "in memory only" in result.output
    assert "Set NUMBA_CACHE_DIR" in result.output
