"""The pool of page processes: order, the wall against hostile pages, and no orphans."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import xxhash

from worker.core.extract import PageLimits, Skipped
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import Fingerprinted, PageResult
from worker.core.parameters import Parameters
from worker.errors import DocumentError, StopError
from worker.shell.page_process import ProcessDiedError
from worker.shell.page_protocol import PageRead
from worker.shell.pool import PagePool

HOSTILE = (sys.executable, "-X", "faulthandler", str(Path(__file__).with_name("hostile_child.py")))
LIMITS = PageLimits(memory_mb=256, page_timeout_s=20)
RESULT_S = 240
IMPATIENT = replace(LIMITS, page_timeout_s=1)


def message(kind: str, body: str, **more: str) -> bytes:
    """A message with this body; lone surrogates are escaped, as JavaScript writes them."""
    fields = {"doc_id": "d", "url": "https://example.org/", "fetched_at": "2024-05-01T12:00:00Z", kind: body, **more}
    return json.dumps(fields).encode()


def text(body: str) -> bytes:
    """A plain-text document, named after its text."""
    return message("text", body, doc_id=body[:40] or "empty")


def read(doc_id: str, result: PageResult) -> PageRead:
    """What comes back of a message."""
    return PageRead(doc_id, "https://example.org/", 1_714_564_800_000, result)


def fingerprinted(body: str) -> Fingerprinted:
    """What the stand-in fingerprinter makes of a text."""
    digest = xxhash.xxh64_intdigest(body.encode())
    return Fingerprinted(digest, 7, digest, 2, "plain")


def expected(body: str) -> PageRead:
    """What comes back of `text(body)`."""
    return read(body[:40], fingerprinted(body))


@pytest.fixture
def deaths() -> list[ProcessDiedError]:
    """The children lost in a test."""
    return []


@pytest.fixture
def pool(deaths: list[ProcessDiedError]) -> Iterator[PagePool]:
    """Two children that obey hostile texts."""
    with PagePool(2, Parameters(), LIMITS, on_death=deaths.append, command=HOSTILE) as pool:
        pool.wait_ready()
        yield pool


@pytest.fixture
def impatient_pool(deaths: list[ProcessDiedError]) -> Iterator[PagePool]:
    """One such child whose pages have a second."""
    with PagePool(1, Parameters(), IMPATIENT, on_death=deaths.append, command=HOSTILE) as pool:
        pool.wait_ready()
        yield pool


def run(pool: PagePool, *bodies: str) -> list[PageRead]:
    """Run one batch of texts."""
    return pool.submit([text(body) for body in bodies]).result(RESULT_S)


def test_results_keep_the_order_of_their_batch(pool: PagePool) -> None:
    """Twenty batches through two children: each result belongs to its document."""
    batches = [[f"batch {batch} document {number}" for number in range(50)] for batch in range(20)]
    futures = [pool.submit([text(body) for body in batch]) for batch in batches]
    assert [future.result(RESULT_S) for future in futures] == [[expected(body) for body in batch] for batch in batches]


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ("crash", "extractor-crashed"),
        ("exit", "extractor-crashed"),
        ("eat slowly", "extractor-memory"),
        ("eat at once", "extractor-memory"),
        ("panic", "extractor-failed"),
    ],
)
def test_a_hostile_page_costs_itself_only(pool: PagePool, order: str, code: str) -> None:
    """The culprit gets a DocumentError that names what it did, its neighbours their fingerprints."""
    assert_culprit(pool, order, code)


@pytest.mark.parametrize("order", ["hang", "spin"])
def test_a_page_without_an_end_costs_itself_only(impatient_pool: PagePool, order: str) -> None:
    """Asleep or busy: after its time it is the culprit."""
    assert_culprit(impatient_pool, order, "extractor-timeout")


def test_a_child_that_stands_still_is_no_culprit_yet(impatient_pool: PagePool, deaths: list[ProcessDiedError]) -> None:
    """Stopped for longer than a page's time, as on a machine that has none for it, it goes on where it was."""
    future = impatient_pool.submit([text("slow page"), text("another page")])
    time.sleep(0.1)
    child = psutil.Process(impatient_pool.pids[0])
    child.suspend()
    time.sleep(1.5)
    child.resume()
    assert future.result(RESULT_S) == [expected("slow page"), expected("another page")]
    assert deaths == []


