"""`neardup archive --task-memory`: neither legs, nor slices, nor tasks that run again are seen."""

from __future__ import annotations

import errno
import gc
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.program import ARTICLE, OTHER, defined, lines, page
from tests.faults.crawl import random_words
from tests.shell.local_engine import LocalEngine
from tests.shell.test_archive import (
    Killed,
    archive,
    command,
    crawl,
    dedup,
    files,
    here,  # noqa: F401  # a fixture
    inputs_and_states,
    kill_behind,
    known_in,
    run,
    told,
    verdicts,
    write_inputs,
)
from worker.cli import app
from worker.core import planner
from worker.core.index import SearchIndex
from worker.log import columns, snapshot
from worker.log.replica import Replica
from worker.shell.archive import legs, steps, tasks
from worker.shell.archive.run import Run
from worker.shell.files.engine import FileEngine

SMALL = ("--batch-documents-max", "20")
LEGS = ("--task-memory", "1G", "--format", "jsonl", "--quiet", *SMALL)


@pytest.fixture
def in_legs(here: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """All of it in small pieces."""
    monkeypatch.setattr(planner, "LEG_ROWS_MAX", 70)
    monkeypatch.setattr(planner, "SLICE_ROWS_MAX", 40)
    monkeypatch.setattr(legs, "PIECE_ROWS", 16)


class TwiceEngine(LocalEngine):
    """An engine that loses the first run of each task after it has done its work."""

    def _map(self, *task: Any) -> list[dict[str, Any]]:
        super()._map(*task)
        return super()._map(*task)


def as_dedup(folder: Path, *options: object) -> list[dict[str, Any]]:
    """Return the verdicts of the run in `out`, which are those of `dedup` over the same files."""
    found = told(verdicts(folder / "out"))
    assert found == told(dedup(folder, *options))
    return found


@contextmanager
def twice_engine(_url: str | None, _threads: int) -> Iterator[LocalEngine]:
    """Stand in the place of `steps.engine`."""
    yield TwiceEngine()


@pytest.mark.usefixtures("in_legs")
def test_no_index_outlives_its_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Tasks share a process, and each counts on its memory alone; so nothing waits for Python to look
    for cycles.
    """
    crawl(tmp_path, 1)
    archive(tmp_path / "first", *LEGS)  # numba compiles in frames that it keeps for a while
    gc.collect()
    before, after = _indexes(), list[int]()

    class NotingEngine(LocalEngine):
        def _map(self, *task: Any) -> list[dict[str, Any]]:
            found = super()._map(*task)
            after.append(_indexes())
            return found

    monkeypatch.setattr(steps, "engine", lambda *_: nullcontext(NotingEngine()))
    gc.disable()
    try:
        archive(tmp_path / "out", *LEGS)
    finally:
        gc.enable()
    assert len(after) > 6
    assert max(after) <= before


def _indexes() -> int:
    return sum(isinstance(one, SearchIndex) for one in gc.get_objects())


class AtOnceEngine(LocalEngine):
    """An engine that runs each task twice at the same time, as if it took the first one for lost."""

    def _map(self, *task: Any) -> list[dict[str, Any]]:
        run_parts = super()._map
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(run_parts, *task) for _ in range(2)]
        # One of two judges may be refused. An engine that runs it again goes on with the other.
        return min((one.result() for one in both), key=_refused)


def _refused(found: list[dict[str, Any]]) -> int:
    return sum("in use by another process" in one.get("error", "") for one in found)


@pytest.mark.usefixtures("in_legs")
def test_a_task_may_run_twice_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of every kind does, and no file differs from those of tasks that run once."""
    crawl(tmp_path, seed=3)
    (tmp_path / "in" / "d.parquet").unlink()
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_000_000_000_000_000)
    options = (*LEGS, "--keep", "new", "--duplicates", "--prefer", "longest")
    archive(tmp_path / "once", *options)
    monkeypatch.setattr(steps, "engine", lambda *_: nullcontext(AtOnceEngine()))
    archive(tmp_path / "twice", *options)
    assert files(tmp_path / "twice") == files(tmp_path / "once")
    assert not [*(tmp_path / "twice").rglob("*.part")]


class NamingEngine(LocalEngine):
    """An engine that knows which step it runs."""

    step = "command"

    def run(self, step: str, *given: Any) -> None:
        NamingEngine.step = step.partition("-")[0]
        super().run(step, *given)
        NamingEngine.step = "command"


