"""
`neardup plan`, `evaluate` and `tune`: a table with the chosen layout first; documents and labels of
our own.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.program import defined, documents_of, lines, misused, refused, run
from tests.core.test_evaluation import made_texts, pages_of_a_host, with_scattered_words
from worker.cli.plan import (
    JUDGE_ROW_US,
    JUDGE_ROW_US_PER_MILLION,
    archive_default,
    archive_search,
    archive_steps,
    in_bytes,
)
from worker.cli.shared import console_of_terminal
from worker.cli.tune import _changed
from worker.core import group
from worker.core.evaluation import Pairs, Trial, finds, measure
from worker.core.fingerprint import Fingerprinter
from worker.core.planner import BEYOND, SIZES, Size, line_of
from worker.core.search import SearchRules
from worker.settings import Settings
from worker.shell.files.repeats import NAMED


def test_the_chosen_layout_is_marked_and_named() -> None:
    """
    Ten million documents at distance 3: four tables, half a gigabyte; Manku's other layouts below.
    """
    result = run("plan", "--documents", "10M", "--distance", "3")
    lines = result.output.splitlines()
    marked = [line for line in lines if line.startswith("*")]
    assert marked[0].split()[1:6] == ["4", "blocks", "/", "4", "tables"]
    assert marked[1] == "* chosen: 4 blocks / 4 tables, 521 MB"
    for layout in ("4 x 4 blocks / 16 tables", "6 blocks / 20 tables"):
        assert any(layout in line for line in lines)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_plan_names_the_size_its_settings_and_what_was_measured(size: Size) -> None:
    """
    At the end of its range each size is chosen, and its row is marked; one document more takes the
    next.
    """
    text = run("plan", "--documents", str(size.documents_max)).stdout
    [marked, _] = re.findall(r"^\* .*$", text, re.MULTILINE)
    assert f" {size.rules.blocks} x {size.rules.block_bits} " in marked
    assert 5 < float(marked.split()[-1]) < 50
    assert f"\n  {line_of(size.rules)}\n" in text
    assert f'"{size.name}" serves {size.documents_max:,} originals' in text
    for originals, microseconds in size.measured_us:
        assert f"{microseconds:.1f} µs with {originals:,}" in text
    assert "Extrapolated" not in text
    more = run("plan", "--documents", str(size.documents_max + 1)).stdout
    assert f'"{size.name}" serves' not in more


def test_a_plan_says_where_it_extrapolates() -> None:
    """Beyond the largest size, with the recall that its rules have."""
    text = run("plan", "--documents", "101M").stdout
    measured = f"measured with up to {BEYOND.measured_max:,} originals"
    assert f"Extrapolated: this search was {measured}." in text
    assert 'It finds 0.9907 of the labelled copies, "small" 0.9984.' in text


def test_plans_are_for_people_or_for_scripts() -> None:
    """A JSON object a line, the chosen one first, with the same figures."""
    directed, *_ = map(json.loads, run("plan", "--documents", "10M", "--json").output.splitlines())
    assert directed["search_size"] == "small"
    assert {name for name in directed if name.startswith("search_")} <= set(Settings.model_fields)
    told = run("plan", "--documents", "10M", "--distance", "3", "--json").output
    exact = [json.loads(line) for line in told.splitlines()]
    assert (exact[0]["layout"], exact[0]["tables"]) == ("4 blocks / 4 tables", 4)
    assert round(exact[0]["memory_bytes"] / 1e6) == 521 and len(exact) > 2


def test_an_archive_is_planned_step_by_step() -> None:
    """
    The judge's memory is held against --memory, its hours against a day; for scripts a JSON object
    a step.
    """
    result = run("plan", "--documents", "400M", "--archive", "--memory", "8G")
    assert [line.split()[0] for line in result.stdout.splitlines()[3:6]] == [
        "rows",
        "judge",
        "verdicts",
    ]
    documents = 400 * 10**6
    memory = in_bytes(archive_steps(documents, archive_search(documents))[1].memory_bytes)
    assert f"takes {memory} of memory, one machine gives 8 GB: use a larger one" in result.stderr
    assert "a day has" not in result.stderr
    assert " 1,516.7 " in run("plan", "--documents", "30G", "--archive").stdout  # no power of ten
    result = run("plan", "--documents", "10G", "--archive", "--json")
    steps = {step["step"]: step for step in map(json.loads, result.stdout.splitlines())}
    assert (steps["judge"]["tasks"], steps["rows"]["tasks"]) == (1, None)
    hours = f"takes {steps['judge']['core_hours']:,.0f} hours, a day has 24: archive fewer"
    assert hours in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--documents", "3G"],
        ["--documents", "3G", "--json"],
        ["--documents", "6G", "--archive"],
    ],
)
def test_more_originals_than_an_index_can_hold_are_told(options: list[str]) -> None:
    """Rows are 32 bits, whatever the memory: half of an archive's documents are originals."""
    said = "3,000,000,000 originals are more than the 2,147,483,648 that one index can hold"
    assert said in run("plan", *options).stderr
    assert "one index can hold" not in run("plan", *options[:1], "1G", *options[2:]).stderr