def assert_culprit(pool: PagePool, order: str, code: str) -> None:
    """The page with the order gets the error, the pages around it their fingerprints."""
    before, culprit, after = run(pool, "one good page", order, "another good page")
    assert (before, after) == (expected("one good page"), expected("another good page"))
    assert isinstance(culprit.result, DocumentError)
    assert culprit.result.code == code


def test_two_culprits_in_a_batch_are_both_found(pool: PagePool, deaths: list[ProcessDiedError]) -> None:
    """After the first culprit the search goes on in a fresh child."""
    results = run(pool, "good", "exit", "fine", "crash", "well")
    assert [page.result.code if isinstance(page.result, DocumentError) else "" for page in results] == [
        "",
        "extractor-crashed",
        "",
        "extractor-crashed",
        "",
    ]
    assert len(deaths) == 3  # the batch, then each culprit alone


def test_a_long_batch_of_slow_pages_is_no_hang(impatient_pool: PagePool, deaths: list[ProcessDiedError]) -> None:
    """The time limit is a page's: six pages of 0.3 s pass a limit of 1 s."""
    bodies = [f"slow page {number}" for number in range(6)]
    assert run(impatient_pool, *bodies) == [expected(body) for body in bodies]
    assert deaths == []


def test_a_killed_child_costs_no_page(pool: PagePool, deaths: list[ProcessDiedError]) -> None:
    """SIGKILL from outside while a batch is in work: every page of it is answered by a fresh child."""
    bodies = [f"slow page {number}" for number in range(12)]  # 3.6 s, so that it is in work after one
    future = pool.submit([text(body) for body in bodies])
    time.sleep(1.0)
    for pid in pool.pids:
        os.kill(pid, signal.SIGKILL)
    assert future.result(RESULT_S) == [expected(body) for body in bodies]
    assert [death.code for death in deaths] == ["extractor-crashed"]


def test_printing_does_not_disturb_the_protocol(pool: PagePool) -> None:
    """What a library writes to stdout is kept from the frames."""
    assert run(pool, "babble") == [expected("babble")]


def test_children_ignore_sigint(pool: PagePool, deaths: list[ProcessDiedError]) -> None:
    """Ctrl-C is the parent's business."""
    for pid in pool.pids:
        os.kill(pid, signal.SIGINT)
    assert run(pool, "still here") == [expected("still here")]
    assert deaths == []


def test_bytes_surrogates_and_html_reach_the_child(pool: PagePool) -> None:
    """A body survives the way to the child, a lone surrogate becomes U+FFFD there, an image is skipped."""
    messages = [
        message("body_base64", b64encode(b"gr\xfc\xdf dich").decode(), content_type="text/plain", charset="latin1"),
        message("text", "lone \ud800 surrogate"),
        message("body_base64", b64encode(b"\x89PNG\r\n\x1a\n").decode(), content_type="image/png"),
        message("body_base64", b64encode(b"x").decode(), charset="klingon"),
        message("html", "<p>one paragraph of a page</p>"),
        b"[]",
    ]
    latin, lone, image, klingon, page, nothing = pool.submit(messages).result(RESULT_S)
    assert latin == read("d", fingerprinted("grüß dich"))
    assert lone == read("d", fingerprinted("lone \ufffd surrogate"))
    assert image == read("d", Skipped("unsupported-content-type"))
    assert isinstance(klingon.result, DocumentError)
    assert klingon.result.code == "unknown-charset"
    assert isinstance(page.result, Fingerprinted)
    assert page.result.method in ("main", "all")
    assert isinstance(nothing.result, DocumentError)
    assert (nothing.doc_id, nothing.url, nothing.result.code) == ("", "", "not-an-object")


def test_close_cancels_what_is_unanswered() -> None:
    """Closing in the midst of work ends the children at once and cancels the futures."""
    pool = PagePool(1, Parameters(), PageLimits(page_timeout_s=60), command=HOSTILE)
    pool.wait_ready()
    children = pool.pids
    futures = [pool.submit([text("hang")]) for _ in range(3)]
    started = time.monotonic()
    pool.close()
    pool.close()
    assert time.monotonic() - started < 10
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(0)
    assert not any(psutil.pid_exists(pid) for pid in children)
    with pytest.raises(StopError, match="closed"):
        pool.submit([text("too late")])


