"""The file with the definition: what it holds, what is refused, and that nothing else says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import run
from tests.conftest import definition_file
from worker.errors import DefinitionError, StopError
from worker.log.rules import LogDefinition
from worker.settings import (
    DECIDING,
    SETTINGS,
    DefinitionSettings,
    Settings,
    env_name,
    load_settings,
    toml_value,
)
from worker.shell.files.deduplicator import Deduplicator

pytestmark = pytest.mark.usefixtures("clean_environment")


def refusal(path: Path) -> str:
    """Load settings with this definition; return the error."""
    with pytest.raises(StopError) as caught:
        load_settings({"definition": str(path)})
    return str(caught.value).partition("\n  ")[2]


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "own.toml"
    path.write_bytes(data)
    return path


def test_a_definition_decides_everything_that_a_log_declares(tmp_path: Path) -> None:
    """
    A file with every default gives the definition of no file; so no rule is decided elsewhere, and
    none twice.
    """
    values = {name: getattr(Settings(), name) for name in DECIDING}
    keys = {name: value for name, value in values.items() if value is not None}
    keys |= {"similarity_min": 0.54, "similarity_margin": 0.12}
    text = "".join(f"{name} = {toml_value(value)}\n" for name, value in keys.items())
    loaded = load_settings({"definition": str(written(tmp_path, text.encode()))}).settings
    assert loaded.rules == Settings().rules and loaded.rules.hash == Settings().rules.hash
    assert set(DECIDING) - keys.keys() == {"stopwords_file"}
    assert not set(DECIDING) & set(SETTINGS)
    assert set(Settings.model_fields) == {*DECIDING, *SETTINGS}
    assert {name for name, value in loaded.rules.rules.items() if name in SETTINGS} == set()


@pytest.mark.parametrize("name", DECIDING)
def test_a_key_of_the_definition_is_no_variable_and_no_setting_of_the_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was a variable, or a line of the file of settings, is refused with its new place."""
    said = f"Write {name} = … into a TOML file and name this file: --definition FILE"
    config = tmp_path / "neardup.toml"
    config.write_text(f"{name} = 1\n")
    with pytest.raises(StopError) as in_file:
        load_settings(config=config)
    assert said in str(in_file.value) and str(config) in str(in_file.value)
    monkeypatch.setenv(env_name(name), "1")
    with pytest.raises(StopError) as in_environment:
        load_settings()
    assert said in str(in_environment.value) and env_name(name) in str(in_environment.value)


BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty. Write a key, such as similarity_min = 0.54"),
    "only comments": (b"# similarity_min = 0.6\n", "is empty. Write a key"),
    "10 MB": (b"# long\n" * 1_500_000, "has more than 65,536 bytes, which no definition needs"),
    "not UTF-8": (b'recrawls = "\xff"\n', "is not TOML: 'utf-8' codec can't decode byte 0xff"),
    "not TOML": (b"max_distance: 3\n", "is not TOML: Expected '='"),
    "deep": (b"shingle_widths = " + b"[" * 20_000, "is not TOML: "),
    "twice": (b"max_distance = 3\nmax_distance = 4\n", "is not TOML: Cannot overwrite a value"),
    "misspelt": (b"similarty_min = 0.6\n", "no key 'similarty_min': did you mean similarity_min?"),
    "a setting": (b"qqq = 1\n", "no key 'qqq': `neardup settings --describe` lists all"),
    "a former key": (
        b"shingles_min = 8\n",
        "no key 'shingles_min': it was removed",
    ),
    "a table": (b"[search]\nmax_distance = 3\n", "no key 'search': did you mean "),
    "out of bounds": (b"max_distance = 17\n", "must be 0 to 16 bits"),
    "a word": (b'max_distance = "many"\n', "must be a whole number, 0 to 16 bits"),
    "a switch for a number": (b"max_distance = true\n", "cannot be true or false (unit: bits)"),
    "a number for a switch": (b"mask_numbers = 1\n", "must be true or false"),
    "no list": (b"shingle_widths = 3\n", "must be a list, in brackets"),
    "not ascending": (b"shingle_widths = [2, 1]\n", "ascending"),
    "wider than texts": (
        b"shingle_widths = [9]\n",
        "tokens_min must be at least the largest width",
    ),
    "no choice": (b'anchors = "all"\n', "should be 'elected', 'named' or 'union'"),
    "no size": (b'search_size = "tiny"\n', "search_size must be small, large, huge, or blocks"),
    "no host": (b'preferred_copies = ["a/b"]\n', "preferred_copies: 'a/b' is no host"),
    "a list of no words": (b'stopwords_file = "own.toml"\n', "line 1 is 'stopwords_file"),
    "no such list": (b'stopwords_file = "none.txt"\n', "none.txt cannot be read: No such file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_wrong_definition_is_refused_with_value_bound_and_remedy(
    case: str, tmp_path: Path
) -> None:
    """In one line that names the file."""
    data, says = BROKEN[case]
    said = refusal(written(tmp_path, data))
    assert says in said
    assert len(said.splitlines()) == 1 and str(tmp_path) in said


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    """In the definition and in the file of settings: editors of Windows write one."""
    for name, content in (("definition", "similarity_min = 0.6"), ("settings", 'group = "g"')):
        (tmp_path / name).write_text(content, encoding="utf-8-sig")
    given = ("--config", tmp_path / "settings", "--definition", tmp_path / "definition")
    lines = run("settings", *given, "--changed").stdout
    assert 'group = "g"' in lines and "similarity_min = 0.6" in lines


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """Missing, a folder, or a name that no file can have."""
    assert "cannot be read: No such file" in refusal(tmp_path / "none.toml")
    assert f"the definition {tmp_path} cannot be read: Is a directory" in refusal(tmp_path)
    assert "cannot be read: embedded null" in refusal(tmp_path / "a\0b")


