"""
What the names of files stand for, on this machine (file:// or no scheme) or elsewhere (s3://,
https:// and every other scheme that fsspec knows): files, folders, patterns, places.

Inputs are opened here. `outputs.py` opens what is written, after `check_places` and `check_outside`
have refused a place that is read.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import stat
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from worker.errors import StopError, install_extra

STDIO = "-"
STDOUT = 1  # the descriptor
_OPEN_FILES = ("/dev/fd", "/proc/self/fd")  # folders of names of what this process has open
# What stores and servers say of a file that changes with its content, the most exact first.
_TAGS = (
    "ETag", "etag", "Content-MD5", "Digest",
    "LastModified", "last_modified", "Last-Modified", "updated", "mtime",
)  # fmt: skip
_DIGITS_MAX = 7  # of a descriptor: more than any system opens
_LINKS_MAX = 40  # as many as Linux follows

# What stands behind an output's name while it is written (`outputs.py`). A kill leaves such a file.
UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part\Z")

_FOR_ADMINISTRATOR = "lost+found"  # a folder at the top of a disk

PathT = TypeVar("PathT", Path, str)


class FileStamp(NamedTuple):
    """
    A file, and what changes when its content does.

    The inode is no part of it: some file systems in user space give a file another one each time.
    """

    path: str  # or URL
    size: int | None
    changed: str  # time of its last change, or the store's tag; "": it has none, only the size


def named(name: str | Path) -> str:
    """Return an output's name as messages have it: stdout for "-"."""
    return "stdout" if descriptor_of(name) == STDOUT else str(name)


def shown_input(name: str | Path) -> str:
    """
    Return an input's name as messages have it: stdin for "-".

    >>> shown_input("-"), shown_input("crawl.warc")
    ('stdin', 'crawl.warc')
    """
    return "stdin" if str(name) == STDIO else shown_name(name)


def shown_name(name: str | Path) -> str:
    """
    Return a name as messages, JSON and Parquet have it: bytes of it that are not UTF-8 are escaped.

    >>> shown_name("caf\\udce9.jsonl")
    'caf\\\\udce9.jsonl'
    """
    return str(name).encode("utf-8", "backslashreplace").decode()


def descriptor_of(output: str | Path) -> int | None:
    """
    Return the descriptor of the open file that an output's name stands for: 1 for "-", /dev/stdout
    and /dev/fd/1, also through a link. None: the name is that of a place.

    Such a file is written through its descriptor. Opening it by its name would empty a file to
    which the shell appends, and renaming another one into its place would hide it from the shell.

    >>> descriptor_of("-"), descriptor_of("/dev/fd/63"), descriptor_of("/dev/null")
    (1, 63, None)
    """
    if str(output) == STDIO:
        return STDOUT
    path = _path(output)
    folders = set(map(os.path.realpath, _OPEN_FILES))
    for _ in range(_LINKS_MAX):
        if path is None:
            return None
        is_number = path.name.isdecimal() and len(path.name) <= _DIGITS_MAX
        if is_number and os.path.realpath(path.parent) in folders:
            return int(path.name)
        is_link = os.path.islink(path)  # noqa: PTH114  # a name that is too long: False, no error
        path = path.parent / path.readlink() if is_link else None
    return None


def check_places(
    inputs: Iterable[str | Path],
    outputs: Iterable[str | Path],
    folders: Mapping[str, Path | None] = MappingProxyType({}),
) -> None:
    """
    Check that no output would destroy an input, another output, or a file of a folder of ours,
    before anything is opened.

    It recognises a file by any name: a path, a link, a hard link, a URL, or as the file that stdin
    or stdout was redirected to.

    Args:
        folders: in which a run has its own files, by the options that name them (None: it is not
            given).

    Raises:
        StopError: an output is an input or another output, or an output or an input lies in one of
            the folders.
    """
    inputs = list(inputs)
    own = [(option, folder) for option, folder in folders.items() if folder is not None]
    for option, folder in own:
        inside = real_path(folder)
        for name in inputs:
            if inside.is_file() and _lies_in(name, inside):
                raise StopError(
                    f"{shown_name(name)} is an input, and {option} must be a folder: name another"
                )
            if _lies_in(name, inside):
                raise StopError(
                    f"{shown_name(name)} lies in {shown_name(folder)}, so that files of the run "
                    f"would be read as documents: name another {option}"
                )
    read = {_place(name, 0) for name in inputs}
    wrote: dict[Hashable, str | Path] = {}
    for output in outputs:
        place = _place(output, 1)
        if place in read:
            raise StopError(f"{output} is an input and the output: name another output")
        if place in wrote:
            raise StopError(
                f"{wrote[place]} and {output} are the same file, but two outputs: "
                "name another file for one of them"
            )
        wrote[place] = output
        for option, folder in own:
            if _lies_in(output, real_path(folder)):
                raise StopError(
                    f"{output} lies in {folder}, which {option} names: name another output"
                )


