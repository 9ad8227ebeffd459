"""What operators are given agrees with the program: metrics, settings, probes, topics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prometheus_client import REGISTRY

from tests.conftest import REPOSITORY
from worker.devkit.broker.cluster import lay_out, server_properties
from worker.settings import CONFIG_VARIABLE, Settings, env_name, load_settings
from worker.shell.kafka import topics
from worker.shell.runtime import metrics

DEPLOY = REPOSITORY / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "neardup.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
MANIFESTS = [
    manifest for path in sorted((DEPLOY / "kubernetes").iterdir()) for manifest in yaml.safe_load_all(path.read_text())
]
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_start_time_seconds"}


def _served() -> set[str]:
    """Return every name that a scrape may hold."""
    names = set(OF_THE_PROCESS)
    for family in REGISTRY.collect():
        ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
        names |= {family.name + end for end in ends.get(family.type, ("",))}
    return names


def _expressions() -> Iterator[str]:
    for rule in ALERTS["groups"][0]["rules"]:
        yield rule["expr"]
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["query"] for variable in DASHBOARD["templating"]["list"])


@pytest.mark.parametrize("expression", list(_expressions()))
def test_what_is_drawn_and_alerted_on_is_served(expression: str) -> None:
    """Each metric in the dashboard and in the rules is one of metrics.py."""
    assert set(re.findall(r"\b(?:neardup|process)_\w+", expression)) <= _served()
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_every_metric_is_drawn_somewhere() -> None:
    """A metric that nobody looks at is not kept up to date: all are on the dashboard or alert."""
    drawn = " ".join(_expressions())
    ours = {family.name for family in REGISTRY.collect() if family.name.startswith("neardup_")}
    assert not {name for name in ours if name not in drawn}


def test_every_stage_is_a_label() -> None:
    """The dashboard shows each stage from the start, also one that has taken no time yet."""
    found = next(family for family in REGISTRY.collect() if family.name == "neardup_stage_seconds")
    assert {sample.labels["stage"] for sample in found.samples} == set(metrics.STAGES)


def test_every_alert_is_provoked() -> None:
    """`make test-deploy` has promtool play them; here that none is left out, and that some must trip none."""
    played = yaml.safe_load((DEPLOY / "prometheus" / "alerts.test.yml").read_text())
    names = [test["name"].partition(":")[0] for test in played["tests"]]
    assert list(dict.fromkeys(names)) == [*(rule["alert"] for rule in ALERTS["groups"][0]["rules"]), "silent"]


@pytest.mark.parametrize("expression", [rule["expr"] for rule in ALERTS["groups"][0]["rules"]])
def test_no_sum_is_of_two_groups(expression: str) -> None:
    """One that answers would hide another that does not."""
    for aggregated in re.findall(r"\b(?:sum|max|min|avg|count)\b(?!_)(.{9})", expression):
        assert aggregated == " by (grou"


def test_alerts_say_what_to_do() -> None:
    """Each has a summary, a description and a severity, and a name of its own."""
    rules = ALERTS["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
        assert rule["labels"]["severity"] in {"warning", "critical"}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_manifests_are_of_kubernetes_schema(manifest: dict[str, Any]) -> None:
    """Every field is known, and of its type; KEDA's own kind is not Kubernetes'."""
    if manifest["kind"] != "ScaledObject":
        kubernetes_validate.validate(manifest, "1.32", strict=True)


def test_workers_are_scaled_by_the_lag_of_their_group() -> None:
    """To no more than there are partitions, at the brokers that the workers have."""
    (scaled,) = (manifest["spec"] for manifest in MANIFESTS if manifest["kind"] == "ScaledObject")
    (config,) = (manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    (trigger,) = (found["metadata"] for found in scaled["triggers"])
    settings = Settings()
    assert (trigger["consumerGroup"], trigger["topic"]) == (settings.group, settings.topic_documents)
    assert trigger["bootstrapServers"] == config["NEARDUP_BOOTSTRAP"]
    assert scaled["maxReplicaCount"] == int(config["NEARDUP_PARTITIONS"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """With a program that is there in place of the worker."""
    unit = (DEPLOY / "systemd" / "neardup-worker.service").read_text()
    (tmp_path / "neardup-worker.service").write_text(unit.replace("/opt/neardup/bin/neardup", sys.executable))
    result = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "neardup-worker.service"], capture_output=True, text=True, check=False
    )
    assert (result.returncode, "neardup-worker" in result.stderr) == (0, False), result.stderr


def test_the_units_environment_is_settings() -> None:
    """Each NEARDUP_ variable is a setting, or the file of settings."""
    unit = (DEPLOY / "systemd" / "neardup-worker.service").read_text()
    named = set(re.findall(r"\b(NEARDUP_\w+)=", unit))
    assert named <= {env_name(name) for name in Settings.model_fields} | {CONFIG_VARIABLE}


def _pods() -> list[dict[str, Any]]:
    return [
        manifest["spec"]["template"]["spec"] for manifest in MANIFESTS if manifest["kind"] in ("StatefulSet", "Job")
    ]


def test_environment_of_the_manifests_is_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each NEARDUP_ variable is a setting, and its value is taken."""
    config = next(manifest["data"] for manifest in MANIFESTS if manifest["kind"] == "ConfigMap")
    extra = {entry["name"]: "neardup-0" for pod in _pods() for c in pod["containers"] for entry in c.get("env", ())}
    for name, value in {**config, **extra}.items():
        monkeypatch.setenv(name, value)
    origins = load_settings().origins
    assert {origins[name.removeprefix("NEARDUP_").lower()] for name in {**config, **extra}} == {"environment"}


