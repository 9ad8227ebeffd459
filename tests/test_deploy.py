"""
What operators are given agrees with the program: metrics, alerts, settings, probes, topics, the
broker.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
import yaml
from prometheus_client import REGISTRY
from typer.testing import CliRunner

from tests.conftest import REPOSITORY, output_of
from tests.generated import SETTINGS, settings_page
from worker.cli import app
from worker.devkit.broker.cluster import lay_out, server_properties
from worker.devkit.broker.runtime import KAFKA_VERSION
from worker.settings import CONFIG_VARIABLE, Settings, env_name, environment, load_settings
from worker.settings.librdkafka import properties
from worker.shell.kafka.topics import topic_specs
from worker.shell.runtime import metrics

DEPLOY = REPOSITORY / "deploy"
RUNBOOK = (DEPLOY / "runbook.md").read_text()
DASHBOARD = json.loads((DEPLOY / "grafana" / "neardup.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
IMAGE = (DEPLOY / "Dockerfile").read_text()
MANIFESTS = [
    manifest
    for path in sorted((DEPLOY / "kubernetes").iterdir())
    if path.name != "kustomization.yaml"
    for manifest in yaml.safe_load_all(path.read_text())
]
PODS = [
    found["spec"]["template"]["spec"]
    for found in MANIFESTS
    if found["kind"] in ("StatefulSet", "Job")
]
MAPS = {
    manifest["metadata"]["name"]: manifest["data"]
    for manifest in MANIFESTS
    if manifest["kind"] == "ConfigMap"
}
CONFIG = MAPS["neardup"]
UNIT = (DEPLOY / "systemd" / "neardup-worker.service").read_text()
OF_THE_PROCESS = {"process_resident_memory_bytes", "process_start_time_seconds"}


def _served() -> set[str]:
    """Return every name that a scrape may hold."""
    names = set(OF_THE_PROCESS)
    for family in REGISTRY.collect():
        ends = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_sum", "_count"),
            "info": ("_info",),
        }
        names |= {family.name + end for end in ends.get(family.type, ("",))}
    return names


def _expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (variable["query"] for variable in DASHBOARD["templating"]["list"])


def test_what_is_drawn_and_alerted_on_is_served_and_all_of_that() -> None:
    """
    Each metric in the dashboard and in the rules is one of metrics.py; one that nobody looks at is
    not kept.
    """
    drawn = " ".join(_expressions())
    assert set(re.findall(r"\b(?:neardup|process)_\w+", drawn)) <= _served()
    ours = {family.name for family in REGISTRY.collect() if family.name.startswith("neardup_")}
    unseen = {name for name in ours if name not in drawn}
    assert not unseen, f"no panel of neardup.json and no rule of alerts.yml has {sorted(unseen)}"
    [stages] = (family for family in REGISTRY.collect() if family.name == "neardup_stage_seconds")
    # Also of no time yet.
    assert {sample.labels["stage"] for sample in stages.samples} == set(metrics.STAGES)


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_is_of_one_group_and_leads_to_what_is_to_be_done(rule: dict[str, Any]) -> None:
    """
    A group that answers hides no other; the link ends at a heading with something to ask or to run.
    """
    for aggregated in re.findall(r"\b(?:sum|max|min|avg|count)\b(?!_)(.{9})", rule["expr"]):
        assert aggregated == " by (grou"
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["runbook_url"] == f"deploy/runbook.md#{rule['alert'].lower()}"
    page = re.search(rf"^### {rule['alert']}\n(.+?)\n#", RUNBOOK, re.MULTILINE | re.DOTALL)
    assert page and "`" in page[1]
    assert page[1].startswith(f"*{rule['labels']['severity']}*\n")


def test_the_alerts_of_the_runbook_are_in_alphabetical_order() -> None:
    """At night, a name is looked up by its letters; and the page has no alert that is gone."""
    names = re.findall(r"^### (Neardup\w+)$", RUNBOOK, re.MULTILINE)
    assert names == sorted(rule["alert"] for rule in RULES)


def _seconds(rule: dict[str, Any]) -> int:
    """How long a condition lasts before its alert fires; if it counts, over what time it does."""
    ranges = re.findall(r"\[(\w+)\]", rule["expr"])
    times = [rule["for"]] if "for" in rule else ranges
    return max(
        int(time[:-1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[time[-1]] for time in times
    )


def test_an_alert_that_another_one_explains_fires_no_earlier() -> None:
    """
    Each name in Alertmanager's sample is a rule's; an alert that is kept back would page if it came
    first.
    """
    sample = yaml.safe_load((DEPLOY / "prometheus" / "alertmanager.yml").read_text())
    assert len(sample["inhibit_rules"]) == 6
    for inhibition in sample["inhibit_rules"]:
        [named] = inhibition["source_matchers"]
        [source] = (rule for rule in RULES if f"alertname = {rule['alert']}" == named)
        pattern, *_ = inhibition["target_matchers"]
        name = re.compile(re.fullmatch(r'alertname =~? "?(.+?)"?', pattern)[1])  # type: ignore[index]
        targets = [rule for rule in RULES if name.fullmatch(rule["alert"]) and rule != source]
        assert targets
        assert all(_seconds(target) >= _seconds(source) for target in targets)
        assert name.pattern.count("|") in (0, len(targets) - 1)


def test_prometheus_tells_an_alertmanager() -> None:
    """Without the section, alerts fire and nobody hears of them."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    [told] = config["alerting"]["alertmanagers"]
    assert told["static_configs"] == [{"targets": ["alertmanager:9093"]}]