def real_path(path: Path) -> Path:
    """
    Return a path without links.

    `Path.resolve` does that as well, but ends in RuntimeError where a link leads to itself. Here it
    stays, and whoever opens it says so.
    """
    return Path(os.path.realpath(path))


def _lies_in(name: str | Path, folder: Path) -> bool:
    """Tell whether a file here is in a resolved folder or below it; links are followed."""
    path = _path(name)
    return path is not None and real_path(path).is_relative_to(folder)


def check_outside(
    names: Iterable[str], outputs: Iterable[str | Path], folders: Iterable[Path] = ()
) -> None:
    """
    Check that no output is a file that the inputs' names would stand for once it is there.

    It is refused and not left out: a later run, with another output, could not know that an earlier
    one has written it, and would read verdicts as documents. A rule by the pattern's folder alone
    would be shorter, and would refuse `dedup *.warc.gz --output verdicts.jsonl`.

    Args:
        names: the inputs as `files_of` takes them.
        outputs: files to be written.
        folders: folders in which files of any name may be written.

    Raises:
        StopError: one lies in a folder of inputs, or matches a pattern.
    """
    for name in names:
        for output in outputs:
            if str(output) != STDIO and _stands_for(name, output):
                raise _inside(name, output)
        for folder in folders:
            if _stands_for(name, folder, below=True):
                raise _inside(name, folder)


def _inside(name: str, output: str | Path) -> StopError:
    path = path_of(name)
    is_pattern = "*" in name if path is None else not path.is_dir()
    reason = f"matches {name!r}" if is_pattern else f"lies in {shown_name(name)}"
    return StopError(
        f"{shown_name(output)} {reason}, which is read, so that a later run would read it as "
        f"documents: name a place elsewhere"
    )


def _stands_for(name: str, output: str | Path, *, below: bool = False) -> bool:
    """
    Tell whether an input's name stands for an output that need not be there yet.

    Args:
        below: or for anything in it, if it is a folder.
    """
    path = path_of(name)
    place = _path(output)
    if path is None or place is None:
        return path is place and _stands_for_there(name, str(output), below=below)
    # A link is found by its own name, and what is written through it by that of its target.
    own = Path(os.path.abspath(place))  # noqa: PTH100  # resolve() would follow the link
    targets = {real_path(own.parent) / own.name, real_path(place)}
    if path.is_dir():
        folder = real_path(path)
        below_it = [target for target in targets if target.is_relative_to(folder)]
        return any(not is_aside(target.relative_to(folder).parts) for target in below_it)
    if name == STDIO or path.exists() or not glob.has_magic(str(path)):
        return False
    # The folders before the first pattern may be links. `*/..` has no pattern left as a path.
    parts = Path(os.path.abspath(path)).parts  # noqa: PTH100
    first = _spelled_out(parts)
    pattern = (*real_path(Path(*parts[:first])).parts, *parts[first:])
    return any(_matches(target.parts, pattern, below=below) for target in targets)


def _stands_for_there(name: str, output: str, *, below: bool) -> bool:
    """Do `_stands_for` where both are URLs."""
    with asked(name) as (system, pattern), asked(output) as (other, place):
        if type(system) is not type(other):
            return False
        parts = tuple(place.split("/"))
        if "*" in pattern:
            return _matches(parts, tuple(pattern.split("/")), below=below)
        folder = tuple(pattern.rstrip("/").split("/"))
        return name.endswith("/") and parts[: len(folder)] == folder


