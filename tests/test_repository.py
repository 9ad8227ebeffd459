"""The repository keeps its own promises: nothing at the top level but what was asked for, nothing imported early."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

TOP_LEVEL = {"worker", "schemas", "tests", "deploy", "pyproject.toml", "README.md"} | {
    "Makefile",
    "LICENSE",
    "CHANGELOG.md",
}


def test_top_level_holds_only_what_was_asked_for() -> None:
    """Beside the six asked-for entries the top level has a Makefile, a licence, a list of changes and dot files."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    entries = {line.split("/")[0] for line in tracked}
    assert {entry for entry in entries if not entry.startswith(".")} <= TOP_LEVEL


def test_importing_the_command_line_is_cheap() -> None:
    """`neardup --help` loads neither the kernels nor the Kafka client nor the page parser."""
    script = (
        "import sys, worker.cli; print([m for m in ('numba', 'confluent_kafka', 'resiliparse') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"


def test_files_need_no_kafka_client(tmp_path: Path) -> None:
    """The library and `neardup dedup` work where the Kafka client cannot be loaded."""
    document = {"url": "https://a.example/", "fetched_at": "2026-01-01T00:00:00Z", "text": "One bridge over one river."}
    (tmp_path / "documents.jsonl").write_text(json.dumps(document))
    script = (
        "import sys; sys.modules['confluent_kafka'] = None; import neardup; from worker.__main__ import main;"
        "print(neardup.Deduplicator().add('One bridge over one river.').outcome.value, flush=True); main()"
    )
    command = [sys.executable, "-c", script, "dedup", "--quiet", "documents.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library, verdict = done.stdout.splitlines()
    assert (library, json.loads(verdict)["verdict"]) == ("new", "new")


def test_every_file_that_contributors_are_sent_to_is_there() -> None:
    """The table of what to change for what names files below `worker/`, `tests/` or the root."""
    page = (REPOSITORY / ".github" / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([\w./]+\.(?:py|md))`", page))
    roots = REPOSITORY / "worker", REPOSITORY / "tests", REPOSITORY
    assert len(named) > 30
    assert {name for name in named if not any((root / name).is_file() for root in roots)} == set()
