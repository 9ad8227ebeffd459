"""The broker's jars: only right files stay, whatever the network, the disk or another process does."""

from __future__ import annotations

import errno
import hashlib
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from worker.devkit.broker import runtime as jars
from worker.devkit.broker.runtime import Jar, fetch, is_right, listed
from worker.errors import StopError

CONTENT = {"alpha": b"a" * 100_000, "beta": b"b" * 200_000, "gamma": b"c" * 50}


def jar_of(artifact: str) -> Jar:
    content = CONTENT[artifact]
    return Jar("org.example.jars", artifact, "1.0", hashlib.sha256(content).hexdigest(), len(content))


JARS = [jar_of(artifact) for artifact in CONTENT]
TOTAL_BYTES = sum(map(len, CONTENT.values()))


class Repository:
    """A Maven repository on loopback: files in the layout of coordinates, and a count of what was asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: Counter[str] = Counter()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def sign(self, certificate: Path, key: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")

    def put(self, jar: Jar, content: bytes) -> None:
        folder = self.root / jar.group.replace(".", "/") / jar.artifact / jar.version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / jar.file_name).write_bytes(content)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, repository: Repository, *arguments: object) -> None:
        self._repository = repository
        super().__init__(*arguments, directory=str(repository.root))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._repository.requests[Path(self.path).name] += 1
        with suppress(ConnectionError):  # a client that has enough of a wrong file hangs up
            super().do_GET()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "TRY_PAUSE_S", 0.01)


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    repository = Repository(tmp_path_factory.mktemp("repository"))
    for jar in JARS:
        repository.put(jar, CONTENT[jar.artifact])
    yield repository
    repository.close()


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {"lock"}


def test_the_list_is_of_kafka_4_3_1_and_each_file_name_is_unique() -> None:
    """Every line has a SHA-256 and a size, and no jar would overwrite another."""
    all_jars = listed()
    assert {jar.version for jar in all_jars if jar.group == "org.apache.kafka"} == {"4.3.1"}
    assert all(len(jar.sha256) == 64 and jar.size_bytes > 0 for jar in all_jars)
    assert len({jar.file_name for jar in all_jars}) == len(all_jars)


def test_fetch_trusts_the_systems_authorities(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that signs its own certificates is among them; one that is not is named with the remedy."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=proxy", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "ca.pem"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    repository.sign(tmp_path / "ca.pem", tmp_path / "key.pem")
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StopError, match="SSL_CERT_FILE"):
        fetch(tmp_path / "jars", repository=repository.url, jars=JARS)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    assert len(fetch(tmp_path / "jars", repository=repository.url, jars=JARS)) == len(JARS)


def test_fetch_goes_on_where_an_earlier_one_stopped(repository: Repository, tmp_path: Path) -> None:
    """Files that are there and right are not asked for again; one that was altered since is."""
    told: list[int] = []
    fetch(tmp_path, repository=repository.url, jars=JARS[:2])
    (tmp_path / JARS[0].file_name).write_bytes(b"x" * JARS[0].size_bytes)
    fetch(tmp_path, repository=repository.url, jars=JARS, advance=told.append)
    assert repository.requests == {"alpha-1.0.jar": 2, "beta-1.0.jar": 1, "gamma-1.0.jar": 1}
    assert [(tmp_path / jar.file_name).read_bytes() for jar in JARS] == list(CONTENT.values())
    assert sum(told) == TOTAL_BYTES and names_in(tmp_path) == {jar.file_name for jar in JARS}


@pytest.mark.parametrize(
    "content",
    [b"x" * len(CONTENT["gamma"]), CONTENT["gamma"][:-1], b"x" * 10_000_000, b""],
    ids=["same size", "cut", "far too long", "empty"],
)
def test_an_altered_download_is_refused(repository: Repository, tmp_path: Path, content: bytes) -> None:
    """The error names the jar and both digests; nothing of the wrong file stays; the next fetch mends it."""
    wrong = jar_of("gamma")
    repository.put(wrong, content)
    told: list[int] = []
    with pytest.raises(StopError, match=f"{wrong} gave another file: SHA-256 .* instead of {wrong.sha256}") as raised:
        fetch(tmp_path, repository=repository.url, jars=[wrong], advance=told.append)
    assert "neardup broker fetch" in str(raised.value)
    assert names_in(tmp_path) == set()
    assert sum(told) == 0
    repository.put(wrong, CONTENT["gamma"])
    fetch(tmp_path, repository=repository.url, jars=[wrong])
    assert is_right(wrong, tmp_path)


def test_a_failed_download_says_why_and_what_to_do(repository: Repository, tmp_path: Path) -> None:
    """A jar that the repository has not, and a repository that does not answer: cause and remedy in one line."""
    absent = Jar("org.example.jars", "absent", "1.0", "0" * 64, 10)
    with pytest.raises(StopError, match=r"org\.example\.jars:absent:1\.0 failed: 404 .*--repository"):
        fetch(tmp_path, repository=repository.url, jars=[absent])
    repository.close()
    with pytest.raises(StopError, match=r"alpha:1\.0 failed: .*HTTPS_PROXY"):
        fetch(tmp_path, repository=repository.url, jars=JARS[:1])


def test_a_network_that_comes_back_is_enough(tmp_path: Path) -> None:
    """A connection that breaks in the middle is tried again, and what it had told is taken back."""
    tries = []

    def breaks_once(jar: Jar) -> Iterator[bytes]:
        tries.append(jar)
        yield CONTENT["alpha"][:1000]
        if len(tries) == 1:
            raise ConnectionError("connection broken")
        yield CONTENT["alpha"][1000:]

    told: list[int] = []
    fetch(tmp_path, jars=JARS[:1], open_remote=breaks_once, advance=told.append)
    assert is_right(JARS[0], tmp_path)
    assert (len(tries), sum(told)) == (2, JARS[0].size_bytes)


def test_a_place_that_takes_no_more_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """No second try, no part of a file left, and the text names the folder and what to free; a file in its place."""

    def fills_the_disk(_jar: Jar) -> Iterator[bytes]:
        yield b"some"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StopError, match=f"no space left in {tmp_path} .*XDG_CACHE_HOME"):
        fetch(tmp_path, jars=JARS, open_remote=fills_the_disk)
    assert names_in(tmp_path) == set()
    (tmp_path / "file").write_text("")
    with pytest.raises(StopError, match=r"cannot keep the broker's jars in .*: Not a directory"):
        fetch(tmp_path / "file" / "jars", jars=JARS)


def test_fetchers_at_the_same_time_do_the_work_once(repository: Repository, tmp_path: Path) -> None:
    """Four fetchers into one folder: every one has all files, and each was asked for once."""
    told: list[list[int]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(
            target=fetch, args=(tmp_path,), kwargs={"repository": repository.url, "jars": JARS, "advance": each.append}
        )
        for each in told
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sum(each) for each in told] == [TOTAL_BYTES] * 4
    assert set(repository.requests.values()) == {1}
