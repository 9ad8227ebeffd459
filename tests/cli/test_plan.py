"""`neardup plan`: a table with the chosen layout first."""

from __future__ import annotations

import json

import pytest

from tests.cli.program import misused, run
from tests.conftest import REPOSITORY
from worker.cli.plan import archive_steps
from worker.settings import Settings


def test_the_chosen_layout_is_marked_and_named() -> None:
    """Ten million documents at distance 3: four tables, half a gigabyte; Manku's other layouts below."""
    result = run("plan", "--documents", "10M", "--distance", "3")
    lines = result.output.splitlines()
    marked = [line for line in lines if line.startswith("*")]
    assert marked[0].split()[1:6] == ["4", "blocks", "/", "4", "tables"]
    assert marked[1] == "* chosen: 4 blocks / 4 tables, 521 MB on one machine"
    for layout in ("4 x 4 blocks / 16 tables", "6 blocks / 20 tables"):
        assert any(layout in line for line in lines)


def test_directed_search_has_wider_blocks_for_more_documents() -> None:
    """Without a distance: the blocks for so many, and what a query costs."""
    for documents, blocks in (("20M", "4 x 16"), ("100M", "10 x 26")):
        result = run("plan", "--documents", documents)
        marked = next(line for line in result.output.splitlines() if line.startswith("*"))
        assert blocks in marked
        assert 5 < float(marked.split()[-1]) < 50


def test_plans_are_for_people_or_for_scripts() -> None:
    """A JSON object a line, the chosen one first, with the same figures."""
    directed, *_ = map(json.loads, run("plan", "--documents", "20M", "--json").output.splitlines())
    assert (directed["search_blocks"], directed["search_block_bits"]) == (4, 16)
    assert {name for name in directed if name.startswith("search_")} <= set(Settings.model_fields)
    told = run("plan", "--documents", "10M", "--distance", "3", "--json").output
    exact = [json.loads(line) for line in told.splitlines()]
    assert (exact[0]["layout"], exact[0]["tables"], exact[0]["machines"]) == ("4 blocks / 4 tables", 4, 1)
    assert round(exact[0]["memory_bytes"] / 1e6) == 521 and len(exact) > 2


def test_an_archive_is_planned_step_by_step() -> None:
    """The judge's memory is held against --memory, its hours against a day; for scripts a JSON object a step."""
    result = run("plan", "--documents", "1G", "--archive", "--memory", "32G")
    assert [line.split()[0] for line in result.stdout.splitlines()[3:6]] == ["rows", "judge", "verdicts"]
    assert "takes 45 GB of memory, one machine gives 32 GB: use a larger one" in result.stderr
    assert "a day has" not in result.stderr
    assert " 1,516.7 " in run("plan", "--documents", "30G", "--archive").stdout  # no power of ten
    result = run("plan", "--documents", "10G", "--archive", "--json")
    steps = {step["step"]: step for step in map(json.loads, result.stdout.splitlines())}
    assert (steps["judge"]["tasks"], steps["rows"]["tasks"]) == (1, None)
    assert "takes 47 hours, a day has 24: archive fewer" in result.stderr


def test_the_costs_of_an_archive_in_the_readme_are_those_planned() -> None:
    """For 100 M, 1 G and 10 G documents, with two digits."""
    text = (REPOSITORY / "deploy" / "README.md").read_text(encoding="utf-8")
    for name, documents in (("100 M", 10**8), ("1 G", 10**9), ("10 G", 10**10)):
        rows, judge, verdicts = archive_steps(documents)
        cells = [cell.strip() for cell in text.partition(f"\n| {name} | ")[2].partition("\n")[0].split("|")]
        hours, judging, memory, disk = (float(cell.split()[0]) for cell in cells[:4])
        scale = {"GB": 1e9, "TB": 1e12}
        assert hours == pytest.approx(rows.core_hours + verdicts.core_hours, rel=0.02)
        assert judging == pytest.approx(judge.core_hours, rel=0.1)
        assert memory * scale[cells[2].split()[1]] == pytest.approx(judge.memory_bytes, rel=0.02)
        assert disk * scale[cells[3].split()[1]] == pytest.approx(judge.disk_bytes, rel=0.02)


@pytest.mark.parametrize("documents", ["2^34", "17179869184", "17,179,869,184", "17.179869184G", "17179869184e0"])
def test_a_count_may_be_written_in_several_ways(documents: str) -> None:
    """All of them mean the same."""
    result = run("plan", "--documents", documents, "--distance", "3", "--memory", "64GB")
    assert result.output.startswith("17,179,869,184 documents, exact search at distance 3")
    assert "machines, each with a range of prefixes" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--documents", "many"], "got 'many'"),
        (["--documents", "2^99"], "1 to 2^40"),
        (["--documents", "9999^999"], "got '9999^999'"),
        (["--documents", "9" * 400], "got '999"),
        (["--documents", "10M", "--memory", "1M"], "got 1000000"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: list[str], said: str) -> None:
    """Exit code 2 and the reason."""
    assert said in misused("plan", *arguments)
