"""
The classes of a broker, read and checked once: with them a node starts in half of the processor
time.

Java keeps them in a file that it maps (class data sharing). The file is made once, in `build/`, from
the list of the classes that a first node has loaded. A Java that cannot use it, such as one of
another version or for another program, goes on without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

from worker.devkit.broker import EmbeddedKafka, Runtime


def shared_classes(runtime: Runtime, folder: Path) -> str | None:
    """
    Return Java's option for the file of classes, which is made if it is absent; None if this Java
    makes none.
    """
    key = "\n".join(map(str, (runtime.java, *runtime.jars)))
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"kafka-{name}.jsa"
    with (folder / "kafka-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one makes it
        if not archive.exists():
            _make(runtime, archive)
    # Quiet where another program's classes are not those of the file.
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable" if archive.stat().st_size else None


def _make(runtime: Runtime, archive: Path) -> None:
    """Make the file from what a node loads; an empty one if this Java cannot."""
    options = os.environ.get("JAVA_TOOL_OPTIONS", "")
    listed = archive.with_suffix(".%p.list")
    os.environ["JAVA_TOOL_OPTIONS"] = f"{options} -XX:DumpLoadedClassList={listed}"
    try:
        with EmbeddedKafka(runtime=runtime):
            pass
    finally:
        os.environ["JAVA_TOOL_OPTIONS"] = options
    lists = sorted(
        archive.parent.glob(f"{archive.stem}.*.list"), key=lambda path: path.stat().st_size
    )
    part = archive.with_suffix(".part")
    if lists:
        subprocess.run(
            [
                str(runtime.java.executable),
                "-Xshare:dump",
                "-XX:+UseSerialGC",  # as brokers have it
                f"-XX:SharedClassListFile={lists[-1]}",
                f"-XX:SharedArchiveFile={part}",
                "-Xlog:disable",
            ],
            env=os.environ | {"CLASSPATH": os.pathsep.join(map(str, runtime.jars))},
            stdout=subprocess.DEVNULL,
            check=False,
        )
    part.touch()
    part.replace(archive)
    for path in lists:
        path.unlink()