def _matches(place: Sequence[str], pattern: Sequence[str], *, below: bool) -> bool:
    """
    Tell whether a path matches a pattern, part by part as `glob` does it.

    Args:
        below: or whether a path below it could.

    >>> _matches(["a", "b", "c.gz"], ["a", "**", "*.gz"], below=False)
    True
    >>> _matches(["a", "b"], ["a", "*", "*.gz"], below=True)
    True
    """
    if not place:
        return bool(pattern) if below else not pattern
    if not pattern:
        return False
    part = place[0]
    is_shown = not part.startswith(".") or pattern[0].startswith(".")
    if tuple(pattern) == ("**",):  # matches files at any depth, but not the folder itself
        return all(not part.startswith(".") for part in place)
    if pattern[0] == "**":
        skipped = _matches(place, pattern[1:], below=below)
        return skipped or (is_shown and _matches(place[1:], pattern, below=below))
    is_match = is_shown and fnmatch.fnmatchcase(part, pattern[0])
    if not glob.has_magic(pattern[0]):
        is_match = part == pattern[0]
    return is_match and _matches(place[1:], pattern[1:], below=below)


def check_references(inputs: Iterable[str | Path], references: Iterable[str | Path]) -> None:
    """
    Check that no file is both an input and a reference to match inputs against, under any name.

    Raises:
        StopError: a file is both. All of its documents would be duplicates of themselves.
    """
    read = {_place(name, 0) for name in inputs}
    for name in references:
        if _place(name, 0) in read:
            raise StopError(
                f"{name} is an input and a reference, so that none of its documents would stay: "
                f"leave it out of one of them"
            )


