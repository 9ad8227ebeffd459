"""
`python -m schemas` writes the JSON Schema files and the OpenAPI file from the models; a test
asserts that they are current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from schemas import ask
from schemas.dead_letter import DeadLetterHeaders, DeadLetterPointer
from schemas.document import DocumentMessage
from schemas.verdict import VerdictMessage

FOLDER = Path(__file__).resolve().parent
MODELS: dict[str, type[BaseModel]] = {
    "document": DocumentMessage,
    "verdict": VerdictMessage,
    "dead_letter_headers": DeadLetterHeaders,
    "dead_letter_pointer": DeadLetterPointer,
}
OPENAPI = FOLDER / "ask.openapi.json"


def render(name: str) -> str:
    """Return the text of `<name>.schema.json`."""
    schema = MODELS[name].model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return _text(schema)


def render_openapi() -> str:
    """Return the text of `ask.openapi.json`."""
    return _text(ask.openapi())


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every schema file next to this one."""
    texts = {FOLDER / f"{name}.schema.json": render(name) for name in MODELS}
    texts[OPENAPI] = render_openapi()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.name}\n")


if __name__ == "__main__":
    main()