@pytest.mark.usefixtures("in_legs")
def test_a_run_that_ends_at_each_rename_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    In a run from a state, the command and all kinds of tasks end before and after each file gets
    its name, killed or by a full disk. All outputs are those of one run without legs, byte for byte.
    """
    monkeypatch.setattr(planner, "LEG_ROWS_MAX", 160)  # a judge has snapshots within its leg, too
    monkeypatch.setattr(planner, "SLICE_ROWS_MAX", 80)
    inputs_and_states(tmp_path, monkeypatch)
    options = ("--keep", "new", "--prefer", "longest", "--format", "jsonl", "--duplicates", *SMALL)
    whole, output = tmp_path / "whole", tmp_path / "out"
    archive(whole, *options, "--state", tmp_path / "whole_state")
    monkeypatch.setattr(steps, "engine", lambda *_: nullcontext(NamingEngine()))
    in_legs = command(output, *options, "--state", tmp_path / "state", "--task-memory", "1G")
    ends = end_at_each_rename(monkeypatch, in_legs, lambda: NamingEngine.step)
    assert set(ends) == {"command", "rows", "ask", "judge", "verdicts", "ids", "choose", "copy"}
    assert min(ends.values()) > 1
    assert files(output) == files(whole)
    assert known_in(tmp_path / "state") == known_in(tmp_path / "whole_state")
    assert not [*output.rglob("*.part")]


def end_at_each_rename(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], step: Callable[[], str]
) -> Counter[str]:
    """
    Run a command until it ends well. It ends before each file that has not had its name before gets
    it: it is killed, or the disk is full, in turn within each step.

    So it ends behind each such file, too: before the next one.

    Returns:
        how often it ended in which step.
    """
    rename = Path.replace
    seen = set[str]()
    ends = Counter[str]()

    def replace(path: Path, target: Path) -> Path:
        if str(target) in seen:
            return rename(path, target)
        seen.add(str(target))
        of_step = step()
        ends[of_step] += 1
        if ends[of_step] % 2:
            raise Killed
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", replace)
    monkeypatch.setattr(Path, "rename", replace)
    while True:
        NamingEngine.step = "command"
        with suppress(Killed):
            result = CliRunner().invoke(app, arguments)
            if result.exit_code == 0:
                return ends
            assert re.search("No space left on device|free some space", str(result.exception))


@pytest.mark.usefixtures("in_legs")
def test_the_files_of_the_last_leg_go_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run removes them, though it has nothing left to judge."""
    crawl(tmp_path)
    output = tmp_path / "out"

    def killed(run: Run) -> None:
        if run.is_judged:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(steps, "remove_judged", killed)
        CliRunner().invoke(app, command(output, *LEGS))
    assert [*(output / "judge").glob("leg-*")]
    archive(output, *LEGS)
    assert not [*(output / "judge").glob("leg-*")]


@pytest.mark.usefixtures("in_legs")
def test_a_name_that_a_document_gets_can_be_that_of_an_original_outside(tmp_path: Path) -> None:
    """Two inputs have an id, so one gets another, which an earlier document has: that one leaves."""
    source = write_inputs(tmp_path)
    many = [" ".join(random_words(random.Random(seed), 40)) for seed in range(160)]

    def write(first: str) -> None:
        files_of = [
            [page(1, doc_id=first, text=ARTICLE)],
            [page(n, doc_id=f"x{n}", text=text) for n, text in enumerate(many[:80])],
            [page(2, doc_id="1", text=many[80])],
            [page(n, doc_id=f"y{n}", text=text) for n, text in enumerate(many[81:])],
            [page(3, doc_id="1", text=OTHER), page(4, doc_id="z", text=ARTICLE)],
        ]
        for number, documents in enumerate(files_of):
            (source / f"{number}.jsonl").write_text(lines(*documents))

    write("0")
    [name] = [line["doc_id"] for line in told(dedup(tmp_path)) if line["doc_id"].startswith("1-")]
    write(name)
    archive(tmp_path / "out", *LEGS)
    found = as_dedup(tmp_path, *SMALL)
    assert [line["verdict"] for line in found[-2:]] == ["new", "new"]


def random_texts(count: int) -> list[str]:
    """Return texts of 60 random words, each drawn with its number as the seed."""
    return [" ".join(random_words(random.Random(seed), 60)) for seed in range(count)]


