"""
The commands in the pages can be pasted into a shell: bash reads them, and each names a program that
exists, with options that it has.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any

import pytest

from tests.conftest import REPOSITORY, output_of
from worker.cli import PANELS, load_command

# What a line of a block may begin with, beside our own program. A reader has all of these.
PROGRAMS = {
    ".", "cat", "cd", "cp", "curl", "echo", "export", "git", "head", "jq", "kill", "make", "neardup",
    "openssl", "pip", "python", "sleep", "tail", "wait",
}  # fmt: skip
KEYWORDS = {"!", "do", "done", "until", "while"}  # a command may follow them
SEPARATORS = re.compile(r"[;&|()]+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
PAGES = [
    name
    for name in output_of("git", "ls-files", "*.md", cwd=REPOSITORY).splitlines()
    if "results/" not in name
]

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
    """Yield the indented blocks of a page, each with its first line's number."""
    lines = enumerate(page.splitlines(), 1)
    is_after_blank = True
    for is_indented, group in groupby(lines, lambda line: line[1].startswith("    ")):
        numbered = list(group)
        if is_indented and is_after_blank:
            yield numbered[0][0], "\n".join(text[4:] for _, text in numbered)
        is_after_blank = not numbered[-1][1].strip()


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


SCRIPTS = [
    pytest.param(_script(block), id=f"{name}:{line}")
    for name in PAGES
    for line, block in _blocks((REPOSITORY / name).read_text())
    if _is_shell(block)
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_commands_of_a_page_can_be_pasted(script: str) -> None:
    """Bash reads the block, each program is known, and our own has each command and option."""
    assert _problems(script) == []


@pytest.mark.parametrize("script", DESTROYED.values(), ids=DESTROYED)
def test_a_destroyed_block_is_noticed(script: str) -> None:
    """What a tool that wraps prose makes of commands, and what a renamed option leaves behind."""
    assert _problems(script) != []


def test_blocks_are_found() -> None:
    """Many of them, also those with a prompt."""
    assert len(SCRIPTS) > 20
    page = "Run\n\n    $ neardup top\n    output\n\nand\n    this line goes on\n"
    assert [_script(block) for _, block in _blocks(page)] == ["neardup top"]
