"""Outputs come whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.conftest import free_ports
from worker.errors import StopError
from worker.shell.files.outputs import check_writable, written
from worker.shell.files.places import (
    check_outside,
    check_places,
    descriptor_of,
    files_of,
    open_input,
    size_of,
)
from worker.shell.files.terminal import TerminalOutput, escape_controls


@pytest.mark.parametrize(
    ("parts", "shown"),
    [([b"a\xe2\x82"], "a\ufffd"), ([b"a\r"], "a\n"), ([b"\xe2\x82", b"\xac\x1b"], "\u20ac\ufffd")],
    ids=["half a character", "a lone CR", "two halves"],
)
def test_a_terminal_shows_the_last_byte(parts: list[bytes], shown: str) -> None:
    """What may be the beginning of something is shown at the end, as what it is by then."""
    stream = io.BytesIO()
    terminal = TerminalOutput(stream)
    for part in parts:
        terminal.write(part)
    terminal.finish()
    assert stream.getvalue().decode() == shown


def test_an_output_takes_its_place_at_the_end(tmp_path: Path) -> None:
    """
    Until then the former one stays, also through a link and with its permissions; nothing lies
    beside it.
    """
    place, link = tmp_path / "out", tmp_path / "link"
    place.write_bytes(b"former")
    place.chmod(0o640)
    link.symlink_to(place)
    with written(link) as stream:
        stream.write(b"latter")
        stream.flush()
        assert place.read_bytes() == b"former"
    assert (
        place.read_bytes() == b"latter"
        and link.is_symlink()
        and place.stat().st_mode & 0o777 == 0o640
    )
    assert sorted(tmp_path.iterdir()) == [link, place]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, RuntimeError, StopError])
def test_what_is_broken_off_leaves_the_former_output(
    tmp_path: Path, ending: type[BaseException]
) -> None:
    """Whatever ends it; and where there was none there is none."""
    for place in (tmp_path / "out", tmp_path / "none"):
        (tmp_path / "out").write_bytes(b"former")
        with pytest.raises(ending), written(place) as stream:
            stream.write(b"half of the lat")
            raise ending
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"former")]


def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """But not what another run is writing, nor a file that only has a like name."""
    place = tmp_path / "out[1]"
    beside = [tmp_path / "out[1].draft.part", tmp_path / "out1.0123456789abcdef.part"]
    for path in beside:
        path.touch()
    killed = os.fork()
    if not killed:
        with written(place) as stream:
            stream.write(b"half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(killed, 0)
    assert len(list(tmp_path.iterdir())) == 3
    with written(place) as first:
        with written(place) as second:
            second.write(b"second")
        first.write(b"first")
    assert sorted(tmp_path.iterdir()) == sorted([place, *beside])
    assert place.read_bytes() == b"first"


def names_of(place: Path) -> dict[str, str]:
    """One place by all names that it can go by; what links to it is made."""
    folder = place.parent.parent / "links"
    (folder / "deep").mkdir(parents=True)
    (folder / "folder").symlink_to(place.parent)
    (folder / "link").symlink_to(place)
    found = {
        "path": str(place),
        "another way": f"{folder}/../{place.parent.name}/{place.name}",
        "in a linked folder": f"{folder}/folder/{place.name}",
        "link": str(folder / "link"),
        "URL": f"file://{place}",
        "odd URL": f"FILE://localhost{folder}/deep/../../{place.parent.name}/{place.name}",
        "URL through a cache": f"simplecache::file://{place}",
    }
    if place.exists():
        os.link(place, folder / "hard")
        found["hard link"] = str(folder / "hard")
    return found


def test_two_colons_in_the_name_of_a_file_are_a_part_of_it(tmp_path: Path) -> None:
    """Only URLs are chained with them."""
    place = tmp_path / "x::y.jsonl"
    place.write_bytes(b"read")
    (tmp_path / "link").symlink_to(place)
    for name in (str(place), f"file://{place}"):
        with pytest.raises(StopError, match="is an input and the output"):
            check_places([str(tmp_path / "link")], [name])
        check_places([name], [tmp_path / "y.jsonl"])


@pytest.mark.parametrize("exists", [True, False], ids=["a file", "nothing yet"])
def test_a_place_is_one_by_all_its_names(tmp_path: Path, exists: bool) -> None:
    """
    As input and output, as two outputs, and as an output within a state; and it is no other place.
    """
    place = tmp_path / "folder" / "place"
    place.parent.mkdir()
    if exists:
        place.write_bytes(b"read")
    names, beside = names_of(place), f"{place}.more"
    for a, b in product(names.values(), names.values()):
        with pytest.raises(StopError, match="is an input and the output"):
            check_places(["-", a], [beside, b])
        with pytest.raises(StopError, match="are the same file, but two outputs"):
            check_places([beside], [a, b])
    folders = [tmp_path / "folder", tmp_path / "links" / "folder"]
    for name, state in product(
        [name for kind, name in names.items() if kind != "hard link"], folders
    ):
        own = {"--output": None, "--state": state}
        with pytest.raises(StopError, match=r"lies in .* name another output"):
            check_places([], [name], own)
        with pytest.raises(StopError, match=r"lies in .* name another --state"):
            check_places([name], [], own)
    for name in names.values():
        check_places([beside, "-"], [name, f"file://{place}2"], {"--state": tmp_path / "fold"})


def test_writers_of_one_place_do_not_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Containers that share a volume have one process id; the output is that of one of them, whole.
    """
    monkeypatch.setattr("os.getpid", lambda: 1)
    place = tmp_path / "out"
    with written(place) as first, written(place) as second:
        for letter in b"ab":
            for stream in (first, second):
                stream.write(bytes([letter]) * 100_000)
    assert place.read_bytes() == b"a" * 100_000 + b"b" * 100_000
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("is_lost", ["before the lock", "behind it"])
def test_a_file_that_another_writer_takes_for_abandoned_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: str
) -> None:
    """
    It has a name before it is locked; another one locks it first, and removes it then or later.
    """
    lock = fcntl.flock
    seen = list[Path]()

    def locked_late(stream: io.IOBase, operation: int) -> None:
        if seen:
            lock(stream, operation)
            return
        seen.extend(tmp_path.glob("*.part"))
        with seen[0].open("rb") as other:
            lock(other, operation)
            if is_lost == "before the lock":
                seen[0].unlink()
            else:
                try:
                    lock(stream, operation)
                finally:
                    seen[0].unlink()
        lock(stream, operation)

    monkeypatch.setattr(fcntl, "flock", locked_late)
    with written(tmp_path / "out") as stream:
        stream.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"whole"