def write_in_tens(folder: Path, documents: Sequence[dict[str, Any]]) -> None:
    """Write documents to the folder `in`, in their order, ten to a file."""
    begins = range(0, len(documents), 10)
    write_inputs(folder, **{f"{first:03}": documents[first : first + 10] for first in begins})


def note_indexes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list that gets, of each judge that begins, its originals and those in its index."""
    indexed = list[tuple[int, int]]()

    class Counting(FileEngine):
        def __init__(self, replica: Replica, *given: Any) -> None:
            super().__init__(replica, *given)
            indexed.append((replica.documents, len(replica.judge.held.index)))

    monkeypatch.setattr(tasks, "FileEngine", Counting)
    return indexed


@pytest.mark.usefixtures("in_legs")
def test_originals_whose_documents_have_no_names_are_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their doc_ids are made of place and content, so no later row has one: no index holds them."""
    write_in_tens(tmp_path, [{"text": text} for text in random_texts(200)])
    indexed = note_indexes(monkeypatch)
    archive(tmp_path / "out", *LEGS)
    assert len(indexed) == 3
    assert all(held > 60 for held, _ in indexed[1:])
    assert [inside for _, inside in indexed] == [0, 0, 0]


@pytest.mark.usefixtures("in_legs")
def test_a_leg_is_shorter_where_many_of_its_originals_may_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that may leave stay in the judge's index, which counts for its memory."""
    pages = [page(n, doc_id=f"d{n % 80}", text=text) for n, text in enumerate(random_texts(160))]
    write_in_tens(tmp_path, pages)
    taken = []

    def judge_bytes(_rules: object, _held: int, rows: int, inside: int = 0) -> float:
        taken.append((rows + inside) * 10e6)
        return taken[-1]

    monkeypatch.setattr(planner, "judge_bytes", judge_bytes)
    monkeypatch.setattr(planner, "LEG_ROWS_MIN", 4)
    archive(tmp_path / "out", *LEGS[:-1], "10")
    planned = [result["next_leg"] for result in Run.load(tmp_path / "out").results("judge")]
    shares = [leg["stop"] - leg["begin"] for leg in planned if leg]
    assert max(taken) > 1e9
    assert shares[0] == 35
    as_dedup(tmp_path, "--batch-documents-max", "10")


@pytest.mark.usefixtures("in_legs")
def test_an_original_leaves_for_a_row_behind_the_leg_s_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leg ends with a whole record, whose last rows are behind its share, in a row group of theirs."""
    monkeypatch.setattr(tasks, "JOB_DOCUMENTS_MAX", 2)
    texts = random_texts(200)
    pages = [page(n, doc_id=f"a{n}", text=text) for n, text in enumerate(texts[:200])]
    pages[195] = page(195, doc_id="a3", text=texts[195])
    pages[197] = page(197, doc_id="a197", text=f"{texts[3]} and more")
    write_inputs(tmp_path, a=pages)
    options = ("--batch-documents-max", "50")
    archive(tmp_path / "out", *LEGS[:-2], *options)
    found = as_dedup(tmp_path, *options)
    assert {line["verdict"] for line in found} == {"new"}


@pytest.mark.usefixtures("in_legs")
def test_originals_that_all_stay_inside_do_not_end_the_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first chunk of originals has none outside, since two files number their rows."""
    monkeypatch.setattr(columns, "ROWS_BITS", 4)  # a chunk: 16 originals in place of 65,536
    texts = random_texts(120)
    numbered = [page(n, doc_id=str(n), text=texts[n]) for n in range(20)]
    named = [page(n, doc_id=f"b{n}", text=texts[20 + n]) for n in range(60)]
    again = [page(n, doc_id=str(n), text=texts[80 + n]) for n in range(20)]
    copies = [page(n, doc_id=f"c{n}", text=f"{texts[25 + n]} and more") for n in range(10)]
    write_inputs(tmp_path, a=numbered, b=named, c=again + copies)
    archive(tmp_path / "out", *LEGS)
    found = as_dedup(tmp_path, *SMALL)
    assert sum(line["verdict"] == "duplicate" for line in found) == len(copies)


@pytest.mark.usefixtures("in_legs")
def test_the_limit_may_change_whenever_a_run_goes_on(tmp_path: Path) -> None:
    """None in its first leg, one in the next, none in the rest, another when it has ended."""
    crawl(tmp_path)
    output = tmp_path / "out"
    unlimited = ("--format", "jsonl", "--quiet", *SMALL)
    kill_behind(tasks, "_save", command(output, *unlimited))
    kill_behind(steps, "ask_rows", command(output, *LEGS))
    archive(output, *unlimited)
    as_dedup(tmp_path, *SMALL)
    before = files(output)
    archive(output, *unlimited, "--task-memory", "2G")
    assert files(output) == before


