"""Deployments for the tests of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Kafka
from tests.faults.harness import Deployment

Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(kafka: Kafka, tmp_path: Path) -> Iterator[Deploy]:
    """Make deployments on one broker; afterwards none of their workers runs."""
    with ExitStack() as stack:

        def make(**settings: Any) -> Deployment:
            return stack.enter_context(Deployment(kafka.bootstrap, tmp_path, **settings))

        yield make