def test_the_job_for_kubernetes_can_be_used_as_it_stands() -> None:
    """Without its comment signs it is a job like the one that it replaces, one rule per line."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    _, comment = text.split("  # In Kubernetes")
    lines = [line.removeprefix("  # ") for line in comment.splitlines()[1:]]
    assert all(line.count("{") == line.count("}") for line in lines)
    [job] = yaml.safe_load("\n".join(lines))
    [ours] = yaml.safe_load(text)["scrape_configs"]
    assert job["job_name"] == ours["job_name"]
    assert set(re.findall(r'job="(\w+)"', str(RULES))) == {ours["job_name"]}
    assert [config["action"] for config in job["relabel_configs"][:2]] == ["keep", "keep"]


def test_every_alert_is_provoked() -> None:
    """
    `make test-deploy` has promtool play them; here that none is left out, and that some must trip
    none.
    """
    played = yaml.safe_load((DEPLOY / "prometheus" / "alerts.test.yml").read_text())
    names = [test["name"].partition(":")[0] for test in played["tests"]]
    assert list(dict.fromkeys(names)) == [*(rule["alert"] for rule in RULES), "silent"]


def test_the_pod_for_repairs_has_what_the_workers_have() -> None:
    """
    Settings, definition and rights are the workers'; the policy holds for it, and no Service
    counts it among the workers or sets variables in it.
    """
    pod = yaml.safe_load((DEPLOY / "examples" / "repair.yaml").read_text())
    kubernetes_validate.validate(pod, "1.32", strict=True)
    [stateful] = (found for found in MANIFESTS if found["kind"] == "StatefulSet")
    [policy] = (found for found in MANIFESTS if found["kind"] == "NetworkPolicy")
    [labels] = policy["spec"]["podSelector"]["matchExpressions"]
    label = pod["metadata"]["labels"][labels["key"]]
    assert label in labels["values"]
    assert label not in stateful["spec"]["selector"]["matchLabels"].values()
    model = stateful["spec"]["template"]["spec"]
    shared = ("securityContext", "enableServiceLinks", "automountServiceAccountToken")
    assert [pod["spec"][name] for name in shared] == [model[name] for name in shared]
    assert all(volume in pod["spec"]["volumes"] for volume in model["volumes"])
    [container] = pod["spec"]["containers"]
    [worker] = model["containers"]
    for name in ("image", "envFrom", "securityContext"):
        assert container[name] == worker[name]
    assert all(mount in container["volumeMounts"] for mount in worker["volumeMounts"])
    assert all(entry in worker["env"] for entry in container["env"])
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_manifests_are_of_kubernetes_schema(manifest: dict[str, Any]) -> None:
    """Every field is known, and of its type; KEDA's own kind is not Kubernetes'."""
    if manifest["kind"] != "ScaledObject":
        kubernetes_validate.validate(manifest, "1.32", strict=True)


OVERLAY = DEPLOY / "examples" / "overlay"


def _kustomization(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return loaded


def test_the_base_is_the_manifests_and_the_overlay_changes_what_they_have() -> None:
    """All but what needs KEDA; a name in the overlay that no manifest has would change nothing."""
    files = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")}
    resources = set(_kustomization(DEPLOY / "kubernetes")["resources"])
    assert resources == files - {"kustomization.yaml", "scaling.yaml"}
    overlay = _kustomization(OVERLAY)
    assert (OVERLAY / overlay["resources"][0]).resolve() == DEPLOY / "kubernetes"
    images = {
        container["image"].partition(":")[0]
        for pod in PODS
        for container in [*pod["containers"], *pod.get("initContainers", ())]
    }
    assert {image["name"] for image in overlay["images"]} == images
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in MANIFESTS}
    assert {("StatefulSet", each["name"]) for each in overlay["replicas"]} <= names
    settings = yaml.safe_load(overlay["patches"][0]["patch"])
    assert (settings["kind"], settings["metadata"]["name"]) in names
    assert settings["data"].keys() <= CONFIG.keys()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_builds_the_base_and_the_overlay() -> None:
    """
    The base is the manifests, unchanged; the overlay has its own registry, brokers and namespace,
    and nothing is left to fill in.
    """

    def by_name(manifests: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
        """Return manifests by kind and name: there are two Services."""
        return {(found["kind"], found["metadata"]["name"]): found for found in manifests}

    def built(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
        return by_name(yaml.safe_load_all(output_of("kubectl", "kustomize", folder)))

    applied = by_name(found for found in MANIFESTS if found["kind"] != "ScaledObject")
    assert len(applied) == len(MANIFESTS) - 1
    assert built(DEPLOY / "kubernetes") == applied
    overlay = built(OVERLAY)
    assert overlay.keys() == applied.keys()
    for manifest in overlay.values():
        kubernetes_validate.validate(manifest, "1.32", strict=True)
        assert manifest["metadata"]["namespace"] == "crawl"
    assert "REGISTRY" not in str(overlay) and "kafka-0" not in str(overlay)
    assert (
        overlay["ConfigMap", "neardup"]["data"]["NEARDUP_LOG_FORMAT"]
        == CONFIG["NEARDUP_LOG_FORMAT"]
    )
    brokers = overlay["NetworkPolicy", "neardup"]["spec"]["egress"][0]
    assert brokers["to"] == [{"podSelector": {"matchLabels": {"strimzi.io/cluster": "crawl"}}}]
    assert brokers["ports"] == applied["NetworkPolicy", "neardup"]["spec"]["egress"][0]["ports"]


def test_workers_are_scaled_by_the_lag_of_their_group() -> None:
    """To no more than there are partitions, at the brokers that the workers have."""
    (scaled,) = (manifest["spec"] for manifest in MANIFESTS if manifest["kind"] == "ScaledObject")
    (trigger,) = (found["metadata"] for found in scaled["triggers"])
    settings = Settings()
    assert (trigger["consumerGroup"], trigger["topic"]) == (
        settings.group,
        settings.topic_documents,
    )
    assert trigger["bootstrapServers"] == CONFIG["NEARDUP_BOOTSTRAP"]
    assert scaled["maxReplicaCount"] == int(CONFIG["NEARDUP_PARTITIONS"])


def test_one_service_builds_the_image_and_the_others_wait_for_it() -> None:
    """Docker builds services side by side: a second build of the name would find that it exists."""
    others = [one for one in SERVICES.values() if one["image"] == "neardup" and "build" not in one]
    assert [name for name, one in SERVICES.items() if "build" in one] == ["topics"]
    assert len(others) == 3
    for one in others:
        assert one["pull_policy"] == "never"
        assert one["depends_on"]["topics"] == {"condition": "service_completed_successfully"}


def _environments() -> Iterator[dict[str, str]]:
    """Yield what each deployment gives its workers."""
    for service in SERVICES.values():
        if service.get("command") == ["worker"]:
            yield {**dict(re.findall(r"\b(NEARDUP_\w+)=(\S+)", IMAGE)), **service["environment"]}
    yield {
        **CONFIG,
        **{
            one["name"]: one.get("value", "neardup-0")
            for pod in PODS
            for c in pod["containers"]
            for one in c.get("env", ())
        },
    }


def _definition(place: str) -> str:
    """Return the definition that Kubernetes and Docker Compose put at a place; they are equal."""
    folder, _, name = place.rpartition("/")
    [worker] = [c for pod in PODS for c in pod["containers"] if c["name"] == "worker"]
    [mount] = [one for one in worker["volumeMounts"] if one["mountPath"] == folder]
    [volume] = [
        one for pod in PODS for one in pod.get("volumes", ()) if one["name"] == mount["name"]
    ]
    found = MAPS[volume["configMap"]["name"]][name]
    targets = {
        one["source"]
        for service in SERVICES.values()
        for one in service.get("configs", ())
        if one["target"] == place
    }
    assert [COMPOSE["configs"][target]["content"] for target in targets] == [found]
    return str(found)


@pytest.mark.parametrize("environment", list(_environments()))
def test_the_workers_environment_is_settings(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    Each variable is a setting and its value is taken, and so are the image's own; no two workers
    have one id. The definition that they are given is the default's.
    """
    given = environment | {"NEARDUP_DEFINITION": str(tmp_path / "definition.toml")}
    (tmp_path / "definition.toml").write_text(_definition(environment["NEARDUP_DEFINITION"]))
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    loaded = load_settings()
    assert loaded.settings.rules == Settings().rules
    assert {loaded.origins[name.removeprefix("NEARDUP_").lower()] for name in environment} == {
        "environment"
    }
    assert loaded.settings.worker_id == environment["NEARDUP_WORKER_ID"]
    ids = [found["NEARDUP_WORKER_ID"] for found in _environments()]
    assert len(set(ids)) == len(ids) == 4


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    """With a program that is there in place of the worker."""
    (tmp_path / "neardup-worker.service").write_text(
        UNIT.replace("/opt/neardup/bin/neardup", sys.executable)
    )
    result = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "neardup-worker.service"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, "neardup-worker" in result.stderr) == (0, False), result.stderr


