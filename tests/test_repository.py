"""The repository keeps its own promises: nothing at the top level but what was asked for, nothing imported early."""

from __future__ import annotations

import subprocess
import sys

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
