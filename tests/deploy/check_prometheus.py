"""
Prometheus scrapes a group that runs: each panel of the dashboard has data, alerts that are provoked
fire.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from platformdirs import user_cache_path

from tests.conftest import REPOSITORY, Kafka, eventually, free_ports
from tests.deploy import bounded
from tests.faults import cluster
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment, WorkerProcess
from worker.shell.admin.seen_client import SeenClient

DEPLOY = REPOSITORY / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "neardup.json").read_text())
RULES = DEPLOY / "prometheus" / "alerts.yml"
FOLDER = user_cache_path("neardup") / "prometheus"
DOWNLOAD_S = 300.0  # of Debian's lists and of one package
PROMTOOL_S = 120.0  # seconds when the machine is quiet
QUERIES = [
    (panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]
]


def _folder_of(program: str, package: str) -> Path:
    """
    Return where a program is: the system's, or that of Debian's package, unpacked and not
    installed.
    """
    if found := shutil.which(program):
        return Path(found).parent
    folder = FOLDER / package
    if not (folder / "usr" / "bin" / program).exists():
        folder.mkdir(parents=True, exist_ok=True)
        for words in (("update", "-q"), ("download", "-q", package)):
            bounded.run(f"apt-get {words[0]}", DOWNLOAD_S, "apt-get", *words, cwd=folder)
        (archive,) = folder.glob(f"{package}_*.deb")
        bounded.run("dpkg", DOWNLOAD_S, "dpkg", "--extract", archive, folder)
    return folder / "usr" / "bin"


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of prometheus and promtool."""
    return _folder_of("promtool", "prometheus")


class Group:
    """
    Two workers that have judged a crawl, one with other parameters on topics of its own, and who
    scrapes them.
    """

    def __init__(
        self, deployment: Deployment, workers: list[WorkerProcess], ports: list[int], url: str
    ) -> None:
        self.deployment = deployment
        self.ports = ports
        self.workers = workers
        self._url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """Ask Prometheus; an empty list while it does not serve."""
        try:
            with urllib.request.urlopen(
                f"{self._url}{path}?{urllib.parse.urlencode(parameters)}", timeout=30
            ) as answer:
                return json.load(answer)["data"]
        except OSError:
            return {"result": [], "alerts": []}

    def query(self, expression: str) -> list[Any]:
        """Return what a panel would draw now; NaN is no data."""
        filled = (
            expression.replace("$__rate_interval", "1m")
            .replace("$instance", ".*")
            .replace("$group", ".*")
        )
        found = self.ask("/api/v1/query", query=filled)["result"]
        return [one for one in found if one["value"][1] != "NaN"]

    def firing(self) -> set[str]:
        """
        Return the names of the alerts that fire, and of those at one worker also with its port.
        """
        fire = [
            one["labels"]
            for one in self.ask("/api/v1/alerts")["alerts"]
            if one["state"] == "firing"
        ]
        return {
            at + one["alertname"]
            for one in fire
            for at in ("", one.get("instance", "").rpartition(":")[2])
        }


@pytest.fixture(scope="module")
def group(
    kafka: Kafka, programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Group]:
    """A group under way; documents come all the time."""
    folder = tmp_path_factory.mktemp("scraped")
    *ports, port = free_ports(5)
    state: dict[str, Any] = {"state_dir": folder / "a", "snapshot_interval_s": 1}
    with (
        Deployment(kafka.bootstrap, folder) as deployment,
        Deployment(kafka.bootstrap, folder, tokens_min=9) as other,
        _prometheus(programs, folder, ports, port),
    ):
        workers = [
            deployment.start("a", metrics_port=ports[0], **state),
            deployment.start("b", metrics_port=ports[1]),
            other.start("c", metrics_port=ports[2]),
        ]
        other.feed(crawl(3, 50))
        for seed in range(8):  # rates need a start and an end
            deployment.feed(crawl(seed, 100))
            deployment.until_all_committed()
            with SeenClient(f"http://127.0.0.1:{ports[0]}") as client:
                assert list(client.ask_documents([b"{}"]))
            time.sleep(1)
        yield Group(deployment, workers, ports, f"http://127.0.0.1:{port}")


@contextmanager
def _prometheus(programs: Path, folder: Path, ports: list[int], port: int) -> Iterator[None]:
    """Prometheus with the deployment's own files, scraping often; alerts need not last."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config.pop(
        "alerting"
    )  # the alerts that are provoked are nobody's on a network with such a host
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [
        f"127.0.0.1:{one}" for one in ports
    ]
    rules = yaml.safe_load(RULES.read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("for", None)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yml").write_text(yaml.safe_dump(rules))
    command: list[str | Path] = [
        programs / "prometheus", f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with (
        (folder / "prometheus.log").open("wb") as log,
        bounded.running("Prometheus", *command, stdout=log, stderr=log),
    ):
        yield


@pytest.mark.parametrize(
    ("panel", "expression"), QUERIES, ids=[f"{title}-{at}" for at, (title, _) in enumerate(QUERIES)]
)
def test_every_panel_has_data(panel: str, expression: str, group: Group) -> None:
    """Each of its queries, as the dashboard asks it."""
    eventually(lambda: group.query(expression), f"{panel}: no data for {expression}")


def test_the_filter_by_worker_has_all_workers(group: Group) -> None:
    """The dashboard's variable lists each instance."""
    assert len(group.query("count by (instance) (neardup_build_info)")) == 3


