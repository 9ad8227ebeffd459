"""The deployment files agree with the program: commands, settings, the broker's version and limits."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
import yaml
from typer.testing import CliRunner

from tests.conftest import REPOSITORY
from worker.cli import app
from worker.devkit.broker.cluster import lay_out, server_properties
from worker.devkit.broker.runtime import KAFKA_VERSION
from worker.settings import load_settings

DEPLOY = REPOSITORY / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")

# What differs on purpose: a container has other addresses and folders than this machine.
OF_THE_PLACE = {
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "log.dirs",
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


def test_services_name_only_what_there_is(compose: dict[str, Any]) -> None:
    """Dependencies are services, named volumes are declared, build files exist."""
    for service in compose["services"].values():
        assert set(service.get("depends_on", ())) <= set(compose["services"])
        named = {volume.split(":")[0] for volume in service.get("volumes", ())}
        assert named <= set(compose["volumes"])
        if build := service.get("build"):
            assert (DEPLOY / build["context"]).resolve() == REPOSITORY
            assert (REPOSITORY / build["dockerfile"]).is_file()
    assert len({service["environment"].get("NEARDUP_WORKER_ID") for service in workers_of(compose)}) == 3


def test_the_workers_environment_is_settings(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each variable is a setting and its value is taken, and so are the image's own."""
    for service in workers_of(compose):
        environment = {**dict(re.findall(r"\b(NEARDUP_\w+)=(\S+)", DOCKERFILE)), **service["environment"]}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        loaded = load_settings()
        assert {loaded.origins[name.removeprefix("NEARDUP_").lower()] for name in environment} == {"environment"}
        assert loaded.settings.bootstrap == "kafka:9092"
        assert loaded.settings.worker_id == service["environment"]["NEARDUP_WORKER_ID"]


def test_the_commands_exist(compose: dict[str, Any]) -> None:
    """`worker` and `topics create` are commands of the program."""
    commands = [service["command"] for service in compose["services"].values() if "command" in service]
    assert [CliRunner().invoke(app, [*command, "--help"]).exit_code for command in commands] == [0, 0, 0, 0]


def test_the_container_broker_is_the_embedded_one(compose: dict[str, Any]) -> None:
    """Same version, and each setting that is given here has the embedded broker's value."""
    kafka = compose["services"]["kafka"]
    assert kafka["image"] == f"apache/kafka:{KAFKA_VERSION}"
    embedded = dict(line.split("=", 1) for line in server_properties(lay_out(1, 0), 1, DEPLOY).splitlines())
    given = {name.removeprefix("KAFKA_").lower().replace("_", "."): v for name, v in kafka["environment"].items()}
    assert set(given) <= set(embedded)
    compared = set(given) - OF_THE_PLACE
    assert {name: str(given[name]) for name in compared} == {name: embedded[name] for name in compared}


def test_the_image_runs_as_nobody_special_and_compiles_for_any_processor() -> None:
    """The last user is not root; kernels are compiled while building, for x86-64-v3 and no other feature."""
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert users
    assert users[-1] not in {"root", "0"}
    environment, warm_up = DOCKERFILE.index("NUMBA_CPU_NAME=x86-64-v3"), DOCKERFILE.index("RUN neardup warm-up")
    assert DOCKERFILE.index(f"USER {users[-1]}") < environment < warm_up
    assert re.search(r"^ +NUMBA_CPU_FEATURES= \\$", DOCKERFILE, re.MULTILINE)


def workers_of(compose: dict[str, Any]) -> list[dict[str, Any]]:
    return [service for service in compose["services"].values() if service.get("command") == ["worker"]]
