"""
The pages' first steps with a group, from `neardup broker start` to `stop`, as a reader pastes them: on
the default ports, which must be free.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import program
from tests.conftest import plain_environment
from tests.deploy import bounded
from tests.test_shell_blocks import GROUP, blocks_that

BLOCK_S = 900.0  # a minute on two busy cores; a first one fetches the broker, too
STOP_S = 120.0
pytestmark = pytest.mark.timeout(BLOCK_S + 600)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """That of a new user: no variables of neardup, a broker without data; afterwards none runs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = {**plain_environment(), "PATH": path, "XDG_DATA_HOME": str(tmp_path / "share")}
    yield found
    for data in ([], ["--data", "kafka"]):  # a block that fails has left its broker
        stop: list[str | Path] = [
            Path(sys.executable).with_name("neardup"),
            "broker",
            "stop",
            *data,
        ]
        subprocess.run(stop, cwd=tmp_path, env=found, check=False, timeout=STOP_S)


@pytest.mark.parametrize("block", blocks_that(GROUP))
def test_a_group_starts_works_and_ends_as_the_page_says(
    block: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Every command succeeds, `verify` among them, and the worker and the broker end."""
    if "sample-crawl" not in block:  # made by the steps before
        program.run("sample-crawl", "--documents", "2000", tmp_path / "crawl.warc.gz")
    shell = ["bash", "-euxc", block]
    bounded.run("the block", BLOCK_S, *shell, cwd=tmp_path, env=environment)
