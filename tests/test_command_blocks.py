"""
Command blocks of the pages: each is shell, and each command in it exists with the options it is given.

A tool that reflowed prose once turned three of them into prose, and nobody saw it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import pairwise

import pytest
import yaml

from tests.conftest import REPOSITORY, output_of
from worker.cli import load_command

PROGRAMS = {
    ".", "apt-get", "awk", "bash", "cat", "cd", "chmod", "cp", "curl", "docker", "echo", "export",
    "find", "git", "grep", "head", "helm", "install", "journalctl", "kcat", "kill", "kubectl",
    "ls", "make", "mkdir", "mv", "openssl", "pip", "pre-commit", "printf", "promtool", "python",
    "python3", "rm", "sed", "sleep", "sort", "spark-submit", "ssh", "sudo", "systemctl", "tail",
    "tar", "tee", "test", "touch", "wait", "wc", "zcat",
}  # fmt: skip
STARTS_A_BLOCK = re.compile(
    r"(neardup|make|curl|pip|export|docker|kubectl|git|sudo) ", re.MULTILINE
)
WORDS_OF_SHELL = frozenset(
    ["until", "while", "if", "for", "do", "then", "else", "done", "fi", "!", "{", "}", "in"]
)
OPERATORS = frozenset([";", "&&", "||", "|", "&", "(", ")", "|&", ";;"])
FLAG = re.compile(r"--[a-z][a-z-]*")
MARKDOWN = [
    path
    for path in output_of("git", "ls-files", "*.md", cwd=REPOSITORY).split()
    if "results/" not in path
]


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the indented and fenced blocks of a page that begin a line with a command: (line, block)."""
    lines = text.splitlines()
    block: list[str] = []
    is_fenced = False
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            is_fenced = not is_fenced
        elif is_fenced or line.startswith("    "):
            block.append(line if is_fenced else line[4:])
            continue
        prompts = [words[2:] for words in block if words.startswith("$ ")]
        found = "\n".join(prompts or block)  # behind a prompt comes output
        if STARTS_A_BLOCK.match(found) or STARTS_A_BLOCK.search("\n".join(block[:3])):
            yield number - len(block), found
        block = []


def commands(block: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a block of shell."""
    for line in re.sub(r"\\\n", " ", block).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.wordchars += "$%@:,+*{}[]^!"
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word in OPERATORS:
                if command:
                    yield command
                command = []
            elif command or (word not in WORDS_OF_SHELL and not re.match(r"[A-Z_a-z]+=", word)):
                command.append(word)


def problem(command: list[str]) -> str | None:
    """Say what is wrong with a command, or None."""
    name, *arguments = command
    glued = [
        word
        for before, word in pairwise(command)
        if word in ("neardup", "curl", "make", "sleep") and not before.startswith("-")
    ]
    if glued and name not in ("grep", "cd", "pip"):
        return f"a second command begins within a line: {glued}"
    if name == "neardup":
        return _problem_of_ours(arguments)
    if name == "make":
        makefile = (REPOSITORY / "Makefile").read_text()
        targets = [word for word in arguments if re.fullmatch(r"[a-z-]+", word)]
        unknown = [word for word in targets if not re.search(rf"^{word}:", makefile, re.MULTILINE)]
        return f"make has no target {unknown}" if unknown else None
    return None if name in PROGRAMS or "/" in name else f"{name!r} is no command"


def _problem_of_ours(arguments: list[str]) -> str | None:
    if not arguments or arguments[0].startswith("-"):
        return None
    name, *rest = arguments
    try:
        command = load_command(name)
    except KeyError:
        return f"there is no command {name!r}"
    inner = getattr(command, "commands", {})
    if inner and rest and not rest[0].startswith("-"):
        if rest[0] not in inner:
            return f"there is no command {name} {rest[0]!r}"
        command = inner[rest[0]]
    known = {"--help"}
    for option in command.params:
        known.update([*option.opts, *option.secondary_opts])
    unknown = [flag[0] for word in rest if (flag := FLAG.match(word)) and flag[0] not in known]
    return f"neardup {name} has no option {unknown}" if unknown else None


def problems(text: str) -> list[str]:
    """Say what is wrong with the command blocks of a page."""
    found = []
    for line, block in blocks(text):
        run = subprocess.run(
            ["bash", "-n"], input=block, text=True, capture_output=True, check=False
        )
        if run.returncode:
            found.append(f"line {line}: {run.stderr.strip()}")
            continue
        reasons = [reason for reason in map(problem, commands(block)) if reason]
        found += [f"line {line}: {reason}" for reason in reasons]
    return found


@pytest.mark.parametrize("page", MARKDOWN)
def test_a_command_block_can_be_pasted(page: str) -> None:
    """It parses as shell, its commands exist, and ours have the options that they are given."""
    assert problems((REPOSITORY / page).read_text()) == []


@pytest.mark.parametrize(
    "block",
    [
        "    neardup broker start\n    workers and clients\n",
        "    neardup feed crawl.warc.gz; sleep 5 neardup ask crawl.warc.gz\n",
        "    neardup feed crawl.warc.gz neardup ask crawl.warc.gz\n",
        "    export A=$(openssl rand -hex 16) # the same for\n    workers and clients neardup worker\n",
        "    neardup worker 2>\n    worker.log &\n",
        "    neardup dedup --no-such-option crawl.warc.gz\n",
        "    neardup no-such-command\n",
        "    make no-such-target\n",
    ],
)
def test_a_destroyed_block_is_seen(block: str) -> None:
    """What reflowing does to commands is told of, each with its line."""
    assert problems(f"Run it.\n\n{block}\nThen look.\n") != []


def test_commented_jobs_of_prometheus_are_whole() -> None:
    """The part for Kubernetes, which is commented out, is YAML when it is taken in."""
    text = (REPOSITORY / "deploy/prometheus/prometheus.yml").read_text()
    commented = [line[4:] for line in text.splitlines() if line.startswith("  # ")]
    jobs = yaml.safe_load("\n".join(commented[1:]))
    assert [set(rule) >= {"source_labels"} for rule in jobs[0]["relabel_configs"]] == [True] * 3
