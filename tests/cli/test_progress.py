"""How far a command is: a bar on a terminal, lines elsewhere, an honest rate and the time left."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from worker.cli.progress import Pace, Tell, counted, passed


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def screen(*, is_terminal: bool) -> tuple[io.StringIO, Console]:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, width=120, no_color=True)
    return shown, console


def steps_of(tell: Tell, clock: Clock, seconds: int, total: int | None) -> None:
    """Read 10 MB a second, in which there are 100 documents."""
    for second in range(seconds + 1):
        tell("judging", second * 10_000_000, total, second * 100)
        clock.now_s += 1


def test_the_time_left_is_shown_where_the_input_is_files(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows from the bytes, which are known from the beginning, and not from the documents."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    shown, console = screen(is_terminal=True)
    with counted("documents", console=console, clock_s=clock, transient=False) as tell:
        steps_of(tell, clock, 30, 1_000_000_000)
    assert "3,000 documents, 100/s, 0:01:10 left" in shown.getvalue()


@pytest.mark.parametrize("where", ["pipe", "notebook", "dumb terminal"])
def test_plain_lines_where_nothing_can_be_redrawn(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Whole lines without any sequence of a terminal, fewer of them as the time goes on."""
    monkeypatch.setenv("TERM", "dumb" if where == "dumb terminal" else "xterm")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    if where == "notebook":
        monkeypatch.setenv("JPY_PARENT_PID", "1")
    shown, console = screen(is_terminal=where != "pipe")
    with counted("documents", console=console, clock_s=clock) as tell:
        steps_of(tell, clock, 300, 10_000_000_000)
    lines = shown.getvalue().splitlines()
    assert lines[0] == "judging: 1%, 1,000 documents, 100/s, 0:16:30 left"
    assert len(lines) == 6  # after 10, 30, 70, 130, 190, 250 s
    assert all(line.isprintable() for line in lines)


def test_a_short_command_writes_no_line_into_a_pipe(clock: Clock) -> None:
    """What a script collects on stderr stays as it is."""
    shown, console = screen(is_terminal=False)
    with counted("documents", console=console, clock_s=clock) as tell:
        steps_of(tell, clock, 9, None)
    assert not shown.getvalue()


def test_what_an_earlier_run_has_done_is_no_speed() -> None:
    """A run that goes on begins at no rate, and its rate is that of what came since."""
    pace = Pace("bytes", 0.0, done=800_000_000, count=800_000_000)
    assert pace.text(0.0, 800_000_000, 900_000_000, 800_000_000) == "800.0 MB"
    assert pace.text(0.5, 810_000_000, 900_000_000, 810_000_000) == "810.0 MB"
    said = pace.text(10.0, 850_000_000, 900_000_000, 850_000_000)
    assert said == "850.0 MB, 5.0 MB/s, 0:00:10 left"


def test_a_total_that_nobody_knows_has_no_time_left() -> None:
    """Of a pipe there is a count and a rate."""
    assert Pace("documents", 0.0).text(10.0, 50, None, 50) == "50 documents, 5/s"


def test_all_items_pass_and_the_last_number_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is shown, whatever the measure was before."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    shown, console = screen(is_terminal=True)
    monkeypatch.setattr("worker.cli.progress.Console", lambda **_: console)

    def items() -> Iterator[int]:
        yield from range(450)

    read = passed(items(), "reading", "items", lambda _: 9_000, done=lambda: 900, transient=False)
    assert list(read) == list(range(450))
    assert re.search(r"100%.*450 items", shown.getvalue())