def test_the_judge_of_an_archive_is_planned_in_legs() -> None:
    """
    With --task-memory other tasks search most originals, so the judge needs less memory: what it
    holds of each of them stays. How long that takes, more cores shorten.
    """

    def planned(*options: str) -> dict[str, dict[str, Any]]:
        told = run(
            "plan", "--archive", "--documents", "160M", "--json", *options
        ).stdout.splitlines()
        return {step["step"]: step for step in map(json.loads, told)}

    whole = planned()
    legs = planned("--task-memory", "10G", "--cores", "64")
    fewer = planned("--task-memory", "14G", "--cores", "64")
    assert [*legs] == ["rows", "ask", "judge", "verdicts"]
    assert legs["judge"]["memory_bytes"] < whole["judge"]["memory_bytes"]
    # It searches among fewer, but so few that their probes may not be sorted.
    assert legs["judge"]["core_hours"] == pytest.approx(whole["judge"]["core_hours"], rel=0.2)
    for step in ("ask", "judge"):
        assert legs[step]["memory_bytes"] <= 10e9
    assert fewer["ask"]["core_hours"] < legs["ask"]["core_hours"]
    refused = run("plan", "--archive", "--documents", "1G", "--task-memory", "8G", code=2).stderr
    assert "too small" in refused and "500,000,000 originals" in " ".join(refused.split())
    refused = run("plan", "--documents", "1G", "--task-memory", "8G", code=2).stderr
    assert "--task-memory belongs to --archive" in refused


