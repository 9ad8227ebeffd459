"""Files elsewhere: s3://, gs://, https:// and whatever else fsspec knows; file:// and what has no scheme are here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from worker.errors import StopError


def path_of(name: str | Path) -> Path | None:
    """
    Return the path of a file here, None for one elsewhere.

    >>> path_of("crawl.warc.gz"), path_of("file:///tmp/crawl.warc.gz"), path_of("s3://bucket/crawl.warc.gz")
    (PosixPath('crawl.warc.gz'), PosixPath('/tmp/crawl.warc.gz'), None)
    """
    scheme, separator, rest = str(name).partition("://")
    if not separator:
        return Path(name)
    is_here = scheme.lower() in ("file", "local")
    return Path(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest) if is_here else None


def file_system(url: str) -> tuple[Any, str]:
    """Return the system that a URL names, and the path there: equal for all spellings of it."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415
    except ImportError:
        raise StopError(f"{url} needs fsspec: pip install 'neardup[remote]'") from None
    try:
        found: tuple[Any, str] = url_to_fs(url)
    except (ImportError, ValueError) as error:  # the scheme's own package, or no such scheme
        raise StopError(f"cannot read {url}: {error}") from error
    return found


@contextmanager
def _asked(url: str, doing: str = "read") -> Iterator[tuple[Any, str]]:
    """Return a file's system and its path there; what goes wrong is a StopError with the system's reason."""
    system, path = file_system(url)
    try:
        yield system, path
    except Exception as error:  # each system has errors of its own
        reason = "no such file" if isinstance(error, FileNotFoundError) else str(error) or type(error).__name__
        raise StopError(f"cannot {doing} {url}: {reason}") from error


def open_remote(url: str) -> BinaryIO:
    """Open a file for reading. Raises StopError with the system's reason."""
    with _asked(url) as (system, path):
        return cast("BinaryIO", system.open(path, "rb"))


def size_remote(url: str) -> int | None:
    """Return the bytes of a file, None where the system does not tell. Raises StopError with its reason."""
    with _asked(url) as (system, path):
        size = system.info(path).get("size")
    return size if isinstance(size, int) else None


def put_remote(file: Path, url: str) -> None:
    """Copy a file to its place elsewhere. Raises StopError with the system's reason."""
    with _asked(url, "write") as (system, path):
        system.put_file(str(file), path)


def find_remote(pattern: str) -> list[tuple[str, int | None, str]]:
    """
    Return the files that a URL stands for, by itself, as a folder or with *: their sizes, and what changes with them.

    Raises:
        StopError: there is none, or the system's reason.
    """
    with _asked(pattern) as (system, path):
        if "*" in path:
            found = system.glob(path, detail=True)
        else:
            info = system.info(path)
            found = system.find(path, detail=True) if info.get("type") == "directory" else {path: info}
    files = {name: info for name, info in sorted(found.items()) if info.get("type") != "directory"}
    if not files:
        raise StopError(f"cannot read {pattern}: no such file")
    tags = ("ETag", "etag", "LastModified", "last_modified", "updated", "mtime")
    return [
        (system.unstrip_protocol(name), info.get("size"), str(next((info[tag] for tag in tags if tag in info), "")))
        for name, info in files.items()
    ]
