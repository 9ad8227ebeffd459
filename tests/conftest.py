"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No time limits: a busy machine is not a defect. Each failure prints its seed.
settings.register_profile("neardup", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("neardup")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of labelled documents beside the repository; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    if not (folder / "docs.jsonl").is_file():
        pytest.skip(f"labelled corpora are not at {folder} (set NEARDUP_CORPORA)")
    return folder
