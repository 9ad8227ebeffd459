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
from worker.settings.engine import EngineSettings
from worker.settings.operation import OperationSettings

SETTINGS = REPOSITORY / "deploy" / "settings.md"

HEAD = f"""# Settings

`make docs` writes this page from the program; `neardup settings --describe` prints the same. Each
setting is an option of the commands that use it (`--group` for `group`), a variable
(`{env_name("group")}`) and a line of the TOML file that `--config` names. [Run neardup](README.md#settings)
says which ones to decide on first.
"""

# In the order of the page: the heading, the class, and what a reader has to know of all of them.
GROUPS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("Brokers, group and topics", ConnectionSettings, ""),
    (
        "What decides verdicts",
        EngineSettings,
        "They are part of the log's definition, together with `text_characters_max`: all workers of a "
        "group must have the same. To change one, "
        "[rebuild](changes.md#change-parameters-rebuild).",
    ),
    ("State, metrics, questions and logs", OperationSettings, ""),
    ("Batches, sizes and time limits", BatchSettings, ""),
)


def settings_page() -> str:
    """Return the page of settings: a table for each group of them."""
    return HEAD + "".join(_group(*group) for group in GROUPS)


def _group(heading: str, model: type[BaseModel], note: str) -> str:
    lines = [f"\n## {heading}\n"]
    if note:
        lines.append(note + "\n")
    lines += ["| setting | meaning | unit | default | bounds |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *_rows(model)]) + "\n"


def _rows(model: type[BaseModel]) -> Iterator[str]:
    """Yield a row for each setting. One that only tests use is left out."""
    for name in model.model_fields:
        field = Settings.model_fields[name]
        if name == "fault":
            continue
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
