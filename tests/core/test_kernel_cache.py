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
    "from worker.core.kernels.fingerprint import fingerprint_batch as f;"
    "from worker.core.compiled import cache_directory; print(cache_directory(f.py_func))"
)


def run(code: str, site: Path, text: str = "", **environment: str) -> list[str]:
    """The lines that a fresh process writes."""
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=inherited | {"PYTHONPATH": str(site)} | environment,
        cwd=site,
        input=text,
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


def test_behind_the_warm_up_nothing_is_compiled(tmp_path: Path) -> None:
    """What a worker, dedup and the searches run is compiled, or loaded if it is there, by `neardup warm-up`."""

    def code(*arguments: str, text: str = "") -> set[str]:
        told = run(f"import sys; from worker.__main__ import main; sys.argv[1:] = {arguments!r}; main()", REPOSITORY,
                   text, NUMBA_DEBUG_CACHE="1")  # fmt: skip
        return {
            line.rpartition(" ")[2] for line in told if line.startswith(("[cache] data loaded", "[cache] data sav"))
        }

    made = code("warm-up")
    assert len(made) >= 15  # so many kernels there are, or a few more
    crawl = tmp_path / "crawl.warc.gz"
    code("sample-crawl", "--documents", "300", "--seed", "1", str(crawl))
    numbers = "".join(f"{number * 0x9E3779B97F4A7C15 % 2**64}\n" for number in range(20_000))
    for used in (code("dedup", "--threads", "1", str(crawl)), code("find-all", text=numbers),
                 code("find-clusters", text=numbers)):  # fmt: skip
        assert used and used <= made
