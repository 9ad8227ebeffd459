"""What the log shows: on stderr, and never a password or a document."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from logging import getLogger
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from tests.cli import program
from tests.conftest import plain_environment
from tests.shell.test_kafka import CLIENTS
from worker.__main__ import main
from worker.cli import app
from worker.settings import Settings
from worker.shell.runtime import logging

PASSWORD = "hunter2-of-the-broker"
PAGE = "<p>what a page says of a person</p>"


pytestmark = pytest.mark.usefixtures("logging_as_before")


def _fail(config: dict[str, Any], page: str) -> None:
    raise RuntimeError(
        f"unforeseen with {len(config)} options and a page of {len(page)} characters"
    )


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_traceback_shows_neither_password_nor_page(
    client: Callable[[Settings], dict[str, Any]], log_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both are in scope where the exception arises, in the configuration of every client."""
    settings = Settings(
        kafka={
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "crawl",
            "sasl.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "sasl.oauthbearer.client.secret": PASSWORD,
        }
    )
    logging.configure("info", log_format)
    config = client(settings)
    assert PASSWORD in config.values()
    try:
        _fail(config, PAGE)
    except RuntimeError as error:
        structlog.get_logger("test").exception("a thread failed", settings=settings)
        structlog.get_logger("test").warning("told by itself", exc_info=error)
    out, err = capfd.readouterr()
    assert not out
    assert err.count("a page of 35 characters") >= 2 and "_fail" in err  # the tracebacks are there
    assert PASSWORD not in err and "of a person" not in err
    if log_format == "json":
        assert all("exception" in json.loads(line) for line in err.splitlines())


AS_A_LIBRARY = """
import logging, sys, structlog
from worker.shell.runtime.logging import get_logger
log = get_logger("test")
if sys.argv[1] == "structlog":
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
elif sys.argv[1] == "logging":
    logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
log.info("news")
log.warning("no snapshot", cause="disk 100% full", remedy="make room")
"""


