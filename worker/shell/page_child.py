"""
One page process: reads batches of documents on stdin, answers with fingerprints on stdout, and dies with its parent.

It ignores SIGINT (the parent decides), limits its own memory once its kernels are warm, and says between pages that
it lives. Everything else, time limits and the search for a culprit among the pages, is the parent's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from worker.core.document import BodyKind, Document
from worker.core.extract import PageLimits, extract
from worker.core.pages import BatchFingerprinter, Extractor, fingerprint_pages
from worker.core.parameters import Parameters
from worker.shell.page_protocol import Frame, decode_messages, encode_results, frame, read_frame
from worker.shell.page_reader import read_pages

__all__ = ["hello", "serve"]

ALIVE_INTERVAL_S = 0.05  # a sign of life costs the parent a wake-up, so not one a page
_PR_SET_PDEATHSIG = 1


def hello(parameters: Parameters, limits: PageLimits) -> bytes:
    """Give the HELLO frame: the fingerprint's parameters, the limits, and who the parent is."""
    settings = {"parent": os.getpid(), "parameters": asdict(parameters), "limits": asdict(limits)}
    return frame(Frame.HELLO, orjson.dumps(settings, default=sorted))  # sorted: a set of stopwords


def parameters_of(values: dict[str, Any]) -> Parameters:
    """
    Give back the parameters of a HELLO frame: what JSON made lists are tuples and a set.

    >>> parameters = Parameters(widths=(1, 3), stopwords=frozenset({"the"}), fields=(("title", 4), ("body", 1)))
    >>> parameters_of(orjson.loads(hello(parameters, PageLimits())[5:])["parameters"]) == parameters
    True
    """
    return Parameters(
        **values
        | {
            "widths": tuple(values["widths"]),
            "fields": tuple((name, weight) for name, weight in values["fields"]),
            "stopwords": None if values["stopwords"] is None else frozenset(values["stopwords"]),
        }
    )


def _make_fingerprinter(parameters: Parameters) -> BatchFingerprinter:
    """Make the fingerprinter, kernels loaded (or compiled, the first time on a machine)."""
    from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415  # the kernels take a second to import

    fingerprinter = Fingerprinter(parameters)
    fingerprinter.warm_up()
    return fingerprinter


def serve(extractor: Extractor = extract, fingerprinter: BatchFingerprinter | None = None) -> None:
    """Serve batches until stdin ends. Arguments other than the defaults are for tests of the wall itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not end up between the frames
    with os.fdopen(0, "rb", buffering=1 << 20) as stdin, os.fdopen(output, "wb", buffering=0) as stdout:
        first = read_frame(stdin)
        if first is None:
            return
        settings = orjson.loads(first[1])
        _die_with(settings["parent"])
        limits = PageLimits(**settings["limits"])
        fingerprinter = fingerprinter or _make_fingerprinter(parameters_of(settings["parameters"]))
        warm = Document("", "", 0, BodyKind.HTML, "<main><p>Warm up, then work.</p></main>")
        fingerprint_pages([warm], fingerprinter, limits)
        _limit_memory(limits.memory_mb)
        stdout.write(frame(Frame.READY))
        last_alive = time.monotonic()

        def before_page() -> None:
            nonlocal last_alive
            now = time.monotonic()
            if now - last_alive >= ALIVE_INTERVAL_S:
                last_alive = now
                stdout.write(frame(Frame.ALIVE))

        while (request := read_frame(stdin)) is not None:
            messages = decode_messages(request[1])
            del request
            stdout.write(encode_results(read_pages(messages, fingerprinter, limits, before_page, extractor)))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, however that happens; elsewhere stdin's end must do."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            sys.exit(0)


def _limit_memory(memory_mb: int) -> None:
    """Allow this much private memory beyond what is in use now: growth beyond it fails at once, in this process."""
    with contextlib.suppress(OSError, ValueError):  # a system without these: the parent watches the resident size
        status = Path("/proc/self/status").read_text()
        used_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmData:"))
        limit = (used_kib << 10) + (memory_mb << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no core files of hostile pages


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        serve()