def test_a_file_that_others_always_remove_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the place and the remedy, and nothing is left there."""

    def removed(_: io.IOBase, __: int) -> None:
        for left in tmp_path.glob("*.part"):
            left.unlink()

    monkeypatch.setattr(fcntl, "flock", removed)
    with (
        pytest.raises(StopError, match=r"10 unfinished .* End the other"),
        written(tmp_path / "out"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """With what to do: no folder, a folder itself, a name that is too long."""
    for place, why in (
        (tmp_path / "none" / "out", f"there is no folder {tmp_path / 'none'}, make it first"),
        (tmp_path, "it is a folder, name a file in it"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(StopError, match=f"cannot write {place}: {why}"), written(place):
            pass


def test_a_pipe_is_written_at_once(tmp_path: Path) -> None:
    """It cannot be replaced: `--output >(jq …)`, /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_bytes()))
    reader.start()
    with written(pipe) as stream:
        stream.write(b"through")
    reader.join()
    assert seen == [b"through"] and list(tmp_path.iterdir()) == [pipe]


def test_an_open_file_is_written_through_its_descriptor(tmp_path: Path) -> None:
    """
    By any name, at the place where it is; it stays open, and one that is not open is named.
    """
    place, link = tmp_path / "out", tmp_path / "link"
    place.write_bytes(b"former ")
    descriptor = os.open(place, os.O_WRONLY | os.O_APPEND)
    link.symlink_to(f"/dev/fd/{descriptor}")
    names = [f"/dev/fd/{descriptor}", f"file:///proc/self/fd/{descriptor}", str(link)]
    for name in names:
        assert descriptor_of(name) == descriptor
        with written(name) as stream:
            stream.write(b"more ")
    os.close(descriptor)
    assert place.read_bytes() == b"former " + b"more " * len(names)
    with pytest.raises(StopError, match=f"cannot write {names[0]}: Bad file"), written(names[0]):
        pass


def test_only_an_open_file_has_a_descriptor(tmp_path: Path) -> None:
    """Not a place, a device, a folder, a URL, links in a circle, or what no file can be called."""
    for name, other in (("one", "other"), ("other", "one")):
        (tmp_path / name).symlink_to(other)
    assert [descriptor_of(name) for name in ("/dev/stdout", "/dev/stderr", "-")] == [1, 2, 1]
    for name in (
        "/dev/null",
        "/dev/fd",
        "/dev/fd/..",
        "1",
        "s3://b/1",
        str(tmp_path / "one"),
        "x" * 5_000,
    ):
        assert descriptor_of(name) is None