def test_a_wrong_setting_is_not_tried_again_for_ever() -> None:
    """The exit code that the unit names is the one that the program uses."""
    codes = re.findall(r"^RestartPreventExitStatus=(.+)$", UNIT, re.MULTILINE)
    assert codes == [str(typer.BadParameter.exit_code)]


def test_the_units_environment_is_settings() -> None:
    """Each NEARDUP_ variable is a setting, one of Kafka's own settings, or the file of settings."""
    named = set(re.findall(r"\b(NEARDUP_\w+)=", UNIT + str(MANIFESTS)))
    kafkas = set(environment({"kafka": dict.fromkeys(properties(), "")}))
    ours = {env_name(name) for name in Settings.model_fields} | {CONFIG_VARIABLE}
    assert named <= ours | kafkas


def test_a_workers_id_is_its_pods_name() -> None:
    """
    A pod that comes back takes its own slot in the group; it is asked where it answers, and writes
    where it may.
    """
    stateful = next(manifest for manifest in MANIFESTS if manifest["kind"] == "StatefulSet")
    (worker,) = stateful["spec"]["template"]["spec"]["containers"]
    identity = next(entry for entry in worker["env"] if entry["name"] == "NEARDUP_WORKER_ID")
    assert identity["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    asked = {
        probe: found["httpGet"]["path"]
        for probe, found in worker.items()
        if probe.endswith("Probe")
    }
    assert asked == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in worker["volumeMounts"]}
    assert f"NEARDUP_STATE_DIR={mounts['state']}" in IMAGE


