"""What is read as a whole is read to its end, unpacked, or not at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from worker.errors import StopError
from worker.shell.files.outputs import packed, written
from worker.shell.files.unpacked import opened_unpacked

LINES = b"".join(b"line %d of a file\n" % number for number in range(20_000))
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def content(path: Path) -> bytes:
    """All that a file holds."""
    with opened_unpacked(str(path)) as stream:
        return stream.read()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("data", [b"", LINES], ids=["nothing", "lines"])
def test_what_an_output_has_is_read_again(tmp_path: Path, suffix: str, data: bytes) -> None:
    """As lines, too, and it is known how much of the file has been read."""
    path = tmp_path / f"out{suffix}"
    with written(path) as stream, packed(stream, path) as output:
        output.write(data)
    assert content(path) == data
    with opened_unpacked(str(path)) as again:
        assert list(again) == data.splitlines(keepends=True)
        assert again.bytes_read == path.stat().st_size


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_the_first_bytes_say_how_a_file_is_compressed(tmp_path: Path, name: str) -> None:
    """And not its name; a file of several members is one."""
    path = tmp_path / "file.txt"
    path.write_bytes(COMPRESSIONS[name](LINES) + COMPRESSIONS[name](b"the end"))
    assert content(path) == LINES + b"the end"


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_file_that_was_cut_is_never_a_shorter_one(tmp_path: Path, name: str) -> None:
    """Wherever a member is cut, also behind a whole one, whose offset is not the one that is said."""
    path = tmp_path / "file"
    whole, last = COMPRESSIONS[name](LINES), COMPRESSIONS[name](b"the end")
    for member, before in ((whole, b""), (last, whole)):
        for kept in (len(member) // 2, len(member) - 1):
            path.write_bytes(before + member[:kept])
            said = f"cannot read {path} to its end: .*from byte {len(before):,} on"
            with pytest.raises(StopError, match=said):
                content(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".GZ"])
def test_a_compressed_file_without_a_byte_was_cut(tmp_path: Path, suffix: str) -> None:
    """A plain one without a byte holds nothing."""
    for name in ("plain", f"file{suffix}"):
        (tmp_path / name).touch()
    assert content(tmp_path / "plain") == b""
    with pytest.raises(StopError, match=f"file{suffix}: it has no bytes.*it was cut"):
        content(tmp_path / f"file{suffix}")


def test_what_stands_behind_a_member_is_no_part_of_it(tmp_path: Path) -> None:
    """Bytes of something else are damage, too."""
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(LINES) + b"something else")
    with pytest.raises(StopError, match="no gzip member begins here"):
        content(path)
