"""The program as its users run it, and what they give it."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from tests.conftest import definition_file
from worker.cli import app
from worker.errors import StopError

ARTICLE = " ".join(
    f"The committee of the town met in hall {n} and heard that the river had risen by {n * 7} "
    "centimetres since the day before, which the engineer of the dam called a matter for the "
    "council and not for the press."
    for n in range(8)
)
OTHER = (
    "Nobody in the harbour has seen the ferry since the morning, and the office of the port says "
    "that it is late."
)


def defined(**keys: Any) -> tuple[str, str]:
    """The option that gives a command a definition with these keys."""
    return "--definition", str(definition_file(**keys))


def lines(*documents: dict[str, Any] | str) -> str:
    """JSON Lines; a text stands as it is."""
    return "".join((d if isinstance(d, str) else json.dumps(d)) + "\n" for d in documents)


def page(number: int, **body: str) -> dict[str, str]:
    """A document with a URL of its own."""
    return {"url": f"https://example.org/{number}", "fetched_at": "2026-01-02T03:04:05Z", **body}


def documents_of(texts: dict[str, str]) -> str:
    """Documents by their doc_ids as lines of JSON; they need no fetch time to be compared."""
    return lines(
        *(
            {"doc_id": name, "url": f"https://example.org/{name}", "text": t}
            for name, t in texts.items()
        )
    )


def run(*arguments: object, code: int = 0, stdin: str | bytes = "", **environment: str) -> Result:
    """Run a command to its end, which has this exit code."""
    result = CliRunner(env=environment).invoke(app, [*map(str, arguments)], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def refused(*arguments: object, stdin: str = "") -> str:
    """Run a command that ends with an error of operation; return its text."""
    result = run(*arguments, code=1, stdin=stdin)
    assert isinstance(result.exception, StopError), result.exception
    return str(result.exception)


def misused(*arguments: object) -> str:
    """Run a command that is not used rightly; return what it says, without the frame."""
    return " ".join(run(*arguments, code=2).output.replace("│", " ").split())
