"""Files elsewhere: s3://, gs://, https:// and whatever else fsspec knows; file:// and what has no scheme are here."""

from __future__ import annotations

from collections.abc import Hashable
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


def place_remote(url: str) -> Hashable:
    """Return what is equal for all spellings of a URL."""
    return _file_system(url)


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415
    except ImportError:
        raise StopError(f"{url} needs fsspec: pip install 'neardup[remote]'") from None
    try:
        found: tuple[Any, str] = url_to_fs(url)
    except (ImportError, ValueError) as error:  # the scheme's own package, or no such scheme
        raise StopError(f"cannot read {url}: {error}") from error
    return found


def _reason(error: Exception) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else str(error) or type(error).__name__


def open_remote(url: str) -> BinaryIO:
    """Open a file for reading. Raises StopError with the system's reason."""
    system, path = _file_system(url)
    try:
        return cast("BinaryIO", system.open(path, "rb"))
    except Exception as error:  # each system has errors of its own
        raise StopError(f"cannot read {url}: {_reason(error)}") from error


def size_remote(url: str) -> int | None:
    """Return the bytes of a file, None where the system does not tell."""
    system, path = _file_system(url)
    try:
        size = system.info(path).get("size")
    except Exception as error:  # each system has errors of its own
        raise StopError(f"cannot read {url}: {_reason(error)}") from error
    return size if isinstance(size, int) else None


def put_remote(file: Path, url: str) -> None:
    """Copy a file to its place elsewhere. Raises StopError with the system's reason."""
    system, path = _file_system(url)
    try:
        system.put_file(str(file), path)
    except Exception as error:  # each system has errors of its own
        raise StopError(f"cannot write {url}: {_reason(error)}") from error


def find_remote(pattern: str) -> list[tuple[str, int | None, str]]:
    """
    Return the files that a URL stands for, by itself, as a folder or with *: their sizes, and what changes with them.

    Raises:
        StopError: there is none, or the system's reason.
    """
    system, path = _file_system(pattern)
    try:
        if "*" in path:
            found = system.glob(path, detail=True)
        else:
            info = system.info(path)
            found = system.find(path, detail=True) if info.get("type") == "directory" else {path: info}
    except Exception as error:  # each system has errors of its own
        raise StopError(f"cannot read {pattern}: {_reason(error)}") from error
    files = {name: info for name, info in sorted(found.items()) if info.get("type") != "directory"}
    if not files:
        raise StopError(f"cannot read {pattern}: no such file")
    tags = ("ETag", "etag", "LastModified", "last_modified", "updated", "mtime")
    return [
        (system.unstrip_protocol(name), info.get("size"), str(next((info[tag] for tag in tags if tag in info), "")))
        for name, info in files.items()
    ]
