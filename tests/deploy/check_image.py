"""
The image, built without Docker or a registry: its size, who it runs as, and that it judges
documents at once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path

from tests.conftest import REPOSITORY, Kafka
from tests.deploy import bounded
from tests.faults.crawl import crawl
from tests.faults.harness import Deployment

# Not in the repository: it holds a whole system, /dev/full included.
WORK = user_cache_path("neardup") / "image"
SIZE_MB_MAX = 460
TOOL = ["buildah", "--root", str(WORK / "storage"), "--runroot", str(WORK / "run")]
ENVIRONMENT = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
PORT = 9464
# Three to seven minutes on two cores, three of which compile the kernels; a first build makes the base, too.
BUILD_S = 2400.0
TOOL_S = 300.0  # a new container is a copy of all layers
pytestmark = pytest.mark.timeout(BUILD_S + 600)  # the first test builds


def _tool(*arguments: str) -> str:
    what = f"buildah {arguments[0]}"
    command = [*TOOL, *arguments]
    return bounded.run(what, TOOL_S, *command, env=ENVIRONMENT, stdout=subprocess.PIPE).strip()


@pytest.fixture(scope="module")
def container(request: pytest.FixtureRequest) -> Iterator[str]:
    """A container of the image, built now; the build's steps are shown as they begin."""
    if os.geteuid() != 0:
        pytest.fail("building without a daemon wants root: sudo make test-deploy", pytrace=False)
    build = REPOSITORY / "deploy" / "image" / "build.sh"
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        bounded.run("build.sh", BUILD_S, build, WORK)
    name = _tool("from", "--pull=never", "localhost/neardup")
    yield name
    _tool("rm", name)


@contextmanager
def _running(
    container: str, *arguments: str, output: Any = subprocess.PIPE, **settings: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run the entry point with these arguments and settings; afterwards it has ended."""
    environment = [f"--env=NEARDUP_{name.upper()}={value}" for name, value in settings.items()]
    command = [*TOOL, "run", *environment, container, "--", "neardup", *arguments]
    with bounded.running(
        f"the image's {arguments[0]}", *command,
        env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=output, stderr=output,
    ) as process:  # fmt: skip
        yield process


def test_the_image_is_small(container: str) -> None:
    """Below 460 MB, base included: no tests, no caches, no pip beside the base's."""
    mounted = Path(_tool("mount", container))
    megabytes = int(subprocess.check_output(["du", "-sxm", mounted], text=True).split()[0])
    print(f"the image has {megabytes} MB")
    assert megabytes < SIZE_MB_MAX
    assert not list(mounted.glob("opt/neardup/lib/python*/site-packages/pip"))
    assert not list(mounted.glob("opt/neardup/lib/python*/site-packages/*/tests"))


def test_the_image_is_what_its_file_says(container: str) -> None:
    """User, entry point, command, port and volume."""
    config = json.loads(_tool("inspect", container))["OCIv1"]["config"]
    assert (config["User"], config["Entrypoint"], config["Cmd"]) == (
        "neardup",
        ["neardup"],
        ["worker"],
    )
    assert (list(config["ExposedPorts"]), list(config["Volumes"])) == (
        ["9464/tcp"],
        ["/var/lib/neardup"],
    )
    assert _tool("run", container, "--", "id", "--user") == "10001"


def test_the_image_carries_machine_code(container: str) -> None:
    """A first command loads the code of its kernels, and neither compiles nor stores any."""
    mounted = Path(_tool("mount", container))
    came = list(mounted.glob("opt/neardup/lib/python*/site-packages/worker/core/machine_code/*"))
    assert len([path for path in came if path.suffix == ".nbi"]) > 20
    document = {
        "doc_id": "a",
        "url": "https://example.org/",
        "fetched_at": "2026-01-02T03:04:05Z",
        "text": "word " * 99,
    }
    started = time.monotonic()
    with _running(container, "dedup", "-") as process:
        verdicts, errors = process.communicate(json.dumps(document) + "\n", timeout=300)
    print(f"one document judged {time.monotonic() - started:.1f} s after the start")
    assert json.loads(verdicts)["verdict"] == "new", errors
    assert "compil" not in errors and "not used" not in errors
    assert [path for path in mounted.rglob("*.nb?") if path not in came] == []


def test_a_worker_of_the_image_judges_a_crawl(container: str, kafka: Kafka, tmp_path: Path) -> None:
    """On Apache Kafka, with its metrics served; SIGTERM ends it in order."""
    with Deployment(kafka.bootstrap, tmp_path) as deployment:
        deployment.feed(crawl(1, 500))
        names = (
            "bootstrap",
            "group",
            "topic_documents",
            "topic_fingerprints",
            "topic_verdicts",
            "topic_dead_letter",
        )
        settings = {name: deployment.values[name] for name in names}
        # A pipe that nobody reads would stop the worker when it is full.
        with (
            (tmp_path / "image.log").open("w") as log,
            _running(container, "worker", output=log, worker_id="image", **settings) as process,
        ):
            deployment.finish()
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=10) as answer:
                assert answer.read() == b"ready\n"
            (worker,) = _processes("bin/neardup worker")
            os.kill(worker, signal.SIGTERM)
            bounded.wait(process, "the image's worker, after SIGTERM,", 60)
            assert process.returncode == 0, (tmp_path / "image.log").read_text()


def _processes(command: str) -> list[int]:
    """Return the processes of the image's user that are Python running this command."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().decode().replace("\0", " ").strip()
            if (
                re.match(r"\S*python\S* ", words)
                and words.endswith(command)
                and path.stat().st_uid == 10001
            ):
                found.append(int(path.name))
    return found