PARTS = st.sampled_from(["a", "b", "ab", ".a", "a.gz", "b.gz", "linked"])
PATTERNS = st.sampled_from(["*", "**", "a*", "?", "[ab]", "*.gz", ".*", "a", "b", "linked"])


@given(
    name=st.lists(PATTERNS, min_size=1, max_size=3).map("/".join),
    output=st.lists(PARTS, min_size=1, max_size=3).map("/".join),
    below=st.booleans(),
)
@example(name="a", output="a/b", below=False)
@example(name="linked", output="a/b", below=False)
@example(name="**", output="a/b", below=True)
def test_an_output_is_refused_if_a_later_run_would_read_it(
    tmp_path_factory: pytest.TempPathFactory, name: str, output: str, below: bool
) -> None:
    """
    A file is refused exactly if `files_of` finds it once it is there; a folder, if it could find
    one of some names in it.
    """
    root = tmp_path_factory.mktemp("places")
    for folder in ("a", "b"):
        (root / folder).mkdir()
    (root / "linked").symlink_to(root / "a")
    # A file that is named by itself is compared with the outputs by `check_places`.
    assume(glob.has_magic(name) or (root / name).is_dir())
    place = root / output
    try:
        check_outside([f"{root}/{name}"], [] if below else [place], [place] if below else [])
        is_refused = False
    except StopError as error:
        is_refused = True
        assert str(place) in str(error) and f"{root}/{name}" in str(error)
    inside = [place / part for part in ("a", "b.gz", ".a")] if below else [place]
    is_read = False
    for file in inside:
        if file.is_dir() or not _made(file):
            continue
        try:
            found = {os.path.realpath(path) for path in files_of([f"{root}/{name}"])}
        except StopError:  # it finds nothing at all
            found = set()
        is_read |= os.path.realpath(file) in found
    assert is_refused >= is_read, "it would be read"
    if not below and _made(place) and not place.is_dir():
        assert is_refused == is_read, "it would not be read"


@pytest.mark.parametrize(("name", "is_read"), [("*/../out.gz", True), ("*/../other.gz", False)])
def test_a_pattern_that_leads_back_names_a_file(tmp_path: Path, name: str, is_read: bool) -> None:
    """Without its `*/..` no pattern is left of it: it was an error of ours."""
    (tmp_path / "a").mkdir()
    output = tmp_path / "out.gz"
    if is_read:
        with pytest.raises(StopError, match="which is read"):
            check_outside([f"{tmp_path}/{name}"], [output])
        output.touch()
        assert files_of([f"{tmp_path}/{name}"]) == [f"{tmp_path}/a/../out.gz"]
    else:
        check_outside([f"{tmp_path}/{name}"], [output])


def _made(file: Path) -> bool:
    """Make a file and its folders, if there can be such."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError:  # a file stands in the place of a folder
        return False
    return True


def test_what_a_terminal_obeys_is_escaped_in_json_and_means_the_same() -> None:
    """Of all of Unicode, exactly the characters that `TerminalOutput` replaces."""
    characters = "".join(map(chr, [*range(0x20, 0xD800), *range(0xE000, 0x110000)]))
    texts = [characters[at : at + 64] for at in range(0, len(characters), 64)]
    lines = [json.dumps(text, ensure_ascii=False) for text in texts]
    data = "\n".join(lines).encode()
    stream = io.BytesIO()
    TerminalOutput(stream).write(data)
    shown = stream.getvalue().decode().split("\n")
    escaped = escape_controls(data).decode().split("\n")
    for text, line, one, other in zip(texts, lines, escaped, shown, strict=True):
        assert json.loads(one) == text
        expected = line
        for character, seen in zip(text, json.loads(other), strict=True):
            if seen != character:
                expected = expected.replace(character, json.dumps(character)[1:-1])
        assert one == expected
    assert escape_controls("a\u202eb\U000e0041".encode()) == b"a\\u202eb\\udb40\\udc41"


def test_folders_and_patterns_stand_for_their_files(tmp_path: Path) -> None:
    """In the order of their names, a folder with what is below it; none is an error."""
    for name in ("crawl/b/2.jsonl", "crawl/a.jsonl", "crawl/c.jsonl", "odd[1].jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()

    def found(*names: str) -> list[str]:
        files = files_of([f"{tmp_path}/{name}" for name in names])
        return [str(Path(file).relative_to(tmp_path)) for file in files]

    whole = ["crawl/a.jsonl", "crawl/b/2.jsonl", "crawl/c.jsonl"]
    assert found("crawl") == whole
    assert [str(tmp_path / name) for name in whole] == files_of([f"file://{tmp_path}/crawl"])
    assert found("crawl/*.jsonl") == [whole[0], whole[2]]
    assert found("crawl/**/2.jsonl", "crawl/a*") == [whole[1], whole[0]]
    assert found("odd[1].jsonl") == ["odd[1].jsonl"]
    with pytest.raises(StopError, match="no such file"):
        found("crawl/*.warc")
    with pytest.raises(StopError, match="empty is a folder without files: name one with documents"):
        found("empty")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "the server answered 401 Unauthorized"),
        (403, "the server answered 403 Forbidden"),
        (404, "no such file"),
        (500, "the server answered 500 Internal Server Error"),
    ],
)
def test_a_server_that_refuses_a_file_is_quoted(status: int, reason: str) -> None:
    """Only a file that is not there is called so; a missing log-in has another remedy."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.jsonl"
        for ask in (open_input, size_of):
            with pytest.raises(StopError) as refusal:
                ask(url)
            assert str(refusal.value) == f"cannot read {url}: {reason}"
        server.shutdown()


