"""The help of every command fits a screen of 40 lines and 100 columns, and cuts nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from tests.cli.program import run
from worker.cli import PANELS, app
from worker.shell.runtime import kernels


def _commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, *path, name)


COMMANDS = list(_commands(get_command(app)))


def shown(*path: str) -> list[str]:
    """Return the lines of a command's help."""
    return run(*path, "--help", COLUMNS="100", TERMINAL_WIDTH="100").stdout.splitlines()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_fits_a_screen(path: tuple[str, ...]) -> None:
    """40 lines of 100 columns; nothing ends in dots, no type of Python's is named."""
    lines = shown(*path)
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if re.search(r"(…|\.\.\.) *│$|<\w+", line)]


def test_every_command_has_its_panel_and_a_line() -> None:
    """A new command is to be added to PANELS, with a summary that fits."""
    rows = [line.split("│")[1] for line in shown() if line.startswith("│")]
    named = [row.split()[0] for row in rows if not row.startswith(" --")]
    assert named == [name for names in PANELS.values() for name in names]


def test_brackets_are_shown_as_they_are() -> None:
    """Defaults and shapes stand in brackets, which a markup would take for its own."""
    assert "[doc_id or fingerprint, bits that differ]" in " ".join(shown("nearest"))
    assert "[default: the host name]" in " ".join(shown("worker"))


def test_what_is_seldom_set_is_an_option_all_the_same() -> None:
    """The help has no room for all; `neardup settings --describe` has."""
    assert "--batch-wait-ms" not in " ".join(shown("worker"))
    assert run("settings", "--batch-wait-ms", "50", "--changed").stdout == "batch_wait_ms = 50  # ms; flag\n"


def test_warm_up_says_where_the_code_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory that `cache_directory` names; that nothing can be kept, with the remedy."""
    said = run("warm-up").output
    assert "kernels ready in" in said and ("__pycache__" in said or "kept in" in said)
    monkeypatch.setattr(kernels, "kept_in", lambda: None)
    said = run("warm-up").output
    assert "in memory only" in said and "Set NUMBA_CACHE_DIR" in said
