"""The settings as options of a command, and `neardup settings`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tests.cli.program import misused, run
from worker.cli.options import ENGINE, with_settings
from worker.settings import Settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def _command() -> typer.Typer:
    command = typer.Typer(rich_markup_mode=None)

    @command.command()
    @with_settings("group", "static_membership", *ENGINE)
    def show(
        file: Annotated[Path, typer.Argument()], settings: Settings, follow: Annotated[bool, typer.Option()] = False
    ) -> None:
        """Show what arrived."""
        typer.echo(f"{file} {follow} {settings.group} {settings.max_distance} {settings.static_membership}")

    return command


def test_a_command_keeps_its_own_parameters() -> None:
    """Arguments and options of the command stand beside those of the settings."""
    result = CliRunner().invoke(_command(), ["a.warc", "--group", "night", "--follow", "--max-distance", "5"])
    assert result.stdout == "a.warc True night 5 True\n"
    result = CliRunner().invoke(_command(), ["a.warc", "--no-static-membership"])
    assert result.stdout == f"a.warc False neardup {Settings().max_distance} False\n"


def test_settings_describes_every_setting() -> None:
    """With its default and bounds; the output stays a file for --config."""
    text = run("settings", "--describe").stdout
    assert "batch_wait_ms = 20  # ms; default" in text
    words = " ".join(text.replace("\n# ", " ").split())
    assert "adds to the latency when little arrives. Default: 20; 0 to 10,000. batch_wait_ms = 20 # ms" in words
    assert tomllib.loads(text) == tomllib.loads(run("settings").stdout)
    for field in Settings.model_fields.values():
        assert str(field.description) in words


def test_kafka_options_are_repeated_names_and_values() -> None:
    """A value may hold an equals sign; without one it is refused."""
    result = run("settings", "--kafka-options", "a=b=c", "--kafka-options", "d=", "--changed")
    assert result.stdout == 'kafka_options = { "a" = "b=c", "d" = "" }  # name=value; flag\n'
    assert "NAME=VALUE, got 'linger.ms'" in misused("settings", "--kafka-options", "linger.ms")


def test_the_output_of_settings_is_a_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown is TOML that gives the same settings again; passwords are not in it."""
    monkeypatch.setenv("NEARDUP_SASL_PASSWORD", "hush")
    monkeypatch.setenv("NEARDUP_STATE_DIR", 'a "b"\n\\ć')
    arguments = ["settings", "--shingle-widths", "1,2", "--mask-numbers", "--kafka-options", "x.password=hush"]
    first = run(*arguments).stdout
    assert "hush" not in first
    assert "# sasl_password is set and hidden" in first
    config = tmp_path / "neardup.toml"
    config.write_text(first, encoding="utf-8")
    assert tomllib.loads(first)["state_dir"] == 'a "b"\n\\ć'
    monkeypatch.delenv("NEARDUP_STATE_DIR")
    second = run("settings", "--config", str(config)).stdout
    assert tomllib.loads(second) == tomllib.loads(first)
