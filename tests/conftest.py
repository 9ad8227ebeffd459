"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import hashlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from logging import getLogger
from pathlib import Path
from typing import Any, Protocol

import pytest
import structlog
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from worker.devkit.broker import EmbeddedKafka, Extras, Runtime, prepare
from worker.devkit.broker.runtime import find_java
from worker.errors import StopError
from worker.settings import DECIDING, ENV_PREFIX, Settings, environment, toml_value
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.topics import create_topics

# No time limits: a busy machine is not a defect. Each failure prints its seed. Examples are others
# in each run, except in CI, where a red run is to be the commit's doing.
# Of a property; some tests take a multiple of it.
EXAMPLES = int(os.environ.get("NEARDUP_EXAMPLES", "10"))


# Any JSON that a parser takes apart and puts together again without a loss.
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)


def one_in(parts: int) -> int:
    """Return a part of the examples, at least one: for properties whose examples are slow."""
    return max(1, EXAMPLES // parts)


def run_machine(machine: type[RuleBasedStateMachine], steps: int) -> None:
    """Run a state machine of which each example takes long."""
    checks = list(HealthCheck)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=one_in(5), stateful_step_count=steps, suppress_health_check=checks
        ),
    )


settings.register_profile(
    "neardup",
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.load_profile("neardup")

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as a shell starts what it runs in the background
    # Processes that tests interrupt inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A broker lives for minutes here: Java's quick compiler alone starts it in 60 % of the processor
# time. Another seventh goes without the proof that the classes in Kafka's jars are well formed.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)

# What is collected, and all that is imported for it, lives as long as the process: to look for garbage
# among it takes a quarter of the time. `pytest_collection_finish` has it looked for again.
gc.disable()

REPOSITORY = Path(__file__).resolve().parent.parent
collect_ignore = [
    # A script of another environment, which has its packages.
    "benchmarks/archive/datatrove_stage.py",
    # Loads all kernels. On a new machine one process would compile them before its first test, and
    # the others would wait for it.
    "faults/loaded.py",
]
# For what has to happen some time: only what hangs reaches it, whatever else the machine does.
EVENTUALLY_S = 300.0


def free_ports(count: int = 1) -> list[int]:
    """Return ports that nobody listens on now."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [int(server.getsockname()[1]) for server in servers]


def eventually(
    condition: Callable[[], object], what: str = "it", timeout_s: float = EVENTUALLY_S
) -> None:
    """Wait until a condition holds."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not so after {timeout_s:g} s: {what}"
        time.sleep(0.05)


def output_of(*command: str | Path, **options: Any) -> str:
    """Run a command to its end, which is a good one; return what it wrote."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain_environment() -> dict[str, str]:
    """
    The environment without variables of neardup, for processes: none of the caller's shell has a
    say.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith(ENV_PREFIX)}


@contextmanager
def served(folder: Path, signed: ssl.SSLContext | None = None) -> Iterator[str]:
    """A folder over HTTP, or HTTPS; its URL."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if signed is not None:
            server.socket = signed.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"{'http' if signed is None else 'https'}://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the caller's shell has a say."""
    for name in os.environ.keys() - plain_environment().keys():
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    """
    Set the handlers of signals back.

    A test that calls `main` leaves those of a command, which send a signal again if the exception
    that it raised was dropped: a later test that interrupts itself would end this process.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    unraisable = sys.unraisablehook
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    sys.unraisablehook = unraisable


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """
    Set logging back before and after the test.

    A command that ran in this process before may have left it without news. What this test leaves
    could write a line to stdout, into a doctest that comes after.
    """
    _set_logging_back()
    yield
    _set_logging_back()


def _set_logging_back() -> None:
    structlog.reset_defaults()
    getLogger("neardup").handlers.clear()


@pytest.fixture(scope="session")
def corpora() -> Path:
    """
    The folder of labelled documents beside the repository; tests that need it are skipped where it
    is absent.
    """
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    if not (folder / "docs.jsonl").is_file():
        pytest.skip(f"labelled corpora are not at {folder} (set NEARDUP_CORPORA)")
    return folder


class Kafka(Protocol):
    """A cluster that serves: all that most tests need to know."""

    @property
    def bootstrap(self) -> str: ...


@dataclass(frozen=True)
class OwnKafka:
    """A cluster of the user's own, named by NEARDUP_BOOTSTRAP."""

    bootstrap: str