@pytest.mark.parametrize("documents", [10**6, 10**8, 10**9, 10**10])
def test_an_archive_costs_what_plan_says_of_its_originals(documents: int) -> None:
    """The search that `plan` chooses, and what the judge does besides; names are extra."""
    told = run("plan", "--documents", str(documents // 2), "--json").stdout.splitlines()
    chosen = json.loads(told[0])
    told = run("plan", "--documents", str(documents), "--archive", "--json").stdout.splitlines()
    judge = json.loads(told[1])
    row_us = JUDGE_ROW_US + JUDGE_ROW_US_PER_MILLION * min(documents / 2e6, 51.3)
    us_each = row_us + chosen["query_insert_ns"] / 1e3
    assert judge["core_hours"] == pytest.approx(documents * us_each / 3.6e9)
    names = judge["memory_bytes"] - chosen["memory_bytes"] - 0.5e9
    assert 30 < names / (documents // 2) < 40


def test_the_disk_of_an_archive_is_that_of_every_step() -> None:
    """
    Next to the originals, the judge keeps an answer to each document; then come its verdict and
    the row by which documents of one doc_id are counted.
    """
    documents = 10**8
    search = archive_search(documents)
    rows, judge, verdicts = archive_steps(documents, search)
    originals = search.documents * (group.FILE_BYTES + 2 * group.SNAPSHOT_BYTES)
    assert rows.disk_bytes == 105 * documents
    assert judge.disk_bytes - originals == pytest.approx(110 * documents)
    assert verdicts.disk_bytes == (58 + NAMED.itemsize) * documents


def test_only_the_judge_of_an_archive_takes_as_long_with_more_cores() -> None:
    """Rows and verdicts are many tasks. The table says so, and what all steps take together."""
    hours = {}
    for cores in (1, 64):
        told = run("plan", "--documents", "1G", "--archive", "--cores", str(cores), "--json").stdout
        hours[cores] = {line["step"]: line["hours"] for line in map(json.loads, told.splitlines())}
    assert hours[64]["judge"] == hours[1]["judge"]
    for step in ("rows", "verdicts"):
        assert hours[64][step] == pytest.approx(hours[1][step] / 64)
    shown = run("plan", "--documents", "1G", "--archive", "--cores", "64").stdout
    assert "half of them copies, on 64 cores:" in shown
    assert f"\n{sum(hours[64].values()):,.1f} hours in all" in shown


def test_the_plan_of_an_archive_names_its_search_and_where_it_extrapolates() -> None:
    """It shows the flag of another search than the default, and what the default would take."""
    small = run("plan", "--documents", "10M", "--archive").stdout
    assert "The judge has the default search" in small
    assert "Extrapolated" not in small
    assert "Extrapolated" not in run("plan", "--documents", "102M", "--archive").stdout
    assert "Extrapolated" in run("plan", "--documents", "104M", "--archive").stdout
    large = run("plan", "--documents", "1G", "--archive").stdout
    assert 'The judge has search_size = "10x26x64": ' in large
    hours = archive_steps(10**9, archive_default(10**9))[1].core_hours
    assert f"so {hours:,.1f} hours" in large
    originals = f"originals, its search alone with up to {BEYOND.measured_max // 10**6} M."
    assert f"Extrapolated: the judge was measured with up to 51 M {originals}" in large


@pytest.mark.parametrize(
    "documents", ["2^30", "1073741824", "1,073,741,824", "1.073741824G", "1073741824e0"]
)
def test_a_count_may_be_written_in_several_ways(documents: str) -> None:
    """All of them mean the same."""
    result = run("plan", "--documents", documents, "--distance", "3", "--memory", "64GB")
    assert result.output.startswith("1,073,741,824 documents, exact search at distance 3")
    marks = [line[:1] for line in result.output.splitlines() if "blocks /" in line]
    assert marks[0] == "*" and "-" in marks
    assert result.output.endswith("- does not fit: a machine gives 64 GB\n")


def test_a_group_is_planned_for_what_it_judges_in_a_month() -> None:
    """
    All that a worker takes, a line each, for people; one object for scripts; what grows is told.
    """
    given = ["plan", "--per-month", "300M", "--retention", "30d", "--memory", "64G", "--cores", "8"]
    text = run(*given, COLUMNS="120").stdout
    assert text.startswith("300,000,000 documents a month, 115.7 a second on average")
    lines = [line.split()[0] for line in text.splitlines() if line[:1].islower()]
    assert lines == ["search", "workers", "memory", "disk", "snapshots", "log", "start"]
    measured = f"measured with up to {BEYOND.measured_max:,} originals"
    assert f"Extrapolated: this search was {measured}" in text
    assert "The log grows without end" in text and "`neardup log renew`" in text
    assert "Originals grow" not in text
    planned = json.loads(run(*given, "--json").stdout)
    assert (planned["originals"], planned["workers"]) == (150_000_000, 1)
    assert planned["memory_bytes"] < 64e9
    for_ever = run("plan", "--per-month", "12M").stdout
    assert "Originals grow without end: --retention plans expire_after_s" in for_ever
    served = re.search(r'"\w+" serves ([\d,]+) originals, .* after ([\d,.]+) days', for_ever)
    assert served is not None
    comes = int(served[1].replace(",", "")) / 6e6 * 30  # half of 12 M documents in thirty days
    assert float(served[2].replace(",", "")) == pytest.approx(comes, abs=0.1)
    # The rules of small crawls serve them for longer than anybody plans, whatever the number.
    for few in ("1", "1000", "8K"):
        text = run("plan", "--per-month", few).stdout
        assert "so many do not come in the next 100 years" in text and " days" not in text
    small = run(*given[:5], "--memory", "14G").stdout
    assert re.search(r'"\w+" serves [\d,]+ originals, and so many have come after', small)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--documents", "many"], "got 'many'"),
        (["--documents", "2^99"], "1 to 2^40"),
        (["--documents", "10B"], "B stands for bytes: write 10G for billions, got '10B'"),
        (["--documents", "10MB"], "write 10M, got '10MB'"),
        (["--documents", "9999^999"], "got '9999^999'"),
        (["--documents", "9" * 400], "got '999"),
        (["--documents", "2^34", "--memory", "64G"], "and one machine gives 64.0 GB"),
        ([], "give either --documents or --per-month"),
        (["--documents", "1M", "--per-month", "1M"], "give either --documents or --per-month"),
        (["--documents", "1M", "--retention", "3d"], "--retention belongs to --per-month"),
        (["--documents", "1M", "--cores", "4"], "--cores belongs to --per-month and --archive"),
        (["--per-month", "1M", "--retention", "3 days"], "got '3 days'"),
        (["--per-month", "1M", "--archive"], "--archive is planned for a number of --documents"),
        (["--per-month", "1M", "--distance", "3"], "leave --distance out"),
        (["--per-month", "300M", "--memory", "1G"], "give more (--memory)"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: list[str], said: str) -> None:
    """Exit code 2 and the reason."""
    assert said in misused("plan", *arguments)


ORIGINAL = (
    "The council of the town has said that the bridge over the river will be open in May, and that "
    "the old ferry will then be sold to the museum. Nobody knows what it will be worth, because it "
    "has never been looked at by anybody."
)
DOCUMENTS = {
    "original": ORIGINAL,
    "copy": ORIGINAL.replace("anybody", "them"),
    "other": "A recipe for bread that is baked in the oven of a village, with flour that the mill "
    "has made in autumn.",
    "half": f"{ORIGINAL[: len(ORIGINAL) // 2]} {ORIGINAL[:60].upper()} and so on and so on, as it "
    f"was said before.",
    "short": "Too short",
}


def written(path: Path, texts: dict[str, str]) -> Path:
    path.write_text(documents_of(texts))
    return path


@pytest.fixture
def labelled(tmp_path: Path) -> list[str]:
    """
    Five documents, and pairs of them: one the same, two not, one that is wrongly called the same,
    one not scored.
    """
    documents, pairs = written(tmp_path / "docs.jsonl", DOCUMENTS), tmp_path / "pairs.tsv"
    rows = (("original", "copy", 1, "edits"), ("copy", "other", 0, "topics"), ("copy", "short", 0, "topics"),
            ("original", "other", 1, "wrong labels"), ("original", "half", -1, "edits"))  # fmt: skip
    pairs.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    return [str(documents), str(pairs)]


def test_scores_and_wrong_pairs_are_told(labelled: list[str]) -> None:
    """
    A line a kind and one for all; what was judged wrong is named with the reason; the stream is
    judged, too.
    """
    said = run("evaluate", *labelled).output
    for text in ("edits", "topics", "wrong labels", "original ~ other (wrong labels)", "missed: 1"):
        assert text in said
    assert "5 documents, 1 duplicates, of them 1 true, 0 in between, 0 false" in " ".join(
        said.split()
    )
    told = json.loads(run("evaluate", *labelled, "--json").stdout)
    assert told["scores"]["edits"]["recall"]["value"] == 1
    assert (
        told["scores"]["all"]["recall"]["value"]
        == told["scores"]["all"]["f1"]["value"] - 1 / 6
        == 0.5
    )
    assert sum(told["distances"]["same"]) == sum(told["distances"]["other"]) == 2
    assert told["hard_negatives"] == {"topics": {"pairs": 2, "found": 0, "merged": 0}}
    assert told["stream"] == {"documents": 5, "true": 1, "grey": 0, "false": 0}
    assert [(one["first"], one["second"]) for one in told["wrong"]] == [("original", "other")]


def test_a_doc_id_of_two_files_is_two_documents_of_the_stream(tmp_path: Path) -> None:
    """The pairs mean the first one; the other has the name that dedup gives it."""
    folder = tmp_path / "docs"
    folder.mkdir()
    written(folder / "1.jsonl", {"a": ORIGINAL, "b": DOCUMENTS["other"]})
    written(folder / "2.jsonl", {"a": DOCUMENTS["half"], "b": DOCUMENTS["other"]})
    doc_ids = [json.loads(line)["doc_id"] for line in run("dedup", folder).stdout.splitlines()]
    (apart,) = {*doc_ids} - {"a", "b"}
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"a\tb\t0\n{apart}\tb\t0\na\t{apart}\t0\n")
    result = run("evaluate", folder, pairs, "--json")
    told = json.loads(result.stdout)
    assert told["stream"]["documents"] == 3
    assert told["scores"]["all"]["other"] == 3
    assert "1 document has a doc_id that an earlier input" in result.stderr


def test_pages_of_one_host_are_kept_apart(tmp_path: Path) -> None:
    """
    By their URLs and titles, as pairs and in the stream. That a log says the same is tested in
    `tests/core/test_evaluation.py`.
    """
    texts, pages = pages_of_a_host()
    documents, pairs = tmp_path / "docs.jsonl", tmp_path / "pairs.tsv"
    documents.write_text(
        lines(
            *(
                {"doc_id": name, "url": url, "html": f"<title>{title}</title><p>{text}</p>"}
                for name, url, title, text in zip(
                    "ab", pages.urls, ("Red lamps of glass", "Garden chairs"), texts, strict=False
                )
            )
        )
    )
    pairs.write_text("a\tb\t0\tpages\n")
    told = json.loads(run("evaluate", documents, pairs, "--json").stdout)
    assert told["stream"] == {"documents": 2, "true": 0, "grey": 0, "false": 0}
    assert told["hard_negatives"]["pages"]["found"] == 0


def test_hard_negatives_are_told_by_kind(labelled: list[str]) -> None:
    """
    Of pairs called other, those found, and those that a stream makes one, even by a third document.
    """
    written(Path(labelled[0]), {**DOCUMENTS, "third": ORIGINAL.replace("sold", "left")})
    Path(labelled[1]).write_text(
        "original\tcopy\t0\tother bridge\nthird\tcopy\t0\tby a third\noriginal\tother\t0\tby far"
    )
    told = json.loads(run("evaluate", *labelled, "--json").stdout)["hard_negatives"]
    assert told["other bridge"] == {"pairs": 1, "found": 1, "merged": 1}
    assert told["by a third"]["merged"] == 1
    assert told["by far"] == {"pairs": 1, "found": 0, "merged": 0}
    assert "not the same, by kind" in run("evaluate", *labelled).output


@pytest.mark.parametrize(("columns", "width"), [("0", 80), ("3", 20), ("40", 40)])
def test_a_console_is_wide_enough_to_print_anything(columns: str, width: int) -> None:
    """A console of rich prints nothing where the terminal says 0, which stands for unknown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", columns)
        assert console_of_terminal().width == width


def test_a_plot_is_written_or_refused(labelled: list[str], tmp_path: Path) -> None:
    """A picture where matplotlib is installed; without it the error says how to install it."""
    target = tmp_path / "distances.svg"
    said = run("evaluate", *labelled, "--plot", target, code=find_spec("matplotlib") is None)
    assert target.is_file() or "pip install matplotlib" in str(said.exception)


@pytest.mark.parametrize("command", ["evaluate", "tune"])
def test_a_plot_that_cannot_be_written_is_refused_before_anything_is_read(
    labelled: list[str], tmp_path: Path, command: str
) -> None:
    """An ending that matplotlib does not know, and a folder that is not there."""
    pytest.importorskip("matplotlib")
    missing = tmp_path / "missing" / "plot.png"
    assert "there is no folder" in refused(command, *labelled, "--plot", missing)
    assert "it is a folder" in refused(command, *labelled, "--plot", tmp_path)
    Path(labelled[0]).write_text("no document")  # which would be said if it were read
    said = refused(command, *labelled, "--plot", tmp_path / "plot.bmp")
    assert "matplotlib draws" in said and ".svg" in said


@pytest.mark.parametrize("how", ["mark", "gzip", "stdin", "windows", "blank"])
def test_pairs_are_read_as_other_inputs_are(labelled: list[str], how: str) -> None:
    """With a byte order mark, compressed, from stdin, with CR LF; no doc_id is cut at U+2028."""
    pairs = Path(labelled[1])
    documents = written(Path(labelled[0]), {**DOCUMENTS, "a\u2028b": ORIGINAL})
    content = "original\ta\u2028b\t1\noriginal\tother\t0\n".encode()
    if how == "mark":
        content = codecs.BOM_UTF8 + content
    elif how == "gzip":
        content = gzip.compress(content)
    elif how == "windows":
        content = content.replace(b"\n", b"\r\n")
    elif how == "blank":
        content = content.replace(b"\n", b"\n\n")
    pairs.write_bytes(content)
    name = "-" if how == "stdin" else pairs
    result = run("evaluate", documents, name, "--json", stdin=content if how == "stdin" else b"")
    scores = json.loads(result.stdout)["scores"]["all"]
    assert (scores["same"], scores["other"], scores["recall"]["value"]) == (1, 1, 1)
    assert "pairs left out" not in result.stderr
    if how == "stdin":
        assert "it can be read only once" in refused("evaluate", "-", "-")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a\tb", "line 1: must be doc_id, doc_id, label"),
        ("a\tb\t2", "must be doc_id"),
        ("x\ty\t1", "no pair of"),
        ("a\tb\t1\nb\ta\t0", "line 2: says 0 of a pair of which line 1 says 1: 'a\\tb\\t1' and"),
        ("a\tb\t1\tall", "no kind can be called 'all'"),
    ],
)
def test_pairs_of_another_form_are_refused(labelled: list[str], line: str, told: str) -> None:
    """The error names file, line and form; pairs of unknown documents are no pairs."""
    Path(labelled[1]).write_text(line)
    result = run("evaluate", *labelled, code=1)
    assert told in f"{result.output}{result.exception}"


COPIED = 250


@pytest.fixture(scope="module")
def many_copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """250 texts and their copies, of each one text that only looks alike, and 500 others."""
    texts = made_texts(COPIED)
    texts += with_scattered_words(texts[::2], 0.2) + made_texts(500, seed=8)[::2]
    path = tmp_path_factory.mktemp("tune") / "docs.jsonl"
    return written(path, {str(at): text for at, text in enumerate(texts)})


def test_the_starred_settings_lose_no_copy(many_copies: Path) -> None:
    """
    Where there is enough to go by, one row has a star. Its settings find every copy of the corpus,
    sampled or not, and no text that looks alike; they are shown with memory and time.
    """
    shown = run("tune", many_copies, "--expected", "1M").output
    assert len(re.findall(r"^ *\d\.\d{4} \*", shown, re.MULTILINE)) == 1
    said = " ".join(shown.split())
    assert re.search(r"pairs the same, [\d,]+ not, \d+ of them look alike; best first", said)
    assert "definition: " in said and "at 1,000,000 originals: an index of" in said
    table = shown.partition("as a stream in this order")[2]
    assert len(re.findall(r"^ *[\d.]+ +[\d.]+ \* ", table, re.MULTILINE)) == 1
    best = json.loads(run("tune", many_copies, "--json", "--quiet").stdout.splitlines()[0])
    assert best["recommended"] is True
    assert best["stream"]["recall"]["low"] < best["stream"]["recall"]["value"] == 1
    settings = Settings(**best["settings"])
    texts = [json.loads(line)["text"] for line in many_copies.read_text().splitlines()]
    firsts = np.arange(0, 2 * COPIED, 2)
    copies = Pairs(firsts, firsts + 1, np.ones(COPIED, np.bool_), ["made"] * COPIED)
    alike = copies._replace(second=2 * COPIED + np.arange(COPIED))
    batch = Fingerprinter(settings.parameters).batch(texts)
    assert finds(measure(batch, copies, settings.search), settings.search).all()
    assert not finds(measure(batch, alike, settings.search), settings.search).any()


@pytest.mark.parametrize(
    ("copied", "alike", "reason"),
    [
        (40, 250, "40 groups of copies, 200 or more are needed"),
        (COPIED, 10, "pairs that look alike and are not the same"),
    ],
    ids=["few copies", "few that look alike"],
)
def test_too_little_to_go_by_has_no_star_and_says_why(
    tmp_path: Path, copied: int, alike: int, reason: str
) -> None:
    """Without copies, or texts that only look alike, figures are shown, and nothing recommended."""
    texts = made_texts(copied)
    texts += with_scattered_words(made_texts(300)[:alike], 0.2)
    if alike > copied:
        texts += made_texts(300)[:alike:2]
    documents = written(
        tmp_path / "docs.jsonl", {str(at): text for at, text in enumerate(dict.fromkeys(texts))}
    )
    result = run("tune", documents)
    assert "no settings are recommended: " in result.stderr and reason in result.stderr
    assert "*" not in result.stdout and "definition:" not in result.stdout
    assert "recall" in result.stdout and "at 20,000,000 originals" in result.stdout
    table = result.stdout.partition("as a stream in this order")[2]
    assert re.search(
        r"^ *0?\.?\d+ +0?\.?\d+ +[\d.]+ \([\d.]+-[\d.]+\) +\.\d+ \(to ", table, re.MULTILINE
    )
    found = [json.loads(line) for line in run("tune", documents, "--json").stdout.splitlines()]
    assert found and not any(one["recommended"] for one in found)


def test_labelled_pairs_are_sure_when_there_are_enough(many_copies: Path, tmp_path: Path) -> None:
    """With 250 groups of copies and 1,000 other pairs a row has a star; with 999 none has."""
    pairs = tmp_path / "pairs.tsv"
    copies = [f"{first}\t{first + 1}\t1" for first in range(0, 2 * COPIED, 2)]
    others = [f"{first}\t{first + gap}\t0" for first in range(250) for gap in (3, 5, 7, 9)]
    for count, is_sure in ((1_000, True), (999, False)):
        pairs.write_text("\n".join(copies + others[:count]))
        result = run("tune", many_copies, pairs, "--json")
        assert json.loads(result.stdout.splitlines()[0])["recommended"] is is_sure
        assert ("999 pairs that are not the same, 1,000" in result.stderr) is not is_sure


def test_few_labelled_pairs_show_the_usual_thresholds_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Of 40 pairs, each threshold has both errors with intervals, on pairs and in a stream; nothing is
    recommended, and nothing else is tried. A given threshold is another row.
    """
    monkeypatch.setattr("worker.cli.tune.trials", None)
    texts = made_texts(20) + with_scattered_words(made_texts(20)[::2], 0.08)
    documents = written(tmp_path / "docs.jsonl", {str(at): text for at, text in enumerate(texts)})
    pairs = tmp_path / "pairs.tsv"
    copies = [f"{first}\t{first + 1}\t1" for first in range(0, 40, 2)]
    alike = [f"{2 * first}\t{40 + first}\t0" for first in range(20)]
    pairs.write_text("\n".join(copies + alike))
    result = run("tune", documents, pairs)
    assert "20 groups of copies, 200 or more are needed" in result.stderr
    assert "compare the usual thresholds" in result.stderr and "*" not in result.stdout
    rows = re.findall(
        r"^ *([\d.]+) +1\.000 \(\.84-1\.00\) +(\.\d+ \(to \.\d+\)) *$", result.stdout, re.MULTILINE
    )
    assert [threshold for threshold, _ in rows] == ["0.5", "0.54", "0.7"] * 2
    assert rows[0][1] != rows[2][1]
    lines = run("tune", documents, pairs, "--json", "--quiet", *defined(similarity_min=0.6)).stdout
    found = [json.loads(line) for line in lines.splitlines()]
    assert [one["settings"]["similarity_min"] for one in found] == [0.5, 0.54, 0.6, 0.7]
    assert not any(one["recommended"] for one in found)
    for one in found:
        for scores in (one["pairs"], one["stream"]):
            for error in ("recall", "false_positives"):
                assert scores[error]["low"] <= scores[error]["value"] <= scores[error]["high"]


def test_a_corpus_without_copies_cannot_be_tuned(tmp_path: Path) -> None:
    """Exit code 1 and the reason."""
    documents = written(tmp_path / "docs.jsonl", {"a": "one text alone"})
    said = refused("tune", documents)
    assert "nothing can be tuned: none of the sampled pairs are copies. " in said


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"similarity_min": 0.9},
        {"similarity_min": 0},
        {"similarity_min": 0, "similarity_margin": 0.3},
        {"search_mode": "exact", "max_distance": 6},
    ],
)
@pytest.mark.parametrize(
    "rules",
    [
        SearchRules(),
        SearchRules(patterns=16),
        SearchRules("exact", 3),
        SearchRules(similarity_min=0),
        SearchRules(similarity_min=0.4, similarity_margin=0),
    ],
)
def test_the_settings_that_are_shown_make_what_was_tried(
    given: dict[str, Any], rules: SearchRules
) -> None:
    """
    Set beside those that are given, they are these very rules; none is shown where they are them
    already.
    """
    settings = Settings(**given)
    shown = _changed(Trial("", settings.parameters, rules, 1, 0), settings)
    assert Settings(**{**given, **shown}).search == rules
    assert bool(shown) == (settings.search != rules)
    assert rules.mode == "directed" or not any(
        name.startswith("search_") for name in shown if name != "search_mode"
    )


def test_a_count_that_no_index_holds_is_refused_at_once() -> None:
    """Before a file is opened."""
    assert "got '9999^99'" in misused("tune", "missing.jsonl", "--expected", "9999^99")
