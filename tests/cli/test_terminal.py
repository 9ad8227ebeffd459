"""What a document brings is shown on a terminal, and never obeyed by it."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from tests.cli.program import ARTICLE, OTHER, run
from tests.cli.terminal import Started
from tests.conftest import EVENTUALLY_S

# Every control character but those that end a line: ESC, DEL and C1, of which U+009B is CSI.
CONTROLS = "".join(
    map(chr, (*range(1, 9), *range(14, 28), 0x1F, *range(0x7F, 0x85), *range(0x86, 0xA0)))
)
# What changes the direction of the text around it, or hides in it.
FORMATS = "".join(
    map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xE0041))
)
CONTROLS += FORMATS
FEW = "\x1b[31m \x9b2J \x7f \u202etxt.exe \u2066"
OBEYED = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{FORMATS}]")
# What others write for people has none in a pipe either: `test_no_text_of_others_works_on_the_terminal`.
COMMANDS = {
    "dedup": ["dedup", "documents.jsonl"],
    "dedup of a file with such a name": ["dedup", f"{FEW}.jsonl"],
    "dedup, no such file": ["dedup", f"missing {FEW}"],
    "dedup --keep": ["dedup", "documents.jsonl", "--keep", "new"],
    "dedup --keep of CSV": ["dedup", "rows.csv", "--keep", "new"],
    "report": ["report", "verdicts.jsonl", "--output", "-"],
    "explain": ["explain", f"1 {CONTROLS}", "verdicts.jsonl", "--documents", "documents.jsonl"],
    "explain --json": ["explain", f"1 {CONTROLS}", "verdicts.jsonl", "--json"],
    "compare": ["compare", "one.txt", "other.txt"],
    "compare --json": ["compare", "one.txt", "other.txt", "--json"],
    "evaluate --json": ["evaluate", "documents.jsonl", "pairs.tsv", "--json"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with control characters in every field, a dead letter and damaged lines."""
    folder = tmp_path_factory.mktemp("terminal")
    documents = [
        {
            "doc_id": f"{n} {CONTROLS}",
            "url": f"https://example.org/{n} {CONTROLS}",
            "fetched_at": "2026-01-02T03:04:05Z",
            "text": f"{ARTICLE} {n} {FEW} {OTHER if n % 2 else ''}",
        }
        for n in range(4)
    ]
    raw = "".join(json.dumps(fields, ensure_ascii=False) + "\n" for fields in documents)
    dead = json.dumps({"doc_id": f"dead {CONTROLS}"}, ensure_ascii=False)
    (folder / "documents.jsonl").write_text(f"{raw}{dead}\n[{CONTROLS}\n")
    (folder / f"{FEW}.jsonl").write_text(raw)
    (folder / "rows.csv").write_text(f'doc_id,text\nrow,"{ARTICLE} {CONTROLS}"\n')
    (folder / "one.txt").write_text(f"{ARTICLE} {FEW}")
    (folder / "other.txt").write_text(f"{ARTICLE} {FEW} {OTHER}")
    (folder / "pairs.tsv").write_text(f"0 {CONTROLS}\t1 {CONTROLS}\t1\n")
    verdicts = folder / "verdicts.jsonl"
    run("dedup", folder / "documents.jsonl", "--output", verdicts, "--quiet")
    return folder


# Forks a process for each command, so that most of a start is done once; behind its output stands
# its exit code, with a word that no output has. The interpreter is not taken down, which would take
# longer than the command.
SESSION = """
import json, os, sys
import worker.cli
import worker.shell.files.engine
from worker.__main__ import main
from worker.settings import Settings
from worker.shell.runtime import kernels

kernels.ready(Settings())
word, commands = json.loads(sys.argv[1])
for arguments in commands:
    sys.stdout.flush()
    process = os.fork()
    if not process:
        sys.argv = ["neardup", *arguments]
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(process, 0)
    print(f"{word}{os.waitstatus_to_exitcode(status)}{word}", end="")
"""


@pytest.fixture(scope="module")
def shown(folder: Path) -> dict[str, tuple[str, int]]:
    """What each command shows on one terminal, and its exit code."""
    word = uuid.uuid4().hex
    given = json.dumps([word, list(COMMANDS.values())])
    with Started([given], folder, terminal=True, program=("-c", SESSION)) as session:
        assert session.run(EVENTUALLY_S) == 0, session.output
    *parts, rest = session.output.decode().split(word)
    assert not rest
    outputs, codes = parts[::2], map(int, parts[1::2])
    return dict(zip(COMMANDS, zip(outputs, codes, strict=True), strict=True))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_control_character_of_a_document_reaches_a_terminal(
    shown: dict[str, tuple[str, int]], name: str
) -> None:
    """Neither in JSON, in a table, in a copied document, in an error nor in a warning."""
    output, code = shown[name]
    assert output
    assert code == (1 if "no such file" in name else 0), output
    assert not (found := OBEYED.search(output)), ascii(output[max(0, found.start() - 200) :][:300])


def test_json_on_stdout_has_them_escaped_in_a_pipe_too(folder: Path) -> None:
    """Whoever reads the lines gets the same values."""
    said = run("fingerprint", folder / "documents.jsonl", "--quiet").stdout
    assert not OBEYED.search(said)
    assert json.loads(said.splitlines()[0])["doc_id"] == f"0 {CONTROLS}"


def test_a_copied_document_keeps_its_bytes_in_a_pipe(folder: Path) -> None:
    """Only a terminal is shown something else than what stands in the file."""
    kept = run("dedup", folder / "rows.csv", "--keep", "new", "--quiet").stdout
    assert CONTROLS in kept