@pytest.mark.usefixtures("in_legs")
def test_answers_behind_the_last_snapshot_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on in shorter legs cuts them elsewhere, and has none of the former ones."""
    crawl(tmp_path)
    output = tmp_path / "out"
    save = tasks._save
    saved = list[Path]()

    def killed(*given: Any) -> None:
        if saved:
            raise Killed
        saved.append(output)
        save(*given)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(tasks, "_save", killed)
        CliRunner().invoke(app, command(output, "--format", "jsonl", "--quiet", *SMALL))
    left = {path.name for path in (output / "judge").glob("answers-*")}
    monkeypatch.setattr(planner, "LEG_ROWS_MAX", 30)
    archive(output, *LEGS)
    assert left - {path.name for path in (output / "judge").glob("answers-*")}
    as_dedup(tmp_path, *SMALL)


@pytest.mark.usefixtures("in_legs")
def test_the_originals_of_a_state_are_outside_from_the_first_row_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge's index begins with none of them, and the rows find them all the same."""
    texts = random_texts(50)
    earlier = tmp_path / "earlier.jsonl"
    earlier.write_text(lines(*(page(n, text=text) for n, text in enumerate(texts))))
    copies = [page(100 + n, text=f"{text} and more") for n, text in enumerate(texts[:20])]
    write_inputs(tmp_path, a=copies)
    for state in ("state", "expected_state"):
        given = ("--state", tmp_path / state, "--output", tmp_path / "v")
        run("dedup", earlier, *given)
    indexed = note_indexes(monkeypatch)
    archive(tmp_path / "out", *LEGS, "--state", tmp_path / "state")
    found = as_dedup(tmp_path, *SMALL, "--state", tmp_path / "expected_state")
    assert indexed == [(50, 0), (50, 0)]
    assert [line["verdict"] for line in found] == 20 * ["duplicate"]


@pytest.mark.usefixtures("in_legs")
def test_a_run_has_the_legs_and_slices_that_were_planned(tmp_path: Path) -> None:
    """By one function, for as many documents and originals."""
    pages = [page(n, text=text) for n, text in enumerate(random_texts(200))]
    write_in_tens(tmp_path, pages)  # doc_ids are looked up by row group, and so by file
    archive(tmp_path / "out", *LEGS[:-1], "10")  # legs of 70 rows end with a record of 10
    of = Run.load(tmp_path / "out")
    judged = of.results("judge")
    did = [
        (leg["begin"], leg["stop"] - leg["begin"], result["originals"], leg["slices"])
        for result in judged
        if (leg := result["next_leg"])
    ]
    assert of.task_memory
    planned = planner.planned_legs(of.judging.search, of.task_memory, 200, 200)
    assert [tuple(leg) for leg in planned] == [(0, 70, 0, 0), *did]
    assert [slices for *_, slices in did] == [2, 4]


