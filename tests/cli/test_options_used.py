"""No command offers an option that it does not use: what each reads of the settings is noted while it runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.cli.program import ARTICLE, lines
from tests.faults import cluster
from tests.report.made import copy, verdict
from worker.cli import app, options
from worker.settings import LoadedSettings, Settings, env_name, load_settings
from worker.shell.messages import encode_verdict

ON_FILES = {
    "archive": ["--input", "{file}", "--output", "{folder}"],
    "compare": ["{file}", "{file}"],
    "dedup": ["{file}"],
    "evaluate": ["{file}", "{pairs}"],
    "tune": ["{file}", "{pairs}"],
    "fingerprint": ["{file}"],
    "find-all": ["--documents", "{file}"],
    "find-clusters": ["--documents", "{file}"],
    "nearest": ["{file}", "--to", "a"],
    "warm-up": [],
}
ON_A_CLUSTER = {  # in the order in which they can run
    "topics create": [],
    "topics check": [],
    "topics alter": ["{topic}", "retention.ms=-1"],
    "feed": ["{file}"],
    "verdicts": [],
    "dead-letters": [],
    "verify": [],
    "report": ["--documents", "{file}", "--output", "{page}"],
    "explain": ["a", "--documents", "{file}"],
    "top": ["--once", "--interval", "0.2"],
}
ALL_SETTINGS = {"worker", "rebuild", "settings"}

Run = Callable[..., set[str]]


def commands() -> dict[str, Any]:
    """Every command by its name."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for part, inner in getattr(command, "commands", {"": command}).items():
            found[f"{name} {part}".strip()] = inner
    return found


def offered(name: str) -> set[str]:
    """The settings that a command has options for."""
    return {parameter.name for parameter in commands()[name].params} & set(Settings.model_fields)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command on a document; give the settings that it has read."""
    file, pairs, read = tmp_path / "in.jsonl", tmp_path / "pairs.tsv", set[str]()
    pairs.write_text("a\ta\t1")
    document = {"doc_id": "a", "url": "https://example.org/", "fetched_at": "2026-01-02T03:04:05Z", "text": ARTICLE}
    file.write_text(lines(document))
    load, get = load_settings, Settings.__getattribute__

    def noted(settings: Settings, name: str) -> Any:
        read.add(name)
        return get(settings, name)

    def loaded(*arguments: Any) -> LoadedSettings:
        found = load(*arguments)
        read.clear()  # what the checks of the settings have read
        return found

    def invoke(name: str, arguments: list[str]) -> set[str]:
        files = {"file": file, "pairs": pairs, "page": tmp_path / "page", "folder": tmp_path / "folder"}
        topic = os.environ.get(env_name("topic_verdicts"))
        given = [argument.format(**files, topic=topic) for argument in arguments]
        result = CliRunner().invoke(app, [*name.split(), *given])
        assert result.exit_code == 0, (result.output, result.exception)
        return read & set(Settings.model_fields)

    monkeypatch.setattr(options, "load_settings", loaded)
    monkeypatch.setattr(Settings, "__getattribute__", noted)
    return invoke


def test_every_command_with_settings_is_looked_at() -> None:
    """A new one is to be added here."""
    assert {name for name in commands() if offered(name)} == {*ON_FILES, *ON_A_CLUSTER, *ALL_SETTINGS}


def test_a_worker_takes_every_setting_but_those_of_topics_to_create() -> None:
    """And no secret: others of the machine can read a flag."""
    secret = {"sasl_password", "ssl_key_password"}
    assert set(Settings.model_fields) - offered("settings") == secret
    assert set(Settings.model_fields) - offered("worker") == secret | {"partitions", "replication_factor"}


@pytest.mark.parametrize("name", ON_FILES)
def test_no_command_on_files_offers_a_setting_that_it_does_not_use(name: str, run: Run) -> None:
    """find-clusters --max-distance was offered and without effect."""
    assert offered(name) - run(name, ON_FILES[name]) == set()


def test_no_command_on_a_cluster_offers_a_setting_that_it_does_not_use(
    commands_settings: Settings, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, on topics of their own."""
    bootstrap, topic = commands_settings.bootstrap, commands_settings.topic_verdicts
    monkeypatch.setenv(env_name("topic_new"), f"{topic}.new")
    for name, arguments in ON_A_CLUSTER.items():
        if name == "report":  # of something
            answers = verdict(1, doc_id="a"), copy(2, 1, doc_id="a", original_id="a")
            cluster.append(bootstrap, topic, [encode_verdict(answer)[1] for answer in answers])
        assert offered(name) - run(name, arguments) == set()