def test_a_list_of_words_stands_next_to_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the process was started: its path begins at the definition's folder."""
    (tmp_path / "words.txt").write_text("the\nof\n")
    path = written(tmp_path, b'stopwords_file = "words.txt"\n')
    monkeypatch.chdir("/")
    settings = load_settings({"definition": str(path)}).settings
    assert settings.parameters.stopwords == frozenset({"the", "of"})
    assert {path, tmp_path / "words.txt"} <= set(settings.files)


def test_a_list_of_words_that_changes_meanwhile_is_that_of_later_settings(tmp_path: Path) -> None:
    """In one process, as in a notebook; settings that are there keep the words that they had."""
    words = tmp_path / "words.txt"
    words.write_text("the\n")
    path = written(tmp_path, b'stopwords_file = "words.txt"\n')
    running = load_settings({"definition": str(path)}).settings
    words.write_text("of\n")
    with Deduplicator.of_definition(path, threads=1) as library:
        assert library.definition != running.rules
        assert library.definition == load_settings({"definition": str(path)}).settings.rules
    assert running.parameters.stopwords == frozenset({"the"})
    assert running.model_copy().parameters.stopwords == frozenset({"the"})


def test_a_file_that_changes_meanwhile_changes_nothing_until_the_next_start(
    tmp_path: Path,
) -> None:
    """A process has what it read first; the next one has the new keys, and another hash."""
    path = written(tmp_path, b"max_distance = 3\n")
    running = load_settings({"definition": str(path)}).settings
    before = running.rules.hash
    path.write_bytes(b"max_distance = 4\n")
    restarted = load_settings({"definition": str(path)}).settings
    assert (running.rules.hash, running.max_distance) == (before, 3)
    assert restarted.rules.hash != before
    with pytest.raises(DefinitionError, match="max_distance is 3 there, 4 here"):
        restarted.rules.check(LogDefinition.of(running.rules, 4), "the log")


def test_the_library_takes_the_same_file(tmp_path: Path) -> None:
    """It judges by the definition of a worker with that file, and refuses what a worker refuses."""
    path = definition_file(shingle_widths=(1, 3), similarity_min=0.6, recrawls="replace")
    with Deduplicator.of_definition(path) as library:
        assert library.definition == load_settings({"definition": str(path)}).settings.rules
    wrong = written(tmp_path, b"max_distance = 17\nsimilarity_min = 2\n")
    with pytest.raises(StopError) as caught:
        Deduplicator.of_definition(wrong)
    assert [line.partition(" in the")[0] for line in str(caught.value).splitlines()] == [
        "similarity_min = 2", "max_distance = 17"
    ]  # fmt: skip
    with pytest.raises(StopError, match="'' cannot be the name of a file"):
        Deduplicator.of_definition("")


@pytest.mark.parametrize(
    "changed",
    [
        {"max_distance": 6},
        {"preferred_copies": ("a.org", "earliest")},
        {"recrawls": "replace"},
        {"expire_after_s": 60},
        {"tokens_min": 9},
    ],
)
def test_a_key_means_the_same_from_a_file_as_from_the_program(changed: dict[str, Any]) -> None:
    """The same definition, so the same hash; and another one than the default's."""
    from_file = load_settings({"definition": str(definition_file(**changed))}).settings
    assert from_file.rules == Settings(**changed).rules != Settings().rules
    assert DefinitionSettings(**changed).parameters == from_file.parameters
