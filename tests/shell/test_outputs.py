"""Outputs come whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from worker.errors import StopError
from worker.shell.files.outputs import written


def test_an_output_takes_its_place_at_the_end(tmp_path: Path) -> None:
    """Until then the former one stays, also through a link and with its permissions; nothing lies beside it."""
    place, link = tmp_path / "out", tmp_path / "link"
    place.write_bytes(b"former")
    place.chmod(0o640)
    link.symlink_to(place)
    with written(link) as stream:
        stream.write(b"latter")
        stream.flush()
        assert place.read_bytes() == b"former"
    assert place.read_bytes() == b"latter" and link.is_symlink() and place.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [link, place]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, RuntimeError, StopError])
def test_what_is_broken_off_leaves_the_former_output(tmp_path: Path, ending: type[BaseException]) -> None:
    """Whatever ends it; and where there was none there is none."""
    for place in (tmp_path / "out", tmp_path / "none"):
        (tmp_path / "out").write_bytes(b"former")
        with pytest.raises(ending), written(place) as stream:
            stream.write(b"half of the lat")
            raise ending
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"former")]


def test_an_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    """By whatever name it goes."""
    (tmp_path / "in").write_bytes(b"read")
    os.link(tmp_path / "in", tmp_path / "other-name")
    with pytest.raises(StopError, match="is an input"), written(tmp_path / "other-name", ["-", tmp_path / "in"]):
        pass
    assert (tmp_path / "in").read_bytes() == b"read"


def test_an_output_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """No folder, or a folder itself."""
    for place in (tmp_path / "none" / "out", tmp_path):
        with pytest.raises(StopError, match=f"cannot write {place}: "), written(place):
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
