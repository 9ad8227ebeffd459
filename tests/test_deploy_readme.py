"""deploy/README.md names every alert and every refusal, and its sizes are those that were measured."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.benchmarks.machine import RESULTS
from tests.conftest import REPOSITORY
from worker.shell.kafka.client import REFUSALS

README = (REPOSITORY / "deploy" / "README.md").read_text()
RULES = yaml.safe_load((REPOSITORY / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
REFUSED = README[README.index("Each refusal of a worker") : README.index("## Throughput")]
WORDS = [words for row in re.findall(r"^\| (`.+?) \|", REFUSED, re.MULTILINE) for words in re.findall("`(.+?)`", row)]
OF_A_WORKER = ("log", "shell/pipeline", "shell/kafka", "shell/storage", "shell/runtime")


def _refusals() -> Iterator[str]:
    """Return the text of each error that ends a worker, without what is filled in; those of the Kafka client, too."""
    yield from REFUSALS.values()
    for folder in OF_A_WORKER:
        for path in sorted((REPOSITORY / "worker" / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"StopError", "FencedError"}:
                    parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
                    if text := "".join(str(part.value) for part in parts if isinstance(part.value, str)):
                        yield text


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_leads_to_what_is_to_be_done(rule: dict[str, Any]) -> None:
    """Its link ends at a heading of its own, under which there is something to ask or to run."""
    assert rule["annotations"]["runbook_url"] == f"deploy/README.md#{rule['alert'].lower()}"
    page = re.search(rf"^### {rule['alert']}\n(.+?)\n#", README, re.MULTILINE | re.DOTALL)
    assert page and "`" in page[1]


@pytest.mark.parametrize("text", [text for text in _refusals() if len(text.split()) > 3])
def test_every_refusal_of_a_worker_has_cause_and_remedy(text: str) -> None:
    """Some words of it stand in the table."""
    assert [words for words in WORDS if words in text], text


def test_sizes_follow_from_what_was_measured() -> None:
    """0.5 GiB and a thread's 160 MiB, then bytes per original; half of the documents are copies."""
    found = json.loads((RESULTS / "replay.json").read_text())["figures"]
    snapshot = found["snapshot_mb"] * 2**20 / found["documents"]
    for millions in (1, 10, 100):
        memory = (
            0.5 * 2**30 + 160 * 2**20 + millions * 1e6 * found[name]
            for name in ("replica_on_disk_bytes_an_original", "replica_bytes_an_original")
        )
        disk, log = (
            millions * 1e6 * (found["files_bytes_an_original"] + 3 * snapshot),
            2 * millions * 1e6 * found["log_bytes_a_row"],
        )
        cells = " | ".join(f"{size / 1e9:.1f} GB" for size in (*memory, disk, log))
        assert f"| {millions} M | {cells} |" in README, cells