@pytest.fixture(scope="session")
def broker_runtime() -> Runtime:
    """
    Java and jars; where they cannot be had the test is skipped with the reason, or fails if Kafka
    is required. KAFKA_LIBS names the folder `libs` of another Kafka, to be tested in its place.
    """
    libs = os.environ.get("KAFKA_LIBS")
    if libs:
        return Runtime(find_java(), tuple(sorted(Path(libs).glob("*.jar"))))
    try:
        return prepare()
    except StopError as error:
        if KAFKA_REQUIRED:
            pytest.fail(f"REQUIRE_KAFKA is set, and {error}", pytrace=False)
        pytest.skip(f"no Apache Kafka here: {error}")


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """
    One node of Apache Kafka for the whole session (or NEARDUP_BOOTSTRAP's): name your topics and
    groups uniquely.
    """
    own = os.environ.get("NEARDUP_BOOTSTRAP")
    if own:
        yield OwnKafka(own)
        return
    # Nobody kills it: only a machine that stands still for seconds, as virtual ones do, would have
    # it fenced.
    extras = Extras(settings={"broker.session.timeout.ms": "120000"})
    with EmbeddedKafka(runtime=request.getfixturevalue("broker_runtime"), extras=extras) as cluster:
        yield cluster


def own_names() -> dict[str, str]:
    """A group and topics of their own, as settings."""
    name = f"t{uuid.uuid4().hex[:10]}"
    kinds = ("documents", "fingerprints", "verdicts", "dead_letter")
    return {"group": name} | {f"topic_{kind}": f"{name}.{kind}" for kind in kinds}


def deployment(kafka: Kafka, /, **changed: Any) -> tuple[Settings, Admin]:
    """Settings with names of their own, and who makes the topics; they are not there yet."""
    settings = Settings(bootstrap=kafka.bootstrap, **(own_names() | changed))
    return settings, Admin(settings, 30)


def deployed(kafka: Kafka, /, **changed: Any) -> Settings:
    """The same, with the topics made."""
    settings, admin = deployment(kafka, **changed)
    create_topics(admin, settings)
    return settings


def definition_file(**keys: Any) -> Path:
    """A definition with these keys, in a file that is called after its content."""
    text = "".join(f"{name} = {toml_value(value)}\n" for name, value in sorted(keys.items()))
    folder = Path(tempfile.gettempdir()) / f"neardup-definitions-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.toml"
    part = path.with_suffix(f".{uuid.uuid4().hex}")
    part.write_text(text, encoding="utf-8")
    return part.replace(path)


def variables(values: Mapping[str, Any]) -> dict[str, str]:
    """The environment that gives a process these settings, its definition as a file."""
    keys = {name: value for name, value in values.items() if name in DECIDING}
    others = {name: value for name, value in values.items() if name not in DECIDING}
    return environment(others | ({"definition": definition_file(**keys)} if keys else {}))