def test_children_that_cannot_start_stop_the_worker() -> None:
    """After three failed starts every future and every submit fails, with what the child said."""
    with PagePool(1, Parameters(), LIMITS, command=(*HOSTILE, "--never-ready")) as pool:
        with pytest.raises(StopError, match="no kernels here"):
            pool.wait_ready()
        with pytest.raises(StopError, match="do not start"):
            pool.submit([text("a page")])


def test_no_child_outlives_a_killed_parent() -> None:
    """A parent that is SIGKILLed while its children work leaves no process behind."""
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1]);"
        "import test_pool as t;"
        "pool = t.PagePool(2, t.Parameters(), t.PageLimits(page_timeout_s=60), command=t.HOSTILE);"
        "pool.wait_ready(); pool.submit([t.text('spin')]); pool.submit([t.text('hang')]);"
        "print(*pool.pids, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    children = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    time.sleep(0.3)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def test_a_negative_number_of_processes_is_refused() -> None:
    """0 means in this process; less means nothing."""
    with pytest.raises(ValueError, match="got -1"):
        PagePool(-1, Parameters())


@pytest.mark.parametrize("processes", [0, 1])
def test_real_pages_get_the_fingerprints_of_the_library(processes: int) -> None:
    """In this process or in a child, a page's fingerprint is that of its main content."""
    words = "the harbour master counted the boats twice for the fog had come in early and the lamps were weak"
    messages = [
        message("html", f"<nav>Menu</nav><main><p>{words}</p></main>"),
        message("text", words),
        message("text", ""),
    ]
    with PagePool(processes, Parameters()) as pool:
        pool.wait_ready()
        page, plain, empty = (answer.result for answer in pool.submit(messages).result(RESULT_S))
    assert isinstance(page, Fingerprinted)
    assert isinstance(plain, Fingerprinted)
    assert isinstance(empty, Fingerprinted)
    assert (page.method, plain.method) == ("main", "plain")
    assert page[:4] == plain[:4]
    assert page.fingerprint == Fingerprinter().one(words)
    assert (page.kind, empty.kind) == (2, 0)


def test_every_kind_of_bad_page_is_answered_beside_good_ones(pool: PagePool, deaths: list[ProcessDiedError]) -> None:
    """Huge, endlessly nested, full of NUL bytes, empty: each gets an answer, and no child is lost."""
    good = text("one good page")
    bad = {
        "10 MB": "<p>so many words on one page</p>" * 320_000,
        "a million nested tags": "<div>" * 1_000_000 + "the end",
        "NUL bytes": "<p>be\0fore</p>" * 1_000,
        "lone surrogates": "<p>a\ud800b</p>",
        "empty": "",
        "one word": "word",
    }
    messages = [good]
    for body in bad.values():
        messages += [message("html", body), good]
    results = pool.submit(messages).result(RESULT_S)
    assert results[::2] == [expected("one good page")] * (len(bad) + 1)
    assert [page.result.method for page in results[1::2] if isinstance(page.result, Fingerprinted)] == [
        "main",
        "stripped",
        "main",
        "main",
        "all",
        "main",
    ]
    assert deaths == []


def test_children_killed_at_random_lose_nothing() -> None:
    """Whatever is killed and whenever, every page is answered with its own fingerprint."""
    chance = random.Random(5)
    batches = [[f"batch {batch} page {number}" for number in range(20)] for batch in range(150)]
    with PagePool(2, Parameters(), LIMITS, command=HOSTILE) as pool:
        pool.wait_ready()
        futures: list[Future[list[PageRead]]] = []
        kills = 0
        for batch in batches:
            futures.append(pool.submit([text(body) for body in batch]))
            if len(futures) % 15 == 0:
                under_way = [future for future in futures if not future.done()]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(pool.pids), signal.SIGKILL)
                    kills += 1
                for future in under_way:  # a page whose process dies twice would be taken for the culprit
                    future.result(RESULT_S)
        assert kills > 5
        answers = [future.result(RESULT_S) for future in futures]
    assert answers == [[expected(body) for body in batch] for batch in batches]
