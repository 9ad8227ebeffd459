"""
The repository keeps its own promises: nothing at the top level but what was asked for, nothing
imported early.
"""

from __future__ import annotations

import doctest
import json
import re
import sys
from pathlib import Path

from typer.main import get_command

from tests.conftest import REPOSITORY, output_of
from worker.cli import app

TOP_LEVEL = {
    "worker", "schemas", "tests", "deploy", "pyproject.toml", "README.md", "Makefile", "LICENSE",
    "CHANGELOG.md",
}  # fmt: skip
FOLDERS = (".", "worker", "worker/core", "worker/public", "tests")
PAGES = [
    *(REPOSITORY / name / "README.md" for name in FOLDERS),
    *(REPOSITORY / "deploy").glob("*.md"),
]
README = "".join(page.read_text() for page in PAGES)


def test_top_level_holds_only_what_was_asked_for() -> None:
    """
    Beside the six asked-for entries the top level has a Makefile, a licence, a list of changes and
    dot files.
    """
    entries = {
        line.split("/")[0] for line in output_of("git", "ls-files", cwd=REPOSITORY).splitlines()
    }
    assert {entry for entry in entries if not entry.startswith(".")} <= TOP_LEVEL


WORDS_MAX = {"README.md": 1_300, "deploy/README.md": 2_000}


def test_the_pages_that_everybody_reads_stay_short() -> None:
    """What is true and does not fit stands next to the code, behind a link."""
    words = {name: len((REPOSITORY / name).read_text().split()) for name in WORDS_MAX}
    assert {name: count for name, count in words.items() if count > WORDS_MAX[name]} == {}


def test_the_list_of_commands_is_cheap() -> None:
    """`neardup --help` loads no command, no kernels, no Kafka client, no reader of archives."""
    script = (
        "import sys; from typer.testing import CliRunner; from worker.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "heavy = ('numba', 'numpy', 'pydantic', 'confluent_kafka', 'resiliparse', 'fastwarc'); "
        "print([m for m in sys.modules if m in heavy or m.startswith(('worker.cli.', "
        "'worker.shell'))])"
    )
    assert output_of(sys.executable, "-c", script, cwd=REPOSITORY).strip() == "[]"


def test_files_need_no_kafka_client(tmp_path: Path) -> None:
    """The library and `neardup dedup` work where the Kafka client cannot be loaded."""
    document = {
        "url": "https://a.example/",
        "fetched_at": "2026-01-01T00:00:00Z",
        "text": "One bridge over one river.",
    }
    (tmp_path / "documents.jsonl").write_text(json.dumps(document))
    script = (
        "import sys; sys.modules['confluent_kafka'] = None; import neardup; from worker.__main__ "
        "import main;"
        "print(neardup.Deduplicator().add('One bridge over one river.').outcome.value, "
        "flush=True); main()"
    )
    said = output_of(
        sys.executable, "-c", script, "dedup", "--quiet", "documents.jsonl", cwd=tmp_path
    )
    library, verdict = said.splitlines()
    assert (library, json.loads(verdict)["verdict"]) == ("new", "new")


def test_every_command_in_the_readmes_exists() -> None:
    """Those of the shell and those of make."""
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"(?:^ {4}|`)neardup ([a-z][a-z-]+)", README, re.MULTILINE))
    assert {"worker", "feed", "verdicts", "dedup"} <= named <= commands
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named_targets = re.findall(r"(?:^ {4}|`)make ([a-z-]+)[` \n]", README, re.MULTILINE)
    assert {"demo", "test"} <= set(named_targets) <= targets


def test_the_library_example_holds() -> None:
    """Every line of it, as it stands."""
    example = doctest.DocTestParser().get_doctest(README, {}, "README.md", "README.md", 0)
    result = doctest.DocTestRunner().run(example)
    assert (result.failed, len(example.examples) > 8) == (0, True)