@pytest.fixture
def commands_settings(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings as of `deployment`, which the environment gives to commands."""
    settings, _ = deployment(kafka)
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    for name, value in variables(given).items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.fixture(scope="session")
def kafka_to_break(broker_runtime: Runtime, pytestconfig: pytest.Config) -> Iterator[EmbeddedKafka]:
    """
    One more node, which tests may kill, pause and start again; afterwards it serves. Name your
    topics uniquely.
    """
    with EmbeddedKafka(runtime=broker_runtime) as cluster:
        pytestconfig.stash.setdefault(TO_BREAK, []).append(cluster)
        yield cluster


@pytest.fixture(scope="session")
def cluster_of_three(
    broker_runtime: Runtime, pytestconfig: pytest.Config
) -> Iterator[EmbeddedKafka]:
    """Three nodes for all tests that break them, also behind relays; tests take `kafka3`."""
    extras = Extras({"RELAYED": "PLAINTEXT"}, relayed=True)
    with EmbeddedKafka(nodes=3, runtime=broker_runtime, extras=extras) as cluster:
        pytestconfig.stash.setdefault(TO_BREAK, []).append(cluster)
        yield cluster


TO_BREAK = pytest.StashKey[list[EmbeddedKafka]]()


def _is_breaking(item: pytest.Item | None) -> bool:
    return bool(BREAKABLE & set(getattr(item, "fixturenames", ())))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """
    Stop the brokers that tests break behind the last of these tests, which come one after the other.

    A node that nobody uses takes some three percent of a processor.
    """
    if _is_breaking(item) and not _is_breaking(nextitem):
        for cluster in item.config.stash.get(TO_BREAK, []):
            cluster.stop()


@pytest.fixture
def kafka3(cluster_of_three: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    """
    Three nodes that the test may kill and pause; afterwards all serve again. Name your topics
    uniquely.
    """
    yield cluster_of_three
    for node in cluster_of_three.pids():
        cluster_of_three.resume(node)
        cluster_of_three.up(node)


# Tests on a broker are never silently absent: with REQUIRE_KAFKA=1 the session fails unless some
# have passed and none was skipped.
KAFKA_REQUIRED = os.environ.get("REQUIRE_KAFKA", "") not in {"", "0"}
BROKER_FIXTURES = {"kafka", "kafka_to_break", "kafka3", "cluster_of_three", "broker_runtime"}
BREAKABLE = {"kafka_to_break", "kafka3", "cluster_of_three"}
ON_KAFKA = "on Apache Kafka"  # a property of a test's report, which reaches the process that counts

_broker_outcomes = {"passed": 0, "failed": 0, "skipped": 0}


@pytest.hookimpl(tryfirst=True)  # before -m selects, and before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """
    Whatever uses a broker is marked so, forgotten or not, and so is what draws examples.

    Side by side, the tests of a file run in one process, and slow ones that need no broker each in
    whichever is free. Each process has brokers of its own; those that tests break are the dearest,
    so all tests on them run in one.
    """
    for item in items:
        brokers = BROKER_FIXTURES & set(getattr(item, "fixturenames", ()))
        if brokers:
            item.add_marker("kafka")
        elif _is_random(item):
            item.add_marker("random")
        is_on_kafka = item.get_closest_marker("kafka") is not None
        if is_on_kafka:
            item.user_properties.append((ON_KAFKA, True))
        if brokers & BREAKABLE:
            item.add_marker(pytest.mark.xdist_group("brokers to break"))
        elif brokers - {"broker_runtime"} or not item.get_closest_marker("slow"):
            kind = "brokers of " if is_on_kafka else ""
            item.add_marker(pytest.mark.xdist_group(kind + item.nodeid.partition("::")[0]))
    items.sort(key=_places(items).__getitem__)


def pytest_collection_finish() -> None:
    """Look for garbage again from here on, but not among the collected tests."""
    gc.freeze()
    gc.enable()


def _is_random(item: pytest.Item) -> bool:
    """Whether a test takes more examples when a variable asks for more."""
    names = getattr(getattr(item, "module", None), "__dict__", {})
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    counts = (names.get("EXAMPLES"), names.get("HISTORIES"))
    return is_property or "run_machine" in names or any(isinstance(n, int) for n in counts)


def _places(items: list[pytest.Item]) -> dict[pytest.Item, tuple[float, bool]]:
    """
    Return where each test comes, from 0 to 1, and of those at one place which kind comes first.

    Tests on brokers mostly wait and others compute: both are spread evenly over the whole run, so
    that neither is left when the other has ended. Of each kind the slow ones come first, and the
    last to end is a quick one.
    """
    units: dict[bool, dict[str, list[pytest.Item]]] = {True: {}, False: {}}
    for item in sorted(items, key=_is_quick):
        groups = [str(name) for mark in item.iter_markers("xdist_group") for name in mark.args]
        of_kind = units[item.get_closest_marker("kafka") is not None]
        of_kind.setdefault("+".join(groups) or item.nodeid, []).append(item)
    return {
        item: ((number + 0.5) / len(of_kind), is_on_kafka)
        for is_on_kafka, of_kind in units.items()
        for number, members in enumerate(of_kind.values())
        for item in members
    }


def _is_quick(item: pytest.Item) -> int:
    """Return 0 for the longest unit of all, then 1 for slow tests, and 3 for the quick ones."""
    if _is_breaking(item):
        return 0
    if item.get_closest_marker("slow") or item.get_closest_marker("faults"):
        return 1
    return 2 if "shell" in item.nodeid else 3


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the outcomes of the tests on a broker."""
    if ON_KAFKA in dict(report.user_properties) and (
        report.when == "call" or report.outcome != "passed"
    ):
        _broker_outcomes[report.outcome] += 1


def _broker_tests_are_missing() -> bool:
    return not _broker_outcomes["passed"] or _broker_outcomes["skipped"] > 0


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where Kafka is required, fail when its tests did not run."""
    # Of several side by side; the counts are with the first process.
    is_helper = hasattr(session.config, "workerinput")
    if KAFKA_REQUIRED and not is_helper and _broker_tests_are_missing():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests ran on a real broker."""
    counted = ", ".join(f"{count} {outcome}" for outcome, count in _broker_outcomes.items())
    if sum(_broker_outcomes.values()):
        terminalreporter.write_line(f"tests on Apache Kafka: {counted}")
    if KAFKA_REQUIRED and _broker_tests_are_missing():
        terminalreporter.write_line(
            f"FAILED: REQUIRE_KAFKA asks for all tests on Apache Kafka, got {counted}"
        )
