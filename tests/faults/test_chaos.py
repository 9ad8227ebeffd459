"""One run of `make chaos` in the ordinary tests; thirty and more are run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import cluster
from tests.faults.chaos.relay import Relay
from tests.faults.chaos.run import Chaos
from tests.faults.chaos.schedule import plan
from worker.devkit.broker import EmbeddedKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_random_run_is_clean(kafka3: EmbeddedKafka, tmp_path: Path) -> None:
    """The same schedule each time, so that a failure is a change's; `make chaos` looks for new ones."""
    seed = 20
    cluster.until_in_sync(kafka3.bootstrap)
    with Relay(kafka3.extra_ports("RELAYED")) as relay:
        outcome = Chaos(kafka3, relay, plan(seed), tmp_path / f"seed-{seed}").run()
    assert outcome.clean, outcome.line()
    assert not (tmp_path / f"seed-{seed}").exists()