def test_workers_tell_their_status(group: Group) -> None:
    """Each shows its share of the partitions, which together are all, and what it has answered."""
    told = []
    for port in group.ports[:3]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=30) as answer:
            told.append(json.load(answer))
    first, second, _ = told
    assert sorted([*first["partitions"], *second["partitions"]]) == ["0", "1", "2", "3"]
    assert (
        sum(first["answered"].values()) + sum(second["answered"].values()) >= group.deployment.fed
    )
    # By the documents' time stamps, which the broker gives.
    assert 0 < first["last_minute"]["latency_ms"] < 60_000
    assert (
        first["ready"]
        and first["log"]["lag"] == 0
        and first["originals"] == second["originals"] > 0
    )


def test_alerts_fire_on_a_group_that_is_provoked(group: Group) -> None:
    """
    A foreign record, dead letters, a worker with another definition, one that was killed; but not a
    second group.
    """
    deployment = group.deployment
    assert (
        len(group.query("count by (group) (neardup_build_info)")) == 2
        and "NeardupDefinitionsDiffer" not in group.firing()
    )
    deployment.start("d", metrics_port=group.ports[3], tokens_min=9)
    cluster.append(
        deployment.settings.bootstrap,
        deployment.settings.topic_fingerprints,
        [b"a console's line"],
    )
    deployment.feed((None, b"{") for _ in range(500))
    eventually(
        lambda: (
            {"NeardupForeignRecords", "NeardupDeadLetters", "NeardupDefinitionsDiffer"}
            <= group.firing()
        ),
        "quiet",
    )
    group.workers[1].kill()
    eventually(
        lambda: f"{group.ports[1]}NeardupWorkerDown" in group.firing(),
        "no word of the worker that was killed",
    )
    assert "NeardupGroupGone" not in group.firing()
    group.workers[0].kill()
    eventually(lambda: "NeardupGroupGone" in group.firing(), "no word of a group that is gone")


def test_every_alert_fires_and_not_before(programs: Path) -> None:
    """
    promtool plays the series of each, with its times; what takes minutes or hours is provoked by
    this alone.
    """
    tests = RULES.with_name("alerts.test.yml")
    _promtool(programs, "check", "rules", RULES)
    _promtool(programs, "test", "rules", tests)


def test_the_configuration_is_one_that_prometheus_takes(programs: Path) -> None:
    """As it stands, with the rules that it names."""
    said = _promtool(programs, "check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    assert f"{len(yaml.safe_load(RULES.read_text())['groups'][0]['rules'])} rules found" in said


def _promtool(programs: Path, *arguments: str | Path) -> str:
    what = f"promtool {arguments[0]} {arguments[1]}"
    command = [programs / "promtool", *arguments]
    return bounded.run(what, PROMTOOL_S, *command, stdout=subprocess.PIPE)


# Alerts that one failure fires, and the one of them that pages.
FAILURES = {
    "the only worker of a group dies": (
        {"alertname": "NeardupGroupGone", "group": "g"},
        {"alertname": "NeardupWorkerDown", "group": "g", "instance": "a"},
        {"alertname": "NeardupKafkaErrors", "group": "g", "instance": "a"},
    ),
    "no worker ever answered": (
        {"alertname": "NeardupGroupGone"},
        {"alertname": "NeardupWorkerDown", "instance": "c"},
    ),
    "the brokers take no transaction": (
        {"alertname": "NeardupNothingIsAnswered", "group": "h"},
        {"alertname": "NeardupWorkerStuck", "group": "h", "instance": "d"},
        {"alertname": "NeardupWorkerStuck", "group": "h", "instance": "e"},
        {"alertname": "NeardupFallsBehind", "group": "h"},
    ),
    "a worker of a group that goes on dies": (
        {"alertname": "NeardupWorkerDown", "group": "i", "instance": "k"},
    ),
}


def test_one_failure_pages_once(tmp_path: Path) -> None:
    """
    Alertmanager, with the sample as it stands, is given the alerts of several failures at a time:
    of each only the first one is not kept back.
    """
    folder = _folder_of("amtool", "prometheus-alertmanager")
    sample = DEPLOY / "prometheus" / "alertmanager.yml"
    bounded.run("amtool check-config", PROMTOOL_S, folder / "amtool", "check-config", sample)
    program = next(path for path in folder.glob("*alertmanager"))
    [port] = free_ports()
    url = f"http://127.0.0.1:{port}/api/v2/alerts"
    # Debian's reads its templates from where the package would have put them. They stand there in
    # a mount of this process alone.
    shared = folder.parent / "share"
    options = [
        f"--config.file={sample}", f"--storage.path={tmp_path}",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    mounted = 'mount --bind "$0" /usr/share && exec "$@"'
    command: list[str | Path] = ["unshare", "--mount", "sh", "-c", mounted, shared, program]
    command += options
    alerts = [{"labels": labels} for failure in FAILURES.values() for labels in failure]

    def active() -> list[dict[str, str]]:
        with urllib.request.urlopen(f"{url}?inhibited=false", timeout=30) as answer:
            return [alert["labels"] for alert in json.load(answer)]

    def is_taken() -> bool:
        body = json.dumps(alerts).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    with (
        (tmp_path / "alertmanager.log").open("wb") as log,
        bounded.running("Alertmanager", *command, stdout=log, stderr=log),
    ):
        eventually(is_taken, "Alertmanager serves")
        pages = [failure[0] for failure in FAILURES.values()]
        eventually(lambda: len(active()) == len(pages), "the others are kept back", 60)
        assert all(page in active() for page in pages)
