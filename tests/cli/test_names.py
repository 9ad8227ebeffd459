"""
Names of files that are not UTF-8, and files that are read as settings, through every command that
reads files.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from tests.cli.program import ARTICLE, defined, lines, page, refused, run
from tests.cli.test_options import COMMANDS

DOCUMENTS = lines(
    *({"doc_id": name, "text": f"{ARTICLE} {name}"} for name in "ab"),
    {"doc_id": "x", **page(1, text="a"), "fetched_at": "never"},
)
NAMED = os.fsdecode(b"caf\xe9")
SHOWN = "caf\\udce9"
ON_FILES = {
    "dedup": "dedup {name}",
    "dedup --keep": "dedup {name} --keep new",
    "fingerprint": "fingerprint {name}",
    "find-all": "find-all --input {name}",
    "find-clusters": "find-clusters --input {name}",
    "nearest": "nearest {name} --to a",
    "report": "report {verdicts} --documents {name}",
}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Documents under a name that is not UTF-8, and their verdicts."""
    name = tmp_path / f"{NAMED}.jsonl"
    name.write_text(DOCUMENTS)
    verdicts = tmp_path / f"{NAMED}.verdicts"
    run("dedup", name, "--output", verdicts, "--quiet")
    return {"name": name, "verdicts": verdicts}


@pytest.mark.parametrize("command", ON_FILES)
def test_a_name_that_is_not_utf_8_is_read_and_written(
    files: dict[str, Path], tmp_path: Path, command: str
) -> None:
    """Whatever the command says of the file, the output of such a name is written, too."""
    output = tmp_path / f"{NAMED}.{'html' if command == 'report' else 'out'}"
    arguments = [part.format(**files) for part in ON_FILES[command].split()]
    done = run(*arguments, "--output", output)
    assert output.stat().st_size or command.startswith("find")
    if command in ("dedup", "fingerprint"):
        assert "Traceback" not in done.output


def test_a_dead_letter_names_a_file_whose_name_is_not_utf_8(files: dict[str, Path]) -> None:
    """In JSON that every reader takes: the byte as an escape."""
    *_, letter = [json.loads(line) for line in files["verdicts"].read_bytes().splitlines()]
    assert letter["input"]["file"].endswith(f"{SHOWN}.jsonl")


def test_what_is_wrong_with_such_a_file_is_said(tmp_path: Path) -> None:
    """On stderr, in one line with its name."""
    name = tmp_path / f"{NAMED}.jsonl"
    name.write_text("[]\n")
    done = run("dedup", name, code=1)
    assert f"damaged: {tmp_path}/{SHOWN}.jsonl, line 1" in done.output


WITH_OUTPUT = {
    **{name: f"{text} --output" for name, text in ON_FILES.items()},
    "evaluate": "evaluate {name} {pairs} --plot",
    "tune": "tune {name} --plot",
}


# The files that settings name are one list, `Settings.files`, which each command compares.
FILES_OF_SETTINGS = {"--definition": "max_distance = 3\n", "--config": 'log_level = "info"\n'}


@pytest.mark.parametrize(
    ("command", "option"),
    [*itertools.product(WITH_OUTPUT, ["", "--definition"]), ("dedup", "--config")],
)
def test_no_output_is_an_input_or_a_file_of_settings(
    files: dict[str, Path], tmp_path: Path, command: str, option: str
) -> None:
    """It is refused, and is as it was."""
    read = tmp_path / "setting" if option else files["name"]
    if option:
        read.write_text(FILES_OF_SETTINGS[option])
    before = read.read_bytes()
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\t1\n")
    arguments = [part.format(**files, pairs=pairs) for part in WITH_OUTPUT[command].split()]
    said = refused(*arguments, read, *([option, read] if option else []))
    assert "is an input and the output" in said
    assert read.read_bytes() == before


def test_no_output_is_a_definitions_list_of_words(files: dict[str, Path], tmp_path: Path) -> None:
    """It is refused, and is as it was."""
    words = tmp_path / "words"
    words.write_text("the\nof\n")
    said = refused("dedup", files["name"], "--output", words, *defined(stopwords_file=words))
    assert "is an input and the output" in said
    assert words.read_text() == "the\nof\n"


def test_every_command_with_an_output_is_tried() -> None:
    """A new one is added to the table; those left out write folders or data of their own making."""
    writing = {
        name
        for name, command in COMMANDS.items()
        if any(opt in ("--output", "--plot") for p in command.params for opt in p.opts)
    }
    own = {"archive", "verdicts", "verify"}  # a folder; formats
    assert writing - own == {name.partition(" ")[0] for name in WITH_OUTPUT}


def test_a_table_is_a_file_of_documents_for_every_command(tmp_path: Path) -> None:
    """`nearest` told CSV from numbers by a list of its own."""
    table = tmp_path / "c.csv"
    table.write_text(f"doc_id,text\na,{ARTICLE}\nb,{ARTICLE} more\n".replace(", which", " which"))
    output = run("nearest", table, "--to", "a", "--quiet").stdout
    assert json.loads(output.splitlines()[0])[0] == "b"


@pytest.mark.parametrize("name", [f"{NAMED}.out", f"{NAMED}/out"])
def test_a_state_knows_an_output_of_such_a_name(
    files: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """A run that is repeated finds it as it was written, and no other run replaces it."""
    output, state = tmp_path / name, tmp_path / "state"
    output.parent.mkdir(exist_ok=True)
    given = (files["name"], "--state", state, "--keep", "new", "--output", output)
    run("dedup", *given)
    kept = output.read_bytes()
    assert kept and "written again" not in run("dedup", *given).output
    assert f"{SHOWN}" in refused("dedup", *given, "--prefer", "longest")
    assert output.read_bytes() == kept
