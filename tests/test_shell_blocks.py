"""
The blocks of the pages. Commands can be pasted into a shell: bash reads them, and each names a
program that exists, with options that it has. A table says of every block what runs it, or why
nothing does; those that need only files are run here as they stand.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import neardup
import polars
import pytest

from tests.cli import program
from tests.conftest import REPOSITORY, output_of, plain_environment
from tests.test_links import CODE
from tests.test_repository import PAGES as EXAMPLES
from worker.cli import PANELS, load_command

# What a line of a block may begin with, beside our own program. A reader has all of these.
PROGRAMS = {
    ".", "cat", "cd", "cp", "curl", "echo", "export", "git", "head", "jq", "kill", "make", "neardup",
    "openssl", "pip", "python", "sleep", "tail", "wait",
}  # fmt: skip
KEYWORDS = {"!", "do", "done", "until", "while"}  # a command may follow them
SEPARATORS = re.compile(r"[;&|()]+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
ITEM = re.compile(r" *(?:[-*+]|\d+[.)]) +")
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
PAGES = [
    name
    for name in output_of("git", "ls-files", "*.md", cwd=REPOSITORY).splitlines()
    if "results/" not in name
]

# What runs each block: a test, which reads the text, or runs the same commands or the functions behind
# them; or RUN or DEFINITION, below; or a reason why nothing does. A block is named by its page and the
# beginning of its first line. Examples of Python are no part of it: `test_the_library_example_holds`
# runs them all.
RUN = "run here, as it stands"
RUN_NIGHTLY = "run here by `make nightly`, as it stands"
DEFINITION = "read here, as a definition"
DRAWN = "not run: a drawing or an outline"
README_RUN = "tests/test_examples.py::test_the_readme_shows_what_its_first_commands_say"
COMPARED = "tests/cli/test_explain.py::test_the_readmes_show_what_compare_says"
TLS = "tests/test_settings_kafka.py::test_the_page_on_tls_sets_properties_that_exist"
GROUP = "tests/deploy/check_pages.py::test_a_group_starts_works_and_ends_as_the_page_says"
BLOCKS = {
    ".github/CONTRIBUTING.md": {"make setup": "not run: it makes the environment of the tests"},
    "README.md": {
        "git clone URL": README_RUN,
        "2,000 documents,": README_RUN,
        "crawler ──►": DRAWN,
        "neardup broker start": GROUP,
        "another advertisement": COMPARED,
    },
    "deploy/README.md": {
        "neardup broker start": GROUP,
        "# command": "tests/faults/test_security.py::test_each_command_works_with_exactly_its_acls",
        'kafka.security.protocol = "SASL_SSL"  ': TLS,
        'kafka.security.protocol = "SASL_SSL"\n': TLS,
        '{"event": "last minute"': "not run: a line of a log, with figures of some day",
    },
    "deploy/archive.md": {
        "pip install": "not run: it installs, and needs a bucket and a cluster of Spark",
        "neardup sample-crawl": GROUP,
    },
    "deploy/changes.md": {
        "cp definition.toml": "tests/faults/test_rebuild.py::"
        "test_a_new_log_beside_the_old_one_and_the_switch",
        "expire_after_s": DEFINITION,
        "neardup topics alter": "tests/faults/test_group.py::"
        "test_a_member_that_is_no_worker_is_named_and_what_it_takes_is_counted",
        "export NEARDUP_STATE_DIR": "tests/faults/test_renew.py::"
        "test_a_renewed_log_is_renewed_again_and_old_ones_go",
        "neardup log retire": "tests/faults/test_renew.py::"
        "test_a_renewed_log_is_renewed_again_and_old_ones_go",
        "export NEARDUP_GROUP=second": "tests/faults/test_rebuild.py::"
        "test_another_group_judges_the_same_documents_from_the_beginning",
        "neardup offsets restore": "tests/faults/test_rows_offsets.py::"
        "test_row_29_offsets_that_no_worker_has_committed",
    },
    "deploy/runbook.md": {
        "neardup plan": "tests/faults/test_rebuild.py::"
        "test_a_new_log_beside_the_old_one_and_the_switch",
        "neardup verify": "tests/faults/test_mend.py::test_what_is_missing_is_published_once",
    },
    "deploy/settings.md": {"similarity_min": DEFINITION},
    "deploy/sizing.md": {
        "neardup plan --per-month": RUN,
        "intake thread": DRAWN,
        "neardup plan --archive": RUN,
    },
    "deploy/streams.md": {
        '{"url":': "tests/test_shell_blocks.py::test_the_document_of_the_page_is_one",
        "neardup topics create": "tests/shell/test_kafka.py::"
        "test_a_topic_of_new_documents_takes_the_largest_one",
        "neardup topics alter": "tests/shell/test_kafka.py::"
        "test_a_problem_is_mended_by_the_command_that_it_names",
        "neardup broker start": GROUP,
        "from confluent_kafka": "not run: it needs a broker; deletions are sent by tests/faults",
        "neardup verdicts": "not run: it follows a group until it is interrupted, and needs jq",
        "-- the clusters": "tests/test_shell_blocks.py::test_the_query_ranks_clusters_by_their_copies",
        "preferred_copies": DEFINITION,
        "url_rules": DEFINITION,
    },
    "tests/README.md": {"make test-faults": "not run: the tests themselves, and runs of minutes"},
    "worker/README.md": {
        "core/ ": DRAWN,
        "curl": "tests/faults/test_ask.py::"
        "test_a_group_that_is_asked_answers_alike_and_publishes_as_if_nobody_asked",
        "make bench-replay": "not run: a benchmark of minutes",
    },
    "worker/core/README.md": {"neardup plan": RUN, "neardup find-all": RUN},
    "worker/core/pages/README.md": {"bodies ─batch─►": DRAWN},
    "worker/public/README.md": {
        "neardup dedup articles.csv": RUN_NIGHTLY,
        "dataset = ": "tests/shell/test_frames.py::test_a_data_set_gives_a_data_set",
        "$ cd tests/cli/data": COMPARED,
        "B differs in blocks": COMPARED,
        "measure  ": COMPARED,
        "neardup dedup crawl.warc.gz --output": RUN,
        "neardup dedup crawl.warc.gz --definition": RUN,
    },
    "worker/public/accuracy.md": {"neardup tune": RUN_NIGHTLY},
}

DESTROYED = {
    "two lines made one": "neardup feed crawl.warc.gz;\nsleep 5 neardup ask crawl.warc.gz",
    "a comment wrapped": "neardup rebuild > new.toml # as the\nworkers have them",
    "a quotation cut": "curl -sH 'Content-Type:\napplication/json 127.0.0.1",
    "a redirection cut": "neardup worker 2>\nworker.log & neardup top",
    "another command's line": "neardup topics create neardup worker --metrics-port 9464",
    "a command that is gone": "neardup judge crawl.warc.gz",
    "an option that is gone": "neardup dedup crawl.warc.gz --fast",
    "an option of another": "neardup topics create && neardup feed --state known",
    "a target that is gone": "make everything",
}


def _blocks(page: str) -> Iterator[tuple[int, str]]:
    """
    Yield the blocks of a page, each with its first line's number.

    A block is a run of lines behind an empty one, four columns or more to the right of the text
    around them: of the page's, or of the list item's that they belong to.
    """
    margins = [0]  # where the text begins: the page's, and that of each list item around this line
    block: list[str] = []
    is_after_blank = True
    for number, line in enumerate([*page.splitlines(), ""], 1):
        indent = len(line) - len(line.lstrip())
        is_in_block = bool(line.strip()) and indent >= margins[-1] + 4
        if block and not is_in_block:
            yield number - len(block), "\n".join(block)
            block = []
        if is_in_block and (block or is_after_blank):
            block.append(line[margins[-1] + 4 :])
        elif line.strip():
            while indent < margins[-1]:
                margins.pop()
            if item := ITEM.match(line):
                margins.append(item.end())
        is_after_blank = not line.strip()


def _is_shell(block: str) -> bool:
    """Return whether any line of a block begins with a command of ours or a well-known one."""
    firsts = {line.split(" ")[0] for line in block.splitlines()}
    return bool(firsts & {"neardup", "make", "curl", "pip", "export", "$"})


def _script(block: str) -> str:
    """Return what a reader types: of a block with prompts, the lines that have one."""
    lines = block.splitlines()
    if not block.startswith("$ "):
        return block
    return "\n".join(line[2:] for line in lines if line.startswith("$ "))


def _commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line, without assignments and keywords."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not SEPARATORS.fullmatch(word):
            if words or not (word in KEYWORDS or ASSIGNMENT.match(word)):
                words.append(word)
        elif words:
            yield words
            words = []


@cache
def _command(name: str) -> Any:
    return load_command(name)


def _misuse(words: list[str]) -> Iterator[str]:
    """Yield what is wrong with one command."""
    program, *arguments = words
    if program not in PROGRAMS:
        yield f"no program: {program}"
    elif program == "make":
        yield from (f"no target: {word}" for word in arguments[:1] if word not in TARGETS)
    elif "neardup" in arguments and program not in ("cp", "cd", "pip"):
        yield f"a command within the arguments of {program}"
    elif program == "neardup":
        name, *rest = arguments
        if not any(name in entries for entries in PANELS.values()):
            yield f"no command: {name}"
            return
        command = _command(name)
        if hasattr(command, "commands"):
            command = command.commands.get(rest[0], command)
        options = {option for param in command.params for option in param.opts}
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        yield from (f"no option of {name}: {option}" for option in given - options - {"--help"})


def _problems(script: str) -> list[str]:
    """Return what a shell or our program would refuse in a script."""
    checked = subprocess.run(
        ["bash", "-n"], input=script, text=True, capture_output=True, check=False
    )
    if checked.returncode:
        return [checked.stderr]
    return [
        problem
        for line in script.replace("\\\n", " ").splitlines()
        for words in _commands(line)
        for problem in _misuse(words)
    ]


FOUND = [
    (name, line, block)
    for name in PAGES
    for line, block in _blocks((REPOSITORY / name).read_text())
    if not block.startswith(">>>")
]
SCRIPTS = [
    pytest.param(_script(block), id=f"{name}:{line}")
    for name, line, block in FOUND
    if _is_shell(block)
]


def _answers(page: str, block: str) -> list[str]:
    """Return what the table says of a block: one answer, if it is in order."""
    return [
        answer for begin, answer in BLOCKS.get(page, {}).items() if f"{block}\n".startswith(begin)
    ]


def blocks_that(answer: str, marks: Any = ()) -> list[Any]:
    """Return the blocks of which the table says this, as parameters with these marks."""
    return [
        pytest.param(block, id=f"{page}:{line}", marks=marks)
        for page, line, block in FOUND
        if _answers(page, block) == [answer]
    ]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_commands_of_a_page_can_be_pasted(script: str) -> None:
    """Bash reads the block, each program is known, and our own has each command and option."""
    assert _problems(script) == []


@pytest.mark.parametrize("page", [name for name in PAGES if name != "CHANGELOG.md"])
def test_options_in_sentences_exist(page: str) -> None:
    """Those that stand with their command. The list of changes names some that are gone."""
    commands = {name for entries in PANELS.values() for name in entries}
    prose = CODE.sub("", (REPOSITORY / page).read_text())
    calls = [
        call.removeprefix("neardup ").split() for call in re.findall(r"`([^`]+ --[^`]*)`", prose)
    ]
    misused = [
        problem
        for call in calls
        if call[0] in commands
        for problem in _misuse(["neardup", *(word.rstrip("…") for word in call)])
    ]
    assert misused == []


@pytest.mark.parametrize("script", DESTROYED.values(), ids=DESTROYED)
def test_a_destroyed_block_is_noticed(script: str) -> None:
    """What a tool that wraps prose makes of commands, and what a renamed option leaves behind."""
    assert _problems(script) != []


def test_the_table_says_of_every_block_what_runs_it() -> None:
    """One entry for each block and one block for each entry; no block is fenced, which hides it."""
    answered = [(page, line, _answers(page, block)) for page, line, block in FOUND]
    assert [entry for entry in answered if len(entry[2]) != 1] == []
    assert len(FOUND) == sum(map(len, BLOCKS.values()))
    assert [name for name in PAGES if "```" in (REPOSITORY / name).read_text()] == []


@pytest.mark.parametrize(
    "answer", sorted({one for page in BLOCKS.values() for one in page.values()})
)
def test_the_tests_that_the_table_names_exist(answer: str) -> None:
    """Each by its file and its name."""
    path, is_test, name = answer.partition("::")
    if is_test:
        assert f"\ndef {name}(" in (REPOSITORY / path).read_text()
    else:
        assert answer in (RUN, RUN_NIGHTLY, DEFINITION) or answer.startswith("not run")


def test_python_examples_stand_where_they_are_run() -> None:
    """On pages that `test_the_library_example_holds` reads."""
    having = {name for name in PAGES if "\n    >>> " in (REPOSITORY / name).read_text()}
    assert "README.md" in having
    assert having <= {str(page.relative_to(REPOSITORY)) for page in EXAMPLES}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the blocks name; 4711 is an id, and DOC_ID that of a page."""
    folder = tmp_path_factory.mktemp("files")
    program.run("sample-crawl", "--documents", "60", folder / "crawl.warc.gz")
    texts = {"4711": program.ARTICLE, "4712": program.ARTICLE.upper(), "4713": program.OTHER}
    rows = [f'{name},{name},"{text}"\n' for name, text in texts.items()]
    (folder / "articles.csv").write_text("".join(["id,key,body\n", *rows]))
    for name in ("docs", "monday", "tuesday"):
        (folder / f"{name}.jsonl").write_text(program.documents_of(texts))
    pairs = ["4711\t4712\t1\tcopies\n", "4711\t4713\t0\tothers\n"]
    (folder / "pairs.tsv").write_text("".join(pairs))
    (folder / "definition.toml").write_text("similarity_min = 0.5\n")
    (folder / "fingerprints").write_text("1\n3\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("script", blocks_that(RUN) + blocks_that(RUN_NIGHTLY, pytest.mark.nightly))
def test_blocks_that_need_only_files_run(script: str, files: Path) -> None:
    """Bash runs each line, and every command succeeds."""
    if "DOC_ID" in script:
        truth = (files / "crawl.truth.jsonl").read_text().splitlines()
        script = script.replace("DOC_ID", json.loads(truth[0])["doc_id"])
    environment = plain_environment()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    output_of("bash", "-euo", "pipefail", "-c", script, cwd=files, env=environment)


@pytest.mark.parametrize("block", blocks_that(DEFINITION))
def test_definitions_are_taken(block: str, tmp_path: Path) -> None:
    """Each is a file that the library judges by."""
    path = tmp_path / "definition.toml"
    path.write_text(block)
    assert len(neardup.Deduplicator.of_definition(path)) == 0


def test_the_document_of_the_page_is_one() -> None:
    """It is JSON and can be judged. It is skipped, because its page has no text."""
    [block] = (block for _, _, block in FOUND if block.startswith('{"url":'))
    verdict = neardup.Deduplicator().add(json.loads(block))
    assert (verdict.outcome, verdict.url) == (
        neardup.Outcome.SKIPPED,
        "https://example.org/news/1.html",
    )


def test_the_query_ranks_clusters_by_their_copies() -> None:
    """In any dialect: originals, which have no original of their own, are not a cluster."""
    [query] = (block for _, _, block in FOUND if block.startswith("-- the clusters"))
    rows = [
        ("new", None, None),
        ("duplicate", "a", 1),
        ("duplicate", "b", 1),
        ("duplicate", "a", 2),
    ]
    frame = polars.DataFrame(rows, schema=["verdict", "original_url", "copies"], orient="row")
    ranked = polars.SQLContext({"verdicts.parquet": frame}).execute(query, eager=True)
    assert ranked.rows() == [("a", 2), ("b", 1)]


def test_blocks_are_found() -> None:
    """Those with a prompt, and those of list items; no text that goes on, and no item of a list."""
    assert len(SCRIPTS) > 20
    page = "Run\n\n    $ neardup top\n    output\n\nand\n    this line goes on\n"
    assert [_script(block) for _, block in _blocks(page)] == ["neardup top"]
    item = (
        "1. Run\n\n       neardup top\n         --once\n2. Then\n\n   go on.\n   - A\n\n     b\n\n"
    )
    inner = "         neardup verify\n\n   out\n\n    text\n"
    assert list(_blocks(item + inner)) == [(3, "neardup top\n  --once"), (12, "neardup verify")]