def test_questions_come_in_by_one_port_and_from_labelled_pods_alone() -> None:
    """
    The port of the policy is that of the Service and of the container; without a token questions are
    off.
    """
    [policy] = (manifest["spec"] for manifest in MANIFESTS if manifest["kind"] == "NetworkPolicy")
    [service] = (found for found in MANIFESTS if found["metadata"]["name"] == "neardup-ask")
    [stateful] = (manifest for manifest in MANIFESTS if manifest["kind"] == "StatefulSet")
    [container] = stateful["spec"]["template"]["spec"]["containers"]
    [asked] = (port for port in container["ports"] if port["name"] == "http")
    [given] = service["spec"]["ports"]
    [rule] = (
        rule
        for rule in policy["ingress"]
        if rule["ports"] == [{"protocol": "TCP", "port": asked["containerPort"]}]
        and any("podSelector" in source for source in rule["from"])
    )
    assert (given["port"], given["targetPort"]) == (asked["containerPort"], "http")
    assert all(source["podSelector"]["matchLabels"] for source in rule["from"])
    assert service["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"]
    assert "NEARDUP_METRICS_HOST=0.0.0.0" in IMAGE
    assert "NEARDUP_ASK_TOKEN" not in CONFIG


@pytest.mark.parametrize("pod", PODS)
def test_pods_have_no_more_rights_than_they_need(pod: dict[str, Any]) -> None:
    """Not root, nothing to gain, a root file system that cannot be written, memory limited."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] is True
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def test_the_image_runs_as_nobody_special_and_carries_machine_code() -> None:
    """
    The last user is not root. The wheel that the image installs last has the code that
    `worker.devkit.machine_code` made, and no variable makes numba look for another.
    """
    *_, user = re.findall(r"^USER (\S+)$", IMAGE, re.MULTILINE)
    assert user not in {"root", "0"}
    made = IMAGE.index("-m worker.devkit.machine_code /machine_code")
    assert made < IMAGE.index("MACHINE_CODE=/machine_code $pip")
    assert "NUMBA" not in IMAGE


def test_the_image_gets_all_that_a_build_reads() -> None:
    """The packages, what pyproject.toml names, and the pins: each is copied, and none is ignored."""
    described = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    targets = described["tool"]["hatch"]["build"]["targets"]["wheel"]
    hook = targets["hooks"]["custom"]["path"]
    project = described["project"]
    copied = {
        name
        for names in re.findall(r"^COPY (?!--)(.+) \S+$", IMAGE, re.MULTILINE)
        for name in names.split()
    }
    wanted = {"pyproject.toml", project["readme"], *project["license-files"], hook}
    assert copied == wanted | {*targets["only-include"], "deploy/constraints.txt"}
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert copied == {line.removeprefix("!") for line in ignored if line.startswith("!")}


def test_the_commands_of_the_containers_exist() -> None:
    """`worker` and `topics create` are commands of the program."""
    commands = [service["command"] for service in SERVICES.values() if "command" in service]
    assert [CliRunner().invoke(app, [*command, "--help"]).exit_code for command in commands] == [
        0
    ] * 4


def test_topics_are_those_that_the_command_makes() -> None:
    """The list for those who create topics by other means is what `topics create` does."""
    lines = (DEPLOY / "kafka" / "topics.tsv").read_text().splitlines()
    listed = [line.split("\t") for line in lines if not line.startswith("#")]
    made = [
        [want.name, str(want.partitions), dict(want.config)]
        for want in topic_specs(Settings(bootstrap="kafka:9092"))
    ]
    assert [
        [name, count, dict(pair.split("=") for pair in config.split())]
        for name, count, config in listed
    ] == made


OF_THE_PLACE = (
    "listeners",
    "quorum.voters",
    "inter.broker.listener.name",
    "security.protocol.map",
    "log.dirs",
)


def _embedded(nodes: int) -> dict[str, str]:
    properties = server_properties(lay_out(nodes, 0), 1, DEPLOY).splitlines()
    return dict(line.split("=", 1) for line in properties if not line.startswith("#"))


def test_the_tests_run_on_the_broker_that_is_recommended() -> None:
    """
    The container's is the embedded one, by version and each setting but places; the hints agree
    with it, too.
    """
    container, embedded = SERVICES["kafka"], _embedded(1)
    assert container["image"] == f"apache/kafka:{KAFKA_VERSION}"
    given = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): v
        for name, v in container["environment"].items()
    }
    given = {name: str(value) for name, value in given.items() if not name.endswith(OF_THE_PLACE)}
    assert {name: embedded.get(name) for name in given} == given
    embedded = _embedded(3)
    lines = (DEPLOY / "kafka" / "server.properties").read_text().splitlines()
    hints = dict(line.split("=") for line in lines if "=" in line)
    del hints[
        "group.initial.rebalance.delay.ms"
    ]  # tests do not wait for members that are not there
    hints = {name: value for name, value in hints.items() if name in embedded}
    assert {name: embedded[name] for name in hints} == hints


def _literals(*, docstrings: bool = True) -> str:
    """Return the texts of the program, those of one string joined, with a mark for each value."""
    texts: list[str] = []
    for path in sorted((REPOSITORY / "worker").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        lone = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        # The help of a command is its docstring.
        left_out = set() if docstrings or path.parent.name == "cli" else lone
        for node in ast.walk(tree):
            if node in left_out:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [
                    part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                ]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


# What a text may tell people to delete, and why nothing is lost by it.
MAY_GO = {
    "It is empty. Delete it and create it again": "`_log_of_many` says so of an empty log alone",
    "or remove it from the folder": "of a file that a folder names twice: out of the folder",
    "kubectl delete pod": "its StatefulSet starts it again, with the same volume",
}


def test_no_remedy_destroys_what_cannot_be_made_again() -> None:
    """
    A log is the state of its group, and a state or a snapshot may be the last copy of it. So texts
    say to leave such a thing, to name another one, or to move it away.
    """
    pages = [*DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.md"), REPOSITORY / "README.md"]
    texts = [_literals(docstrings=False), *(path.read_text() for path in pages)]
    text = " ".join("\n".join(texts).split())
    for allowed in MAY_GO:
        assert allowed in text
        text = text.replace(allowed, "")
    orders = r"(?:[.;:|] |\bor |\bthen |\band )(?:delete|remove|recreate|truncate|rm -\w+)\b"
    things = r"(?: and create)? (?:it|them|this|that|the|its|these|those|your|<\w+>|/)\b"
    found = re.finditer(orders + things, text, re.IGNORECASE)
    assert [text[max(one.start() - 80, 0) : one.end() + 40] for one in found] == []


def test_the_words_of_each_refusal_are_those_of_the_program() -> None:
    """The first column of "Refusals" quotes errors; an operator looks them up by their words."""
    table = RUNBOOK.partition("## Refusals\n")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    words = [word for row in rows for word in re.findall(r"`([^`]+)`", row.split("|")[1])]
    texts = _literals()
    assert len(words) > 30
    assert [word for word in words if word not in texts] == []
    firsts = [re.sub(r"[^a-z ]", "", row.split("`")[1].lower()) for row in rows]
    assert firsts == sorted(firsts)


def test_the_page_of_settings_is_current() -> None:
    """Otherwise: make docs."""
    assert SETTINGS.read_text("utf-8") == settings_page(), "settings.md is not current: make docs"