def test_a_workers_id_is_its_pods_name() -> None:
    """A pod that comes back takes its own slot in the group."""
    stateful = next(manifest for manifest in MANIFESTS if manifest["kind"] == "StatefulSet")
    (worker,) = stateful["spec"]["template"]["spec"]["containers"]
    identity = next(entry for entry in worker["env"] if entry["name"] == "NEARDUP_WORKER_ID")
    assert identity["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert {
        probe: worker[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    } == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in worker["volumeMounts"]}
    image = (DEPLOY / "Dockerfile").read_text()
    assert f"NUMBA_CACHE_DIR={mounts['cache']}" in image
    assert f"NEARDUP_STATE_DIR={mounts['state']}" in image


@pytest.mark.parametrize("pod", _pods())
def test_pods_have_no_more_rights_than_they_need(pod: dict[str, Any]) -> None:
    """Not root, nothing to gain, a root file system that cannot be written, memory limited."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def test_topics_are_those_that_the_command_makes() -> None:
    """The list for those who create topics by other means is what `topics create` does."""
    lines = (DEPLOY / "kafka" / "topics.tsv").read_text().splitlines()
    listed = [line.split("\t") for line in lines if not line.startswith("#")]
    made = [
        [want.name, str(want.partitions), dict(want.config)] for want in topics.specs(Settings(bootstrap="kafka:9092"))
    ]
    assert [[name, count, dict(pair.split("=") for pair in config.split())] for name, count, config in listed] == made


def test_broker_hints_are_what_the_embedded_cluster_has() -> None:
    """Where both name a setting, three embedded nodes have the recommended value: the tests run on it."""
    hints = dict(
        line.split("=") for line in (DEPLOY / "kafka" / "server.properties").read_text().splitlines() if "=" in line
    )
    embedded = dict(line.split("=", 1) for line in server_properties(lay_out(3, 0), 1, DEPLOY).splitlines())
    on_purpose = {"group.initial.rebalance.delay.ms"}  # tests do not wait for members that are not there
    assert {name: embedded[name] for name in hints if name in embedded and name not in on_purpose} == {
        name: value for name, value in hints.items() if name in embedded and name not in on_purpose
    }
