"""An error that nobody has foreseen, in one document: every command on files answers its neighbours."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.cli.program import ARTICLE, lines, page, run
from worker.core.document import Document
from worker.core.extract import Content, Skipped, content_of

COMMANDS = {  # what is told of "a", "b" and "c"
    "dedup {docs}": ['"new"', "fingerprint-failed", '"duplicate"'],
    "fingerprint {docs}": ['"a"', "no fingerprint: {docs}, line 2", '"c"'],
    "find-clusters --documents {docs}": ['["a","c"]', "no fingerprint: {docs}, line 2"],
    "nearest {docs} --to a": ['["c",', "no fingerprint: {docs}, line 2"],
    "evaluate {docs} {pairs}": ["no text: {docs}, line 2", "2 documents, 1 duplicates"],
    "report {verdicts} --documents {docs} --output {page}": ["3 answers"],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Three documents; whoever extracts the second fails."""

    def failing(document: Document) -> Content | Skipped:
        if document.doc_id == "b":
            raise IndexError("nobody has foreseen this")
        return content_of(document)

    monkeypatch.setattr("worker.core.extract.content_of", failing)
    monkeypatch.setattr("worker.shell.pipeline.prepare.content_of", failing)
    found = {name: tmp_path / name for name in ("docs", "pairs", "verdicts", "page")}
    body = base64.b64encode(f"<p>{ARTICLE}</p>".encode()).decode()
    found["docs"].write_text(lines(*(page(at, doc_id=name, body_base64=body) for at, name in enumerate("abc"))))
    found["pairs"].write_text("a\tc\t1\n")
    run("dedup", found["docs"], "--output", found["verdicts"], "--threads", "1")
    answers = [json.loads(line) for line in found["verdicts"].read_text().splitlines()]
    assert [answer["verdict"] for answer in answers] == ["new", "dead-letter", "duplicate"]  # in the file's order
    return found


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_the_neighbours_of_a_document_that_fails_are_answered(files: dict[str, Path], command: str) -> None:
    """It is named, and costs itself."""
    said = " ".join(run(*command.format(**files).split()).output.split())
    for text in COMMANDS[command]:
        assert text.replace("{docs}", str(files["docs"])) in said