def test_a_server_that_is_not_there_is_told_from_a_file_that_is_not() -> None:
    """Its host and the system's reason are named."""
    [port] = free_ports()
    with pytest.raises(StopError, match=f"Cannot connect to host 127.0.0.1:{port} .*failed"):
        open_input(f"http://127.0.0.1:{port}/a.jsonl")


SPARK = (
    "_SUCCESS",
    "_committed_1",
    ".part-0.parquet.crc",
    "_temporary/0/part-1.parquet",
    ".DS_Store",
)
DATA = ("part-0.parquet", "year=2024/part-1.parquet", "_year=2025/part-2.parquet", "_year=2025/a_b")


def made_by_spark(folder: Path) -> None:
    for name in (*SPARK, *DATA):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


@pytest.mark.parametrize("name", ["{}", "{}/**", "{}/*/*", "{}/*"])
def test_what_spark_puts_aside_in_a_folder_is_no_input(tmp_path: Path, name: str) -> None:
    """It is told of once, with its number and what to do; a name that asks for it gets it."""
    made_by_spark(tmp_path)
    told: list[str] = []
    found = files_of([name.format(tmp_path)], told.append)
    inside = {str(Path(file).relative_to(tmp_path)) for file in found}
    assert inside and inside <= {*DATA}
    assert inside == {*DATA} or "/*" in name
    if name in ("{}", "{}/**", "{}/*"):
        assert len(told) == 1 and "name a file itself to read it" in told[0]
    assert ("5 files" in told[0]) if name == "{}" else True
    asked = [f"{tmp_path}/_SUCCESS", f"{tmp_path}/_s*", f"{tmp_path}/_temporary/0/*"]
    assert files_of([asked[0]], told.append) == [asked[0]]
    assert files_of([asked[2]]) == [f"{tmp_path}/_temporary/0/part-1.parquet"]
    for file in DATA:
        (tmp_path / file).unlink()
    with pytest.raises(StopError, match="begin with _ or"):
        files_of([str(tmp_path)])


def test_a_link_to_nothing_in_a_folder_is_called_so(tmp_path: Path) -> None:
    """What it should have led to would be missing without a word."""
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "gone.jsonl")
    with pytest.raises(StopError, match=r"a\.jsonl is a link that leads to no file"):
        files_of([str(tmp_path)])


def test_a_file_that_cannot_be_read_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is called absent only if it is: another folder, or a shorter name, is no remedy for that."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in {
        "none": "no such file",
        "file/none": "no such file",
        "loop": "Too many levels of symbolic links",
        "a" * 300: "File name too long",
    }.items():
        with pytest.raises(StopError, match=f"cannot read .*: {reason}$"):
            size_of(f"{tmp_path}/{name}")

    def forbidden(_: Path) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", forbidden)  # root may enter every folder
    with pytest.raises(StopError, match=r"cannot read .*: no permission$"):
        size_of(f"{tmp_path}/closed/file")


