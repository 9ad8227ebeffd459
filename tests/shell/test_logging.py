"""What the log shows: on stderr, and never a password or a document."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from worker.cli import app
from worker.settings import Settings
from worker.shell.kafka import config as kafka_config
from worker.shell.runtime import logging

PASSWORD = "hunter2-of-the-broker"
PAGE = "<p>what a page says of a person</p>"
CLIENTS = [getattr(kafka_config, name) for name in kafka_config.__all__]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave logging to the tests that come after as it was."""
    yield
    structlog.reset_defaults()


def _fail(config: dict[str, Any], page: str) -> None:
    raise RuntimeError(f"unforeseen with {len(config)} options and a page of {len(page)} characters")


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("client", CLIENTS, ids=kafka_config.__all__)
def test_a_traceback_shows_neither_password_nor_page(
    client: Callable[[Settings], dict[str, Any]], log_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both are in scope where the exception arises, in the configuration of every client."""
    settings = Settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="crawl",
        sasl_password=PASSWORD,
        ssl_key_password=PASSWORD,
        ssl_certificate_location="c.pem",
        ssl_key_location="k.pem",
        kafka_options={"sasl.oauthbearer.client.secret": PASSWORD},
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


def test_every_command_logs_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """What a command answers on stdout stays free of log lines, for a command without settings too."""
    structlog.reset_defaults()  # which print to stdout
    assert CliRunner().invoke(app, ["plan", "--documents", "1M"]).exit_code == 0
    structlog.get_logger("test").warning("something is odd")
    out, err = capfd.readouterr()
    assert not out and "something is odd" in err
    assert CliRunner().invoke(app, ["settings", "--log-level", "error"]).exit_code == 0
    structlog.get_logger("test").warning("left out by the setting")
    assert capfd.readouterr() == ("", "")
