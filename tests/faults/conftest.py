"""Deployments for the tests of faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Kafka
from tests.faults import cluster
from tests.faults.harness import Deployment
from worker.devkit.broker import EmbeddedKafka

Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(kafka: Kafka, tmp_path: Path) -> Iterator[Deploy]:
    """Make deployments on one broker; afterwards none of their workers runs."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            Deployment(kafka.bootstrap, tmp_path, **settings)
        )


@pytest.fixture
def deploy3(kafka3: EmbeddedKafka, tmp_path: Path) -> Iterator[Deploy]:
    """
    Make deployments on three brokers that have each other's data, with every topic on all of them.
    """
    cluster.until_in_sync(kafka3.bootstrap)
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            Deployment(kafka3.bootstrap, tmp_path, **{"replication_factor": 3, **settings})
        )
