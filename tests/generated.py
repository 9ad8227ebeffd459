"""
`python -m tests.generated` (`make docs`) writes the page of settings from their declarations, and the
tables of figures from the results of benchmarks; tests assert that all are current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from pydantic import BaseModel

from tests.benchmarks.figures import write_figures
from tests.conftest import REPOSITORY
from worker.settings import Settings, bounds_of, default_of, env_name, unit_of
from worker.settings.batches import BatchSettings
from worker.settings.connection import ConnectionSettings
from worker.settings.definition import CopyKeys, FingerprintKeys, SearchKeys
from worker.settings.operation import OperationSettings

SETTINGS = REPOSITORY / "deploy" / "settings.md"

HEAD = f"""# Settings

`make docs` writes this page from the program; `neardup settings --describe` prints the same. Each
setting is an option of the commands that use it (`--group` for `group`), a variable
(`{env_name("group")}`) and a line of the TOML file that `--config` names. A secret is no option, because
others on the machine can read options: set `{env_name("ask_token")}`. [Run neardup](README.md#settings) says
which ones to decide on first. A relative path is resolved against the folder where the command is
started, also in the file that `--config` names; in a definition, against the definition's folder.

What decides verdicts has [a file of its own](#the-definition).
"""

DEFINITION = f"""
## The definition

What decides verdicts is written in one TOML file, a key per line, and nowhere else:

    similarity_min = 0.6
    recrawls = "replace"
    expire_after_s = 2_592_000

`--definition FILE`, `{env_name("definition")}` or `definition` in the file of settings names it, for
`worker`, `dedup`, `archive` and every other command that judges or explains. Keys that are left out have
their defaults. A process reads the file when it starts. All workers of a log must have the same
definition: the log refuses a worker with another one. To change it, write a new file and
[rebuild](changes.md#change-parameters-rebuild).
"""

# In the order of the page: the heading, the class, and what a reader has to know of all of them.
GROUPS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("Brokers, group and topics", ConnectionSettings, ""),
    ("Definition, state, metrics, questions and logs", OperationSettings, ""),
    ("Batches, sizes and time limits", BatchSettings, ""),
)
KEYS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("What a copy is, and how long originals stay", CopyKeys, ""),
    ("The fingerprint", FingerprintKeys, ""),
    (
        "Advanced: the search",
        SearchKeys,
        "`neardup plan` says which numbers an index of a given size needs.",
    ),
)


def settings_page() -> str:
    """Return the page of settings: a table for each group of them."""
    settings = "".join(_group(f"## {name}", model, note) for name, model, note in GROUPS)
    keys = "".join(_group(f"### {name}", model, note, "key") for name, model, note in KEYS)
    return HEAD + settings + DEFINITION + keys


def _group(heading: str, model: type[BaseModel], note: str, kind: str = "setting") -> str:
    lines = [f"\n{heading}\n"]
    if note:
        lines.append(note + "\n")
    lines += [f"| {kind} | meaning | unit | default | bounds |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *_rows(model)]) + "\n"


def _rows(model: type[BaseModel]) -> Iterator[str]:
    """Yield a row for each setting."""
    for name in model.model_fields:
        field = Settings.model_fields[name]
        meaning = str(field.description).replace("|", r"\|")
        cells = (f"`{name}`", meaning, unit_of(field), default_of(field), bounds_of(field) or "")
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Write the page, and the tables of the others."""
    write_figures()
    SETTINGS.write_text(settings_page(), encoding="utf-8")
    sys.stdout.write(f"{SETTINGS.name}\n")


if __name__ == "__main__":
    main()
