"""What `neardup rebuild` prints makes a worker of the new deployment: held without Kafka, for every setting."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from worker.settings import Settings
from worker.shell.admin.rebuild import Plan

WORDS = "the\nof\nand\n"


@pytest.mark.parametrize("changed", [{}, {"max_distance": 6, "shingle_widths": (2, 3), "expire_after_s": 60}])
@pytest.mark.parametrize("own_words", [False, True])
def test_the_printed_settings_are_those_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], own_words: bool
) -> None:
    """LoadedSettings in another folder they give the same definition and the same names."""
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text(WORDS)
    settings = Settings(
        worker_id="a",
        state_dir=Path("state"),
        base_snapshot=Path("known"),
        stopwords_file=Path("words.txt") if own_words else None,
        **changed,
    )
    lines = Plan(settings, (), {}, 0).switch()
    monkeypatch.chdir("/")
    loaded = Settings(worker_id="a", **tomllib.loads("\n".join(lines)))
    assert loaded.definition == settings.definition
    assert (loaded.topic_fingerprints, loaded.group) == (settings.topic_fingerprints, settings.group)
    assert (loaded.state_dir, loaded.base_snapshot) == (tmp_path / "state", tmp_path / "known")
