"""A page never harms: nothing is written outside, and every index is within its array."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.pages.fuzz import fuzz


def test_no_page_writes_outside_its_arrays() -> None:
    """Random pages leave the canaries round every array as they were."""
    fuzz(1_500, seed=1)


@pytest.mark.slow
def test_every_index_is_within_its_array(tmp_path: Path) -> None:
    """With numba's checks of bounds compiled in, no random page reads or writes beyond an array's end."""
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    script = "from tests.core.pages.fuzz import fuzz; fuzz(400, seed=2)"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
