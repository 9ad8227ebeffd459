"""Commands on a cluster where there is none."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.cli.test_options_used import ON_A_CLUSTER
from worker.cli import app
from worker.cli import options as cluster
from worker.errors import StopError

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("command", [*ON_A_CLUSTER, "rebuild", "demo"])
def test_a_command_does_not_wait_long_and_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Three seconds, here half a one, in which a terminal shows whom it asks."""
    monkeypatch.setattr(cluster, "WAIT_S", 0.5)
    monkeypatch.setenv("NEARDUP_BOOTSTRAP", NOBODY)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "in.jsonl").write_text("{}\n")
    given = {"demo": ["--documents", "10"]}.get(command) or ON_A_CLUSTER.get(command, [])
    files = {"file": tmp_path / "in.jsonl", "page": tmp_path / "page", "topic": "t"}
    arguments = [*command.split(), *(argument.format(**files) for argument in given)]
    result = CliRunner().invoke(app, arguments, env={"FORCE_COLOR": "1"})
    assert isinstance(result.exception, StopError)
    assert f"no answer from {NOBODY} in 0.5 s (" in str(result.exception)
    assert "refused" in str(result.exception) and "). Start a broker" in str(result.exception)
    assert f"asking {NOBODY}" in result.stderr