@pytest.mark.usefixtures("in_legs")
def test_a_limit_that_is_outgrown_is_told_when_it_is_and_a_larger_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The judge holds all originals, and nobody knows before how many there will be. What is told is
    enough for all rows that are left, not for one leg more.
    """
    crawl(tmp_path)
    output = tmp_path / "out"
    monkeypatch.setattr(planner, "JUDGE_HELD_BYTES", 1 << 20)
    monkeypatch.setattr(planner, "LEG_ROWS_MIN", 1)
    limit = f"{round(planner.judge_bytes(planner.SIZES[0].rules, 0, 80) / 1e6)}M"
    options = ("--format", "jsonl", "--quiet", *SMALL)
    said = archive(output, *options, "--task-memory", limit, code=1)
    [least] = re.findall("is too small: .* originals before a leg .* Give ([0-9]+M) or more", said)
    assert "it goes on where it was" in said
    assert not Run.load(output).is_judged
    answers = {path: path.read_bytes() for path in (output / "judge").glob("answers-*")}
    assert int(least[:-1]) > int(limit[:-1])
    archive(output, *options, "--task-memory", least)
    assert answers and all(path.read_bytes() == data for path, data in answers.items())
    as_dedup(tmp_path, *SMALL)


@pytest.mark.usefixtures("in_legs")
def test_url_rules_hold_across_legs(tmp_path: Path) -> None:
    """A re-crawl under another URL of its page is told of the original of an earlier leg."""
    pytest.importorskip("ada_url", reason="needs the extra urls")
    rules = tmp_path / "rules.toml"
    rules.write_text('url_rules = ["standard", "sid"]\n')
    texts = random_texts(160)
    first = [page(n, url=f"https://a.example/{n}", text=texts[n]) for n in range(80)]
    again = [
        page(100 + n, url=f"https://A.example:443/{n}/?sid={n}", text=texts[80 + n])
        for n in range(80)
    ]
    write_inputs(tmp_path, a=first, b=again)
    archive(tmp_path / "out", *LEGS, "--definition", rules)
    found = as_dedup(tmp_path, *SMALL, "--definition", rules)
    assert len([*(tmp_path / "out" / "done").glob("judge-*.json")]) == 2
    formers = [line["former_version"]["url"] for line in found[80:]]
    assert formers == [f"https://a.example/{n}" for n in range(80)]


@pytest.mark.usefixtures("here")
def test_limits_that_mean_nothing_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    One that is too small for any index, before anything is read or written, also when a run goes on
    or has ended; one for an exact search; one for more prefixes than can be counted.
    """
    write_inputs(tmp_path, a=[page(1, text=ARTICLE)])
    output = tmp_path / "out"
    exact = tmp_path / "exact.toml"
    exact.write_text('search_mode = "exact"\n')
    said = archive(output, "--task-memory", "1G", "--definition", exact, code=1)
    assert "leave --task-memory out" in said
    said = archive(output, "--task-memory", "1M", code=1)
    assert not (output / "run.json").exists()
    [least] = re.findall("of 1 MB is too small: .* Give ([0-9]+M) or more", said)
    archive(output, "--task-memory", least)
    before = files(output)
    assert "too small" in archive(output, "--task-memory", "1M", code=1)
    archive(output, "--task-memory", least)
    assert files(output) == before
    monkeypatch.setattr(planner, "PREFIXES_MAX", 10)
    said = archive(tmp_path / "other", "--task-memory", "1G", code=1)
    assert "one task judges by these rules. Leave --task-memory out" in said


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("has_state", [False, True])
def test_a_limit_too_small_for_the_chosen_search_is_refused_before_the_first_leg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_state: bool
) -> None:
    """
    The number of documents chooses the search, which can need more than the one that has the least;
    a state has chosen it, so the limit is refused before anything is read.
    """
    source = write_inputs(tmp_path, a=[page(1, text=ARTICLE)])
    state: tuple[object, ...] = ()
    if has_state:
        state = "--state", tmp_path / "state"
        huge = defined(search_size="huge")
        run("dedup", source / "a.jsonl", "--output", tmp_path / "known", *state, *huge)
    output = tmp_path / "out"
    monkeypatch.setattr(planner, "archive_originals", lambda _: 60_000_000)
    limit = f"{planner.judge_bytes(planner.SIZES[0].rules, 0, 3 << 19) / 1e6:.0f}M"
    said = archive(output, "--task-memory", limit, *state, code=1)
    assert re.search("too small: .*huge.* Give [0-9]+M or more", said)
    assert (output / "run.json").exists() != has_state
    assert not [*output.glob("done/judge-*")]
    archive(output, *state)


@pytest.mark.usefixtures("in_legs")
def test_a_judge_that_is_lost_at_its_end_leaves_the_numbers_of_its_originals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    More originals have left than stay, so that the judge which runs again would number them anew.
    The next leg's tasks and its judge mean the same originals all the same.
    """
    monkeypatch.setattr(snapshot, "_LEFT_MIN", 1)
    monkeypatch.setattr(planner, "LEG_ROWS_MAX", 160)
    monkeypatch.setattr(steps, "engine", twice_engine)
    texts = random_texts(160)
    stays = [page(n, doc_id=f"a{n}", text=texts[n]) for n in range(60)]
    versions = [page(100 + n, doc_id=f"v{n % 10}", text=texts[60 + n]) for n in range(100)]
    copies = [page(300 + n, doc_id=f"c{n}", text=f"{texts[n]} and more") for n in range(60)]
    write_inputs(tmp_path, a=versions[:10] + stays + versions[10:], b=copies)
    archive(tmp_path / "out", *LEGS)
    found = as_dedup(tmp_path, *SMALL)
    assert sum(line["verdict"] == "duplicate" for line in found) == len(copies)
