"""README.md and those that it names stay true: what they draw adds up, and the commands that they name are there."""

from __future__ import annotations

import doctest
import json
import re

import pytest
from typer.main import get_command

from tests.benchmarks.machine import RESULTS
from tests.conftest import REPOSITORY
from worker.cli import app
from worker.core.definition import MULTIPLIER, Parameters, finish
from worker.core.tokens import HEXADECIMAL_MIN, IDENTIFIER_MIN, UNICODE_VERSION

FOLDERS = (".", "worker", "worker/core", "worker/public", "deploy", "tests")
README = "".join((REPOSITORY / name / "README.md").read_text() for name in FOLDERS)


def test_the_drawn_pair_differs_where_the_drawing_says() -> None:
    """Three bits, in two of the four blocks."""
    a, b, marks = (
        re.search(rf"^    {name} +([01.x]{{16}}(?: [01.x]{{16}}){{3}})$", README, re.MULTILINE)[1]  # type: ignore[index]
        for name in ("a", "b", "differ")
    )
    assert marks == "".join(" " if x == " " else ".x"[x != y] for x, y in zip(a, b, strict=True))
    assert marks.count("x") == 3
    assert ["x" in block for block in marks.split()] == [False, True, False, True]


def test_every_command_in_the_readme_exists() -> None:
    """Those of the shell and those of make."""
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    named = set(re.findall(r"(?:^ {4}|`)neardup ([a-z][a-z-]+)", README, re.MULTILINE))
    assert {"worker", "feed", "verdicts", "dedup"} <= named <= commands
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)[` ]", README)) <= targets | {"and"}


def test_sizes_are_those_that_were_measured() -> None:
    """One table, as the last kept run of `make bench-replay` has it; nowhere else."""
    found = json.loads((RESULTS / "replay.json").read_text())["figures"]
    table = README[README.index("## Sizing") : README.index("# Tests and benchmarks")]
    said = dict(re.findall(r"^\| ([a-z].+?) \| (.+) \|$", table, re.MULTILINE))
    snapshot = found["snapshot_mb"] * 2**20 / found["documents"]
    assert list(said.values()) == [
        f"{found['replica_bytes_an_original']:.0f} bytes per original",
        f"{found['replica_on_disk_bytes_an_original']:.0f} bytes per original",
        f"{found['index_bytes_an_original']:.0f} bytes per original",
        f"{found['doc_id_table_bytes_an_original']:.0f} bytes per original",
        f"{found['files_bytes_an_original']:.0f} bytes per original",
        f"{snapshot:.0f} bytes per original",
        f"{found['log_bytes_a_row']:.0f} bytes per row",
        f"{found['replay_s']:.0f} s",
        f"{found['restore_cold_s']:.1f} s, {found['restore_warm_s']:.1f} s",
        f"{found['snapshot_s']:.1f} s, {found['snapshot_beside_replay_s']:.1f} s",
        f"{found['capture_ms']:.0f} ms",
    ]


def test_accuracy_is_what_was_measured() -> None:
    """The row of the defaults, as the last kept run of `make bench-accuracy` has it."""
    found = json.loads((RESULTS / "accuracy.json").read_text())
    recall, *_ = found["scores"]["all labelled sets"]["neardup, defaults"][2]
    row = next(line for line in README.splitlines() if line.startswith("| **defaults** |"))
    assert f"| .{1000 * recall:.0f}, 0 |" in row
    shares = [found["hard"][kind][1]["neardup, defaults"] for kind in ("product", "job", "figures", "legal")]
    told = [float(share) for share in row.split("|")[-2].replace(";", ",").split(",")]
    assert told == [pytest.approx(share, abs=0.002) for share in shares]


def test_the_library_example_holds() -> None:
    """Every line of it, as it stands."""
    example = doctest.DocTestParser().get_doctest(README, {}, "README.md", "README.md", 0)
    result = doctest.DocTestRunner().run(example)
    assert (result.failed, len(example.examples) > 8) == (0, True)


def test_the_definition_names_the_codes_constants() -> None:
    """Multiplier, mix, scheme, table and defaults, in the words of the page."""
    page = README[README.index("## The fingerprint, as it is defined") : README.index("## Whose words anchor")]
    defaults = Parameters()
    assert f"M = {MULTIPLIER:X}" in page
    assert finish(1) == int("B456BCFC34C2CB2C", 16)
    for constant in ("FF51AFD7ED558CCD", "C4CEB9FE1A85EC53", f"`{defaults.scheme}`", f"Unicode {UNICODE_VERSION}"):
        assert constant in page
    for name in ("anchored_weight", "unanchored_weight", "shingles_min", "tokens_min"):
        assert re.search(rf"`{name}` \({getattr(defaults, name)}\)", page), name
    assert f"`shingle_widths` ({defaults.shingle_widths[0]})" in page
    assert f"{HEXADECIMAL_MIN} or more hexadecimal" in page
    assert f"{IDENTIFIER_MIN} or more characters" in page