def _place(name: str | Path, standard: int) -> Hashable:
    """
    Return a value that is equal for all names of one place.

    Devices and sockets have none, because they cannot be destroyed.
    """
    path = _path(name)
    if path is None:
        with asked(_last_of_chain(name)) as place:
            return place
    number = standard if str(path) == STDIO else descriptor_of(path)
    try:
        status = path.stat() if number is None else os.fstat(number)
    except OSError:  # there is none yet
        return os.path.realpath(path)
    if stat.S_ISCHR(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        return object() if number is None else (STDIO, number)
    return status.st_dev, status.st_ino


def _path(name: str | Path) -> Path | None:
    """Return the path of a file here, also behind others (`simplecache::file://…`)."""
    path = path_of(name)  # first: in a path, "::" is nothing but a part of the name
    return path_of(_last_of_chain(name)) if path is None else path


def _last_of_chain(url: str | Path) -> str:
    """Return the last URL of a chain as fsspec has them, which is where the bytes lie."""
    return str(url).rpartition("::")[2]


# ---- here or elsewhere


def check_name(name: str | Path) -> None:
    """
    Raise a StopError for a name that no file can have: an empty one, which `Path` takes for the
    folder that we are in, or one with a null or a lone surrogate in it that stands for no byte.
    """
    try:
        encoded = os.fsencode(name)
        is_possible = encoded != b"" and b"\0" not in encoded
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise StopError(f"{str(name)!a} cannot be the name of a file: give another one")


def path_of(name: str | Path) -> Path | None:
    """
    Return the path of a file here (no scheme, or file://), None for one elsewhere.

    Raises StopError: no file can have this name.
    """
    check_name(name)
    scheme, separator, rest = str(name).partition("://")
    if not separator:
        return Path(name)
    if scheme.lower() not in ("file", "local"):
        return None
    if rest.startswith("localhost/"):
        rest = rest.removeprefix("localhost")
    return Path(rest)


@contextmanager
def asked(url: str, doing: str = "read") -> Iterator[tuple[Any, str]]:
    """
    Return the file system that a URL names, and the path on it, equal for all spellings.

    Raises:
        StopError: anything fails.
    """
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415
    except ImportError:
        raise StopError(f"{url} needs fsspec: {install_extra('remote')}") from None
    try:
        system, path = url_to_fs(url)
    except Exception as error:  # no such scheme, its package is absent, or it logs in at once
        raise StopError(f"cannot {doing} {url}: {_reason(error)}") from error
    try:
        yield system, path
    except Exception as error:  # each system has errors of its own
        raise StopError(f"cannot {doing} {url}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return why a file system could not do something, in words."""
    cause = error.__cause__
    # Over HTTP, fsspec says of every failure that there is no such file, and has the real one as
    # the cause: a log-in that is missing, a server that fails, a host that nobody knows.
    is_http = type(cause).__module__.partition(".")[0] == "aiohttp"
    if isinstance(error, FileNotFoundError) and cause is not None and is_http:
        status = getattr(cause, "status", None)
        if status is None:
            return str(cause) or type(cause).__name__
        if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            return f"the server answered {status} {getattr(cause, 'message', '')}".rstrip()
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return str(error) or type(error).__name__


def open_input(name: str) -> BinaryIO:
    """Open a file for reading; "-" is stdin. Raises StopError with the system's reason."""
    path = path_of(name)
    if path is None:
        with asked(name) as (system, place):
            return cast("BinaryIO", system.open(place, "rb"))
    try:
        return sys.stdin.buffer if name == STDIO else path.open("rb")
    except IsADirectoryError:
        raise StopError(
            f"cannot read {shown_name(name)}: it is a folder: name the files in it"
        ) from None
    except OSError as error:
        raise StopError(f"cannot read {shown_name(name)}: {error.strerror or error}") from error


def size_of(name: str) -> int | None:
    """
    Return the size of a file; None for a pipe, or if the file system does not say.

    Raises:
        StopError: the file cannot be read.
    """
    path = path_of(name)
    if name == STDIO:
        return None
    if path is None:
        with asked(name) as (system, place):
            size = system.info(place).get("size")
        return size if isinstance(size, int) else None
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise StopError(f"cannot read {name}: no such file") from None
    except OSError as error:
        why = "no permission" if isinstance(error, PermissionError) else error.strerror
        raise StopError(f"cannot read {name}: {why}") from None
    if not os.access(path, os.R_OK):
        raise StopError(f"cannot read {name}: no permission")
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def is_pipe(name: str) -> bool:
    """
    Return whether an input can be read only once: stdin, or a pipe by its name.

    >>> is_pipe("-"), is_pipe("https://example.org/crawl.warc")
    (True, False)
    """
    path = path_of(name)
    is_other = path is not None and path.exists() and not (path.is_file() or path.is_dir())
    return name == STDIO or is_other


def check_read_once(names: Iterable[str], how: str = "is named twice") -> None:
    """
    Check that no pipe is among some names twice, under any: the second reading would find nothing.

    Raises:
        StopError: stdin or another pipe is among them twice.
    """
    places: set[Hashable] = set()
    for name in filter(is_pipe, names):
        place = _place(name, 0)
        if place in places:
            raise StopError(f"{shown_input(name)} {how}: it can be read only once")
        places.add(place)


def tell_nobody(_notice: str) -> None:
    """Tell nobody."""


def is_aside(parts: Iterable[str]) -> bool:
    """
    Return whether a file in a folder is no input, by a part of its path.

    Spark and Hadoop read no names that begin with "_" or ".", so writers give them to what is not
    data: _SUCCESS, _temporary, .part-00000.crc, .DS_Store. A partition may begin so: _year=2024.
    An output that a killed command has left unfinished repeats what is in the finished one.

    >>> is_aside(["_temporary", "a.parquet"]), is_aside(["_year=2024", "a.parquet"])
    (True, False)
    >>> is_aside(["clean.warc.gz.0123456789abcdef.part"]), is_aside(["of-a-download.part"])
    (True, False)
    """
    return any(
        part.startswith(".")
        or (part[:1] == "_" and "=" not in part)
        or UNFINISHED.search(part) is not None
        for part in parts
    )


def _without_aside(
    pattern: str,
    files: Sequence[tuple[PathT, Sequence[str]]],
    tell: Callable[[str], None],
    *,
    is_folder: bool,
) -> list[PathT]:
    """
    Return the files that are inputs, and tell how many are not.

    Args:
        files: those that the name stands for, with the parts of their paths that it does not spell
            out.
        is_folder: whether the name is that of a folder.
    Raises:
        StopError: there are none.
    """
    inputs = [file for file, parts in files if not is_aside(parts)]
    aside = [parts[-1] for _, parts in files if is_aside(parts)]
    reason = "begin with _ or ., or are those of unfinished outputs"
    remedy = "name a file itself to read it"
    if aside and not inputs:
        raise StopError(
            f"cannot read {shown_name(pattern)}: it holds only files whose names, or whose "
            f"folders' names, {reason} ({shown_name(aside[0])}): {remedy}"
        )
    if not inputs and is_folder:
        raise StopError(f"{shown_name(pattern)} is a folder without files: name one with documents")
    if not inputs:
        raise StopError(f"cannot read {shown_name(pattern)}: no such file")
    if aside:
        count = "1 file is" if len(aside) == 1 else f"{len(aside):,} files are"
        tell(
            f"{shown_name(pattern)}: {count} not read ({shown_name(aside[0])}). Names, or those of "
            f"folders, {reason}: {remedy}"
        )
    return inputs


def files_here(pattern: str, path: Path, tell: Callable[[str], None] = tell_nobody) -> list[Path]:
    """
    Return the files here that a name stands for, in the order of names.

    They are the file itself (which may be no regular one), those in a folder and below it, or
    those that a pattern with * matches. In a folder, or behind a *, names that begin with "_" or
    ".", and unfinished outputs, are left out, as `is_aside` says.

    Args:
        tell: gets a sentence about those that are left out.
    Raises:
        StopError: there are none.
    """
    if path.is_dir():
        names: Iterable[Path] = _files_below(path, tell)
        given = len(path.parts)
    elif path.exists():
        return [path]
    else:
        names = map(Path, glob.glob(str(path), recursive=True))  # noqa: PTH207
        first = _spelled_out(path.parts)
        # A pattern that names what is left out asks for it.
        given = len(path.parts) if is_aside(path.parts[first:]) else first
        for end in range(first, len(path.parts)):
            _check_searched(path.parts[:end], path.parts[end], given)
    files = sorted(name for name in names if not name.is_dir())
    parts = [(file, file.parts[given:]) for file in files]
    return _without_aside(pattern, parts, tell, is_folder=path.is_dir())


def _spelled_out(parts: Sequence[str]) -> int:
    """Return how many parts of a path stand before the first that is a pattern, or all."""
    patterns = (number for number, part in enumerate(parts) if glob.has_magic(part))
    return next(patterns, len(parts))


def _check_searched(folders: tuple[str, ...], name: str, given: int) -> None:
    """
    Check that `glob` can look for a part of a pattern in the folders before it. It would pass over
    one that may not be searched, and its files would be left out without a word.

    Args:
        folders, name: the parts of the pattern before that part, and the part.
        given: how many parts are spelled out, so that `is_aside` leaves none out for them.
    Raises:
        StopError: one may not be searched, and its name does not leave it out.
    """
    is_pattern = glob.has_magic(name)
    if is_pattern and folders[-1:] == ("**",):
        return  # that part has listed them all
    below = [*folders, name] if name == "**" else folders
    # With a slash at the end `glob` passes over files.
    for folder in map(Path, glob.glob(f"{Path(*below)}/", recursive=True)):  # noqa: PTH207
        if is_aside(folder.parts[given:]) or folder.name == _FOR_ADMINISTRATOR:
            continue
        try:
            if is_pattern:
                os.scandir(folder).close()
            # A folder that may be listed, but not entered, has no folders for `glob`. `exists` is
            # False for any error from Python 3.14 on, and `Path` drops a dot.
            asked = os.curdir if is_pattern else name
            os.stat(os.path.join(folder, asked))  # noqa: PTH116, PTH118
        except (FileNotFoundError, NotADirectoryError):  # it is gone, or is none
            pass
        except OSError as error:
            raise _unlisted(folder, error.strerror) from error


def _unlisted(folder: str | Path, reason: str | None) -> StopError:
    return StopError(
        f"cannot list {shown_name(folder)}: {reason}. Make it readable, or name what is to be read"
    )


def _files_below(folder: Path, tell: Callable[[str], None]) -> Iterator[Path]:
    """
    Yield the files in a folder and below it. `tell` gets a sentence about links to other folders.

    Raises StopError: a folder cannot be listed, and its name does not leave it out.
    """

    def refuse(error: OSError) -> None:
        parts = Path(error.filename).relative_to(folder).parts
        is_gone = isinstance(error, FileNotFoundError)
        if not (is_gone or is_aside(parts) or parts == (_FOR_ADMINISTRATOR,)):
            raise _unlisted(error.filename, error.strerror) from error

    links: list[Path] = []
    for place, inner, files in os.walk(folder, onerror=refuse):
        links += (path for name in inner if (path := Path(place, name)).is_symlink())
        yield from (Path(place, name) for name in files)
    links = sorted(path for path in links if not is_aside(path.relative_to(folder).parts))
    if links:
        more = f" and {len(links) - 1:,} more" if len(links) > 1 else ""
        tell(
            f"links to folders are not followed: {shown_name(links[0])}{more}. Name what is to be "
            "read there, too"
        )


def files_of(names: Iterable[str], tell: Callable[[str], None] = tell_nobody) -> list[str]:
    """
    Return the files that names stand for: each a file, a folder, a pattern with *, a URL or stdin.

    Args:
        tell: gets a sentence about files in a folder that are left out.
    Raises:
        StopError: a name stands for none, or what lies in a folder is no regular file.
    """
    files: list[str] = []
    for name in names:
        path = path_of(name)
        if name == STDIO or (path is not None and path.exists() and not path.is_dir()):
            files.append(name)  # as it was given, for messages
        elif path is not None:
            for file in files_here(name, path, tell):
                if not file.is_file():  # opening a pipe would wait for a writer
                    reason = "is a pipe, a socket or a device: name it explicitly to read it"
                    if not file.exists():
                        reason = "is a link that leads to no file: mend it"
                    raise StopError(f"{shown_name(file)} {reason}")
                files.append(str(file))
        elif "*" in name or name.endswith("/"):
            files += [remote.path for remote in find_remote(name, tell)]
        else:
            files.append(name)
    return files


def checked_files(
    names: Iterable[str],
    outputs: Sequence[str | Path],
    others: Iterable[str | Path] = (),
    tell: Callable[[str], None] = tell_nobody,
) -> list[str]:
    """
    Return the files that names stand for, as `files_of` does, after a look at the outputs.

    Args:
        others: are read as well, but not as documents.
    Raises:
        StopError: as `files_of`, `check_read_once`, `check_places` and `check_outside`.
    """
    names = list(names)
    read_as_well = [str(other) for other in others]
    files = files_of(names, tell)
    check_read_once([*files, *read_as_well])
    check_places([*files, *read_as_well], outputs)
    check_outside(names, outputs)
    return files


def stamp_of(name: str) -> FileStamp | None:
    """
    Return the stamp that a file has now; None for a pipe, which has none.

    Raises:
        StopError: the file cannot be looked at.
    """
    path = path_of(name)
    if path is None:
        with asked(name) as (system, place):
            system.invalidate_cache(place)  # it may have listed the file before it changed
            return _stamp_there(name, system.info(place))
    if is_pipe(name):
        return None
    try:
        status = path.stat()
    except OSError as error:
        raise StopError(f"cannot read {shown_name(name)}: {error.strerror or error}") from error
    return FileStamp(name, status.st_size, str(status.st_mtime_ns))


def find_remote(pattern: str, tell: Callable[[str], None] = tell_nobody) -> list[FileStamp]:
    """
    Return the files that a URL stands for: itself, a folder, or a pattern.

    Args:
        tell: gets a sentence about files in a folder that are left out.
    Raises:
        StopError: there are none.
    """
    with asked(pattern) as (system, path):
        if "*" in path:
            found = system.glob(path, detail=True)
        else:
            info = system.info(path)
            found = (
                system.find(path, detail=True) if info.get("type") == "directory" else {path: info}
            )
    files = {name: info for name, info in sorted(found.items()) if info.get("type") != "directory"}
    given = path.rstrip("/")
    if "*" in path:
        given = path.partition("*")[0].rpartition("/")[0]
        if is_aside(path[len(given) :].split("/")):  # it asks for them
            given = path
    parts = [(name, name[len(given) :].split("/")) for name in files]
    inputs = _without_aside(pattern, parts, tell, is_folder="*" not in path)
    return [_stamp_there(system.unstrip_protocol(name), files[name]) for name in inputs]


def _stamp_there(name: str, info: Mapping[str, Any]) -> FileStamp:
    """Return the stamp of a file elsewhere, of what its file system says of it."""
    changed = next((info[tag] for tag in _TAGS if tag in info), "")
    return FileStamp(name, info.get("size"), str(changed))