@pytest.mark.parametrize(
    ("configured", "out", "err"),
    [
        ("nothing", "", "no snapshot: disk 100% full. make room\n"),
        ("logging", "neardup WARNING no snapshot: disk 100% full. make room\n", ""),
        (
            "structlog",
            '{"event": "news"}\n'
            '{"cause": "disk 100% full", "remedy": "make room", "event": "no snapshot"}\n',
            "",
        ),
    ],
)
def test_a_program_that_uses_the_library_says_where_its_lines_go(
    configured: str, out: str, err: str
) -> None:
    """stdout is the program's own, and so are structlog and logging."""
    done = subprocess.run(
        [sys.executable, "-c", AS_A_LIBRARY, configured],
        check=True, capture_output=True, text=True, env=plain_environment(),
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (out, err)


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda logger: pickle.loads(pickle.dumps(logger))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_logger_can_be_copied_with_the_object_that_has_it(
    copied: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """As when an object is sent to another process."""
    structlog.reset_defaults()
    copied(logging.get_logger("test")).warning("no snapshot")
    assert caplog.messages == ["no snapshot"]


def test_a_line_below_the_level_is_not_rendered_and_its_arguments_are_put_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As with a logger of logging."""
    structlog.reset_defaults()
    rendered: list[str] = []

    class Costly:
        def __str__(self) -> str:
            rendered.append("costly")
            return "costly"

    log = logging.get_logger("test")
    log.debug("state", value=Costly())
    assert not rendered
    log.warning("%s of %d", "one", 3)
    assert caplog.messages == ["one of 3"]


def test_every_module_of_the_library_takes_that_logger() -> None:
    """Structlog's own, not configured, prints to stdout."""
    files = Path(logging.__file__).parents[1].rglob("*.py")
    assert [file.name for file in files if "structlog.get_logger(" in file.read_text()] == [
        "logging.py"
    ]


def test_every_command_logs_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """
    What a command answers on stdout stays free of log lines, for a command without settings too.
    """
    structlog.reset_defaults()  # which print to stdout
    assert CliRunner().invoke(app, ["plan", "--documents", "1M"]).exit_code == 0
    structlog.get_logger("test").warning("something is odd")
    out, err = capfd.readouterr()
    assert not out and "something is odd" in err
    assert CliRunner().invoke(app, ["settings", "--log-level", "error"]).exit_code == 0
    structlog.get_logger("test").warning("left out by the setting")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_command_that_talks_to_a_person_says_sentences_only(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Every line of the log is one, with its reason and its remedy, in a pipe as on a terminal; JSON
    is for a worker, and for whoever asks for it.
    """
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    logging.configure()
    log = structlog.get_logger("test")
    log.warning("no snapshot", cause="disk\x1b[31m full", path="/s", remedy="make room")
    getLogger("neardup").warning("compiles")
    assert capsys.readouterr().err.splitlines() == [
        "neardup: no snapshot: disk\ufffd[31m full (path=/s). make room",
        "neardup: compiles",
    ]
    try:
        _fail({}, PAGE)
    except RuntimeError as error:
        log.warning("told by itself", exc_info=error)
    said = capsys.readouterr().err
    assert said.startswith("neardup: told by itself\nTraceback") and "0 options" in said
    assert PAGE not in said
    logging.configure(log_format="json")
    log.warning("a line")
    assert json.loads(capsys.readouterr().err)["event"] == "a line"


def test_a_command_leaves_news_to_the_log_of_a_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    That a snapshot was written stands in no command's sentences, unless lines of a log are asked
    for.
    """
    page = tmp_path / "page.jsonl"
    page.write_text(
        '{"text": "the harbour was rebuilt by the citizens of the town", "url": "u:1"}\n'
    )
    known = tmp_path / "known"
    said = program.run("dedup", page, "--state", known, "--output", tmp_path / "out.jsonl").stderr
    assert known.exists() and "snapshot" not in said
    logging.configure("debug")
    structlog.get_logger("test").info("snapshot written")
    assert capsys.readouterr().err == "neardup: snapshot written\n"


def test_a_wrong_address_of_the_brokers_is_told_in_sentences() -> None:
    """Nothing of the client's own stands between them."""
    lines, code = _said("topics", "check", "--bootstrap", "127.0.0.1:1")
    assert code == 1 and "Start a broker" in lines[-1]
    assert all(line.startswith("neardup: ") for line in lines), lines


def test_what_the_core_says_is_a_line_as_all_others(capsys: pytest.CaptureFixture[str]) -> None:
    """The core knows no structlog; where lines are JSON its lines are, too."""
    logging.configure(log_format="json")
    getLogger("neardup").warning("compiles")
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["level"]) == ("compiles", "info")


def test_a_worker_whose_brokers_are_not_there_says_so_soon_and_every_line_is_json() -> None:
    """
    After three seconds whom it asks in vain; the last line is why it ends, with the remedy; so a
    wrong setting.
    """
    given = (
        "--bootstrap",
        "127.0.0.1:1",
        "--call-timeout-s",
        "5.5",
        "--kafka",
        "transaction.timeout.ms=1000",
    )
    lines, code = _lines_of_a_worker(*given)
    first, last = (
        next(line for line in lines if said in line["event"]) for said in (" yet", "Start a broker")
    )
    assert (code, last["level"], lines.index(last)) == (1, "critical", len(lines) - 1)
    assert first["event"].startswith("no answer from 127.0.0.1:1 yet (")
    apart_s = datetime.fromisoformat(last["timestamp"]) - datetime.fromisoformat(first["timestamp"])
    assert apart_s.total_seconds() > 2
    [wrong], code = _lines_of_a_worker("--threads", "many")
    assert code == 2 and "--threads many: must be a whole number" in wrong["event"]


def _said(*arguments: str | Path) -> tuple[list[str], int]:
    """Run a command to its end; return the lines of its stderr, and its exit code."""
    command = [sys.executable, "-m", "worker", *map(str, arguments)]
    done = subprocess.run(
        command, stderr=subprocess.PIPE, env=plain_environment(), check=False, text=True
    )
    return done.stderr.splitlines(), done.returncode


def _lines_of_a_worker(*options: str) -> tuple[list[dict[str, Any]], int]:
    lines, code = _said("worker", *options)
    return [json.loads(line) for line in lines], code


def test_what_nobody_foresaw_is_a_line_of_the_log_where_those_are_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Elsewhere it is a traceback."""
    monkeypatch.setattr("worker.cli.app", lambda: 1 / 0)
    logging.configure("info", "json")
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    line = json.loads(capsys.readouterr().err)
    assert line["exception"][0]["exc_type"] == "ZeroDivisionError"
    logging.configure("info", "console")
    with pytest.raises(ZeroDivisionError):
        main()
