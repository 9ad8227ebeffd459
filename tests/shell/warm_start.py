"""
After `neardup warm-up`, documents of every kind: prints what each step had to load or compile.

A kernel is compiled once for each signature. In a process that has run the warm-up, numba asks the
cache again only for a signature that the warm-up did not have; a cache without it would compile. So
it does not matter here what the cache on this machine holds.

    python -m tests.shell.warm_start FOLDER
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import neardup
import orjson
from typer.testing import CliRunner

from tests.shell.asked import AskedWorker, document
from worker.cli import app
from worker.core import compiled
from worker.settings import Settings
from worker.shell.runtime import kernels

HTML = "<html><title>A bridge</title><body><main><p>{}</p></main></body></html>"
WORDS = " ".join(f"word{number}" for number in range(80))


def messages() -> dict[str, tuple[bytes, bytes | None]]:
    """A message of each kind, with its key. Later ones refer to earlier ones."""
    text = orjson.loads(document(1))["text"]
    page = HTML.format(f"The council met at noon and {WORDS} were said in the hall.")
    fields = {"url": "https://example.org/b", "fetched_at": "2024-05-01T12:00:00Z"}

    def body(data: bytes, kind: str, number: int) -> bytes:
        encoded = base64.b64encode(data).decode()
        return orjson.dumps(
            {**fields, "doc_id": f"b{number}", "body_base64": encoded, "content_type": kind}
        )

    return {
        "text": (b"d1", document(1)),
        "text that is not ASCII": (b"u1", document(20, text=f"é漢字 {WORDS} ü")),
        "duplicate": (b"d2", document(2, text=text)),
        "redelivered": (b"d1", document(1)),
        "new version": (b"d1", document(1, text=f"another {WORDS} altogether")),
        "former version of the URL": (b"d3", document(3, url="https://example.org/1")),
        "short": (b"d4", document(4, text="too few words")),
        "duplicate of a short one": (b"d5", document(5, text="too few words")),
        "skipped": (b"d6", document(6, text="")),
        "page": (b"p1", orjson.dumps({**fields, "doc_id": "p1", "html": page})),
        "body": (b"b1", body(page.encode(), "text/html", 1)),
        "body in another charset": (b"b2", body(page.encode("utf-16"), "text/html", 2)),
        "escapes": (b"d8", document(8).replace(b"river", b"r\\u00eever \\ud83d\\ude00")),
        "without a doc_id": (b"", orjson.dumps({**fields, "text": text})),
        "no JSON": (b"x", b"{"),
        "no body": (b"x", orjson.dumps(fields)),
        "deleted": (b"d2", None),
        "deleted, and none there": (b"nobody", None),
    }


def command(*arguments: str) -> None:
    """Run a command."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output


def steps(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield what is done with the documents, in turn, each with its name."""
    worker = AskedWorker(Settings(threads=1))
    given = messages()
    for name, (key, value) in given.items():
        if value is not None and not name.startswith("no "):
            yield f"ask: {name}", partial(worker.ask, value)
        yield f"worker: {name}", partial(worker.feed, value, key)
    values = [value for _, value in given.values() if value is not None]
    (folder / "documents.jsonl").write_bytes(b"\n".join(values))
    (folder / "more.jsonl").write_bytes(document(90) + b"\n" + document(91))

    def dedup(*arguments: str) -> None:
        command("dedup", "--quiet", *arguments)

    yield "dedup", lambda: dedup(str(folder / "documents.jsonl"), "--output", f"{folder}/verdicts")
    yield (
        "dedup --state",
        lambda: dedup(
            str(folder / "documents.jsonl"),
            "--state",
            f"{folder}/state",
            "--output",
            f"{folder}/two",
        ),
    )
    yield (
        "dedup, state again",
        lambda: dedup(
            str(folder / "more.jsonl"), "--state", f"{folder}/state", "--output", f"{folder}/three"
        ),
    )
    fingerprints = "\n".join(str(number * 0x9E3779B97F4A7C15 % 2**64) for number in range(20_000))
    (folder / "fingerprints").write_text(fingerprints)
    for name in ("find-all", "find-clusters"):
        yield name, partial(command, name, "--quiet", "--input", f"{folder}/fingerprints")
    deduplicator = neardup.Deduplicator(threads=1)
    documents = [
        json.loads(value) for name, (_, value) in given.items() if value and "no " not in name
    ]
    yield "library: add_many", lambda: list(deduplicator.add_many(documents))
    yield "library: add", lambda: deduplicator.add(WORDS)
    yield "library: ask", lambda: deduplicator.ask(WORDS)
    yield "library: save", lambda: deduplicator.save(folder / "saved.ndsnap")
    yield "library: load", lambda: neardup.Deduplicator.load(folder / "saved.ndsnap").add(WORDS)


def main(folder: Path) -> None:
    """Print a line for each kernel that a step needs and the warm-up did not have."""
    command("warm-up")
    counted = {f"worker.core.{module}" for named in kernels._KERNELS.values() for module in named}
    for kernel in compiled._kernels:
        if not kernel.signatures:
            print(f"not warmed up: {kernel.__name__}")
        if kernel.py_func.__module__ not in counted:
            print(f"in no step of a first start: {kernel.__name__}")
    asked: list[str] = []
    kernel_cache: Any = compiled._KernelCache
    load = kernel_cache.load_overload

    def noted(cache: Any, signature: Any, target: Any) -> Any:
        asked.append(f"{Path(cache._impl.filename_base).name} {signature}")
        return load(cache, signature, target)

    kernel_cache.load_overload = noted
    for name, step in steps(folder):
        step()
        for kernel in asked:
            print(f"{name}: {kernel}")
        asked.clear()
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