def test_a_link_to_itself_ends_no_check(tmp_path: Path) -> None:
    """Whether it can be written, or be a folder, is said where that is tried."""
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    for name in (loop, loop / "in.jsonl"):
        check_places([str(name)], [tmp_path / "out"], {"--state": loop.with_name("state")})
        check_places(["in.jsonl"], [tmp_path / "out"], {"--state": name})
        check_outside([f"{name}/*.jsonl"], [tmp_path / "out"])
        check_outside([f"{tmp_path}/read/*.jsonl"], [name], [name])
    check_writable(loop)
    with pytest.raises(StopError, match=r"there is no folder .*loop, make it first"):
        check_writable(loop / "out")


def test_what_a_killed_command_has_left_unfinished_is_no_input(tmp_path: Path) -> None:
    """It is told of. A name that only ends in .part is that of an input."""
    whole, left, other = "clean.jsonl", "clean.jsonl.0123456789abcdef.part", "download.part"
    for name in (whole, left, other):
        (tmp_path / name).write_text("")
    told: list[str] = []
    for name in (f"{tmp_path}", f"{tmp_path}/*"):
        assert files_of([name], told.append) == [f"{tmp_path}/{whole}", f"{tmp_path}/{other}"]
        assert "1 file is not read" in told[-1] and left in told[-1]
    assert files_of([f"{tmp_path}/{left}"], told.append) == [f"{tmp_path}/{left}"]
    assert len(told) == 2


def test_what_spark_puts_aside_elsewhere_is_no_input() -> None:
    """As here: in a folder, and behind a *; a name may begin in the midst of a pattern."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for name in (*SPARK, *DATA, "part_3"):
        system.pipe(f"/spark/{name}", b"x")
    told: list[str] = []
    inputs = sorted(f"memory:///spark/{name}" for name in (*DATA, "part_3"))
    assert sorted(files_of(["memory://spark/"], told.append)) == inputs
    assert "5 files" in told[0]
    assert files_of(["memory://spark/part*"]) == [
        "memory:///spark/part-0.parquet",
        "memory:///spark/part_3",
    ]
    assert files_of(["memory://spark/_S*"]) == ["memory:///spark/_SUCCESS"]


def test_a_link_to_a_folder_is_told(tmp_path: Path) -> None:
    """It is not followed: it may lead anywhere, and back."""
    crawl, disk = tmp_path / "crawl", tmp_path / "disk"
    for folder in (crawl, disk):
        folder.mkdir()
        (folder / "a.jsonl").write_text("")
    (crawl / "more").symlink_to(disk)
    told: list[str] = []
    assert files_of([str(crawl)], told.append) == [str(crawl / "a.jsonl")]
    assert f"links to folders are not followed: {crawl / 'more'}. Name" in told[0]


def test_a_folder_that_cannot_be_listed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder whose name leaves it out need not be listed. `glob` would pass over the others."""
    (tmp_path / "a.jsonl").write_text("")
    patterns = ["*/*", "**", "**/*.jsonl", "s*/*"]
    scandir = os.scandir

    def guarded(place: str | Path) -> object:
        if Path(place).name in ("secret", "_tmp"):
            raise PermissionError(13, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", guarded)
    (tmp_path / "_tmp").mkdir()
    assert files_of([str(tmp_path)]) == [str(tmp_path / "a.jsonl")]
    (tmp_path / "secret").mkdir()
    for name in (tmp_path, *(tmp_path / pattern for pattern in patterns)):
        with pytest.raises(StopError, match=r"cannot list .*secret: Permission denied\. Make it"):
            files_of([str(name)])
    assert files_of([str(tmp_path / "*.jsonl")]) == [str(tmp_path / "a.jsonl")]
    monkeypatch.chdir(tmp_path)
    assert files_of(["*.jsonl"]) == ["a.jsonl"]
    for pattern in patterns:
        with pytest.raises(StopError, match="cannot list secret: Permission denied"):
            files_of([pattern])


def test_a_folder_that_a_pattern_cannot_enter_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be listed, so `glob` knows of what is in it, and takes none of that for a folder."""
    stat = os.stat

    def guarded(place: str | Path, **options: bool) -> os.stat_result:
        if "shut/" in str(place):
            raise PermissionError(13, "Permission denied", str(place))
        return stat(place, **options)

    (tmp_path / "shut" / "sub").mkdir(parents=True)
    monkeypatch.setattr(os, "stat", guarded)
    for pattern in ("*/*/a.jsonl", "**/a.jsonl", "**/*.jsonl", "*/a.jsonl"):
        with pytest.raises(StopError, match=r"cannot list .*shut: Permission denied\. Make it"):
            files_of([str(tmp_path / pattern)])
