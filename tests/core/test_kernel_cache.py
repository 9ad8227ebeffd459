"""Where machine code is kept, and that a later process finds it, in an installation for reading too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

WHERE = (
    "from worker.core.kernels.batch import fingerprint_batch as f; from worker.core.compiled import cache_directory;"
    "print(cache_directory(f.py_func))"
)
FIRST = (
    "from worker.core.fingerprint import Fingerprinter; from worker.core.kernels.batch import fingerprint_batch as f;"
    "print(Fingerprinter().one('the bridge over the river was built by two brothers'));"
    "print(sum(f.stats.cache_hits.values()))"
)


def run(code: str, site: Path, **environment: str) -> list[str]:
    """The lines that a fresh process writes."""
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=inherited | {"PYTHONPATH": str(site)} | environment,
        cwd=site,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def installation(tmp_path: Path) -> Path:
    """A copy of the packages that cannot be written to, not even by root: `__pycache__` is taken by a file."""
    site = tmp_path / "site"
    for name in ("worker", "schemas"):
        shutil.copytree(REPOSITORY / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [site / "worker", *(site / "worker").rglob("*/")]:
        (folder / "__pycache__").touch()
    return site


def test_code_is_kept_where_the_variable_says(installation: Path, tmp_path: Path) -> None:
    """NUMBA_CACHE_DIR comes first."""
    assert run(WHERE, installation, NUMBA_CACHE_DIR=str(tmp_path / "x")) == [str(tmp_path / "x" / "neardup")]


def test_a_read_only_installation_keeps_code_in_the_users_cache(installation: Path, tmp_path: Path) -> None:
    """Beside the source is no place: the user's cache directory is."""
    found = run(WHERE, installation, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert found == [str(tmp_path / "cache" / "neardup" / "kernels")]


def test_without_any_place_each_process_compiles_for_itself(installation: Path, tmp_path: Path) -> None:
    """Nothing can be written: no directory, and no error."""
    (tmp_path / "file").touch()
    assert run(WHERE, installation, XDG_CACHE_HOME=str(tmp_path / "file")) == ["None"]


@pytest.mark.slow
def test_the_second_process_of_a_read_only_installation_compiles_nothing(installation: Path, tmp_path: Path) -> None:
    """The first one compiles, the second loads what the first has kept, and both say the same."""
    first = run(FIRST, installation, XDG_CACHE_HOME=str(tmp_path / "cache"))
    second = run(FIRST, installation, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("0", "1")
