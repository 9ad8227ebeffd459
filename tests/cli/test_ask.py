"""
`neardup ask`: documents of any file, one answer each, from a worker that is busy, behind or not
there.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fake_worker import TOKEN, FakeWorker, fake_worker
from tests.cli.program import ARTICLE, OTHER, lines, misused, page, refused, run
from tests.shell.asked import TOKEN as ASK_TOKEN
from tests.shell.asked import AskedWorker, served
from tests.shell.test_archives import record
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.admin.seen_client import SeenClient

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def worker(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWorker]:
    """A worker that knows one article; the environment has its token."""
    monkeypatch.setenv("NEARDUP_ASK_TOKEN", TOKEN)
    with fake_worker() as worker:
        worker.known[ARTICLE] = "https://first.example/"
        yield worker


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy, something new, and a document without a body."""
    path = tmp_path / "in.jsonl"
    path.write_text(lines(page(1, text=ARTICLE), page(2, text=OTHER), page(3, title="no body")))
    return path


def test_each_document_has_a_row(worker: FakeWorker, source: Path) -> None:
    """
    A table of verdicts with their originals, as `neardup verdicts` prints them; a summary behind.
    """
    # With or without the scheme, as `top --worker` takes it as well.
    address = worker.address.removeprefix("http://")
    result = run("ask", source, "--worker", address, COLUMNS="250")
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["verdict", "bits", "url", "duplicate", "of"]
    assert rows[0].split() == ["duplicate", "4", "https://example.org/1", "https://first.example/"]
    assert rows[1].split() == ["new", "https://example.org/2"]
    assert rows[2].startswith("not judged") and f"{source}, line 3" in rows[2]
    assert "1 duplicate, 1 new, 1 not judged; as of offset 88 of the log" in result.stderr


def test_lines_are_the_workers_own(worker: FakeWorker, source: Path) -> None:
    """
    With --json, what the worker said; a problem has the place of its document besides.
    """
    out = run("ask", source, "--worker", worker.address, "--json", "--quiet").stdout
    first, second, third = map(json.loads, out.splitlines())
    assert (first["verdict"], first["duplicate_of"]["url"]) == (
        "duplicate",
        "https://first.example/",
    )
    assert (second["verdict"], second["binding"]) == ("new", False)
    assert (third["code"], third["input"]["line"]) == ("no-body", 3)


def test_archives_and_stdin_are_asked_about_as_everywhere(
    worker: FakeWorker, tmp_path: Path
) -> None:
    """A page of a WARC file goes as its bytes; lines may come from stdin."""
    archive = tmp_path / "crawl.warc.gz"
    archive.write_bytes(
        gzip.compress(record("resource", "https://a.example/", "text/html", b"<p>A page.</p>"))
    )
    refused("ask", archive, "--worker", worker.address)  # the fake knows only texts
    [[asked]] = worker.requests
    assert asked["body_base64"] and "text" not in asked
    result = run("ask", "-", "--worker", worker.address, stdin=lines(page(1, text=ARTICLE)))
    assert "duplicate" in result.stdout


def test_many_documents_are_asked_about_a_hundred_at_a_time(
    worker: FakeWorker, tmp_path: Path
) -> None:
    """And in halves where the worker takes no body of that length; the answers are in order."""
    path = tmp_path / "in.jsonl"
    path.write_text(lines(*(page(number, text=OTHER) for number in range(250))))
    arguments = "ask", path, "--worker", worker.address, "--json", "--quiet"
    urls = [f"https://example.org/{number}" for number in range(250)]
    assert [json.loads(line)["url"] for line in run(*arguments).stdout.splitlines()] == urls
    assert list(map(len, worker.requests)) == [100, 100, 50]
    worker.requests.clear()
    worker.body_bytes_max = 60 * len(lines(page(249, text=OTHER)))
    assert [json.loads(line)["url"] for line in run(*arguments).stdout.splitlines()] == urls
    assert list(map(len, worker.requests)) == [50] * 5


def test_a_document_that_is_too_long_for_a_worker_has_its_own_answer(worker: FakeWorker) -> None:
    """The documents around it are answered; it is no reason to end."""
    worker.body_bytes_max = 1_000
    documents = lines(page(1, text="a"), page(2, text="b " * 900), page(3, text="c"))
    result = run("ask", "-", "--worker", worker.address, stdin=documents)
    assert [row[:10].strip() for row in result.stdout.splitlines()[1:]] == [
        "new",
        "not judged",
        "new",
    ]


def test_a_url_is_asked_about(worker: FakeWorker) -> None:
    """
    With the time of its original, or that there is none; its characters reach the worker as they
    are.
    """
    worker.known[OTHER] = "https://b.example/?q=ä&x=1#%20"
    asked = [
        part for url in ("https://none.example/", worker.known[OTHER]) for part in ("--url", url)
    ]
    _, none, seen = run(
        "ask", *asked, "--worker", worker.address, COLUMNS="250"
    ).stdout.splitlines()
    assert none.split() == ["not", "seen", "https://none.example/"]
    assert seen.split() == [
        "2026-01-02T03:04:05.000Z",
        "original",
        "https://b.example/?q=ä&x=1#%20",
    ]
    none, seen = run("ask", *asked, "--worker", worker.address, "--json").stdout.splitlines()
    assert json.loads(none)["code"] == "unknown-url"
    assert json.loads(seen)["original"]["doc_id"] == "original"


def test_a_url_with_a_byte_that_is_no_utf8_reaches_the_worker(
    worker: FakeWorker, clean_environment: None
) -> None:
    """As the shell gives it: a worker says what it thinks of it."""
    with SeenClient(worker.address, TOKEN) as client:
        assert client.ask_url(os.fsdecode(b"https://a.example/caf\xe9")).is_problem
    asked = AskedWorker(Settings(threads=1))
    with (
        served(asked) as port,
        SeenClient(f"127.0.0.1:{port}", ASK_TOKEN) as client,
        pytest.raises(StopError, match=r"cannot answer \(status 400\): .*UTF-8"),
    ):
        client.ask_url(os.fsdecode(b"https://a.example/caf\xe9"))


def told_by(address: str, token: str, known_url: str, documents: list[bytes]) -> list[object]:
    """Ask a worker everything; return what is the same of every worker, errors included."""
    said: list[object] = []
    with SeenClient(address, token) as client:
        for answer in client.ask_documents(documents):
            fields = answer.fields
            match = fields.get("duplicate_of", {})
            said.append((fields.get("verdict"), fields.get("code"), match.get("url")))
        for url in (known_url, "https://none.example/?ä"):
            answer = client.ask_url(url)
            said.append((answer.fields.get("original", {}).get("url"), answer.fields.get("code")))
    with SeenClient(address, "another-token-than-its-own") as client:
        with pytest.raises(StopError) as refusal:
            client.ask_url(known_url)
        said.append(str(refusal.value).replace(address, ""))
    with SeenClient(f"{address}/other", token) as client:
        with pytest.raises(StopError) as refusal:
            client.ask_url(known_url)
        said.append("status 404" in str(refusal.value))
    return said


def test_the_fake_answers_as_a_worker_does(worker: FakeWorker) -> None:
    """A copy, something new, no document, URLs, a wrong token, another path: both say the same."""
    url = "https://first.example/?q=ä&x=1"
    worker.known = {ARTICLE: url}
    first = json.dumps(page(0, text=ARTICLE) | {"url": url}).encode()
    documents = [json.dumps(page(1, text=ARTICLE), indent=1).encode()]
    documents += [
        json.dumps(page(number, text=f"{OTHER} {number}")).encode() for number in range(150)
    ]
    documents.append(json.dumps(page(2, title="no body")).encode())
    replica = AskedWorker(Settings())
    assert replica.feed(first)["verdict"] == "new"
    with served(replica) as port:
        real = told_by(f"http://127.0.0.1:{port}", ASK_TOKEN, url, documents)
    assert told_by(worker.address, TOKEN, url, documents) == real
    assert real[0] == ("duplicate", None, url)
    assert real[151] == (None, "no-body", None)
    assert real[152:154] == [(url, None), (None, "unknown-url")]


def waits_of(worker: FakeWorker, wait_s: float = 60.0) -> list[float]:
    """Ask about one document; return how long the client has waited, each time."""
    waits: list[float] = []
    document = json.dumps(page(1, text=ARTICLE)).encode()
    with SeenClient(worker.address, TOKEN, wait_s=wait_s, sleep=waits.append) as client:
        [answer] = client.ask_documents([document])
    assert answer.fields["verdict"] == "duplicate"
    return waits


def test_a_worker_that_is_busy_or_replays_is_asked_again_when_it_says(worker: FakeWorker) -> None:
    """After the seconds of Retry-After; after one where it names none."""
    worker.refusals = [(429, {"Retry-After": "2"}), (503, {"Retry-After": "30"}), (429, {})]
    assert waits_of(worker) == [2.0, 30.0, 1.0]
    assert worker.statuses == [429, 503, 429, 200]


def test_waiting_is_bounded(worker: FakeWorker) -> None:
    """
    By the time that the caller gives, whatever Retry-After says; the error says how far behind.
    """
    worker.refusals = [(503, {"Retry-After": "1000000"})] * 3
    with pytest.raises(StopError, match=r"after 5 s the worker .*503, 120 records behind.*longer"):
        waits_of(worker, wait_s=5.0)
    worker.ends = True
    worker.refusals = [(503, {"Retry-After": "5"})] * 2
    with pytest.raises(StopError, match=r"after 5 s the worker .* ends \(503\): ask another"):
        waits_of(worker, wait_s=5.0)
    worker.refusals = [(429, {"Retry-After": "1"})]
    with pytest.raises(StopError, match=r"after 0 s .*429.*fewer at a time"):
        waits_of(worker, wait_s=0.0)


def test_a_connection_that_the_worker_has_ended_is_made_anew(worker: FakeWorker) -> None:
    """A worker ends connections that are idle; a question after that is asked once more."""
    worker.closes = True
    with SeenClient(worker.address, TOKEN) as client:
        asked = [client.ask_url("https://first.example/").is_problem for _ in range(3)]
    assert asked == [False] * 3


def test_a_timeout_of_a_kept_connection_is_no_answer(worker: FakeWorker) -> None:
    """A server or proxy sends 408 on an idle connection, and closes it; on a new one it is said."""
    with SeenClient(worker.address, TOKEN) as client:
        client.ask_url("https://first.example/")
        worker.refusals = [(408, {"Connection": "close"})]
        assert not client.ask_url("https://first.example/").is_problem
    worker.refusals = [(408, {"Connection": "close"})]
    with SeenClient(worker.address, TOKEN) as client, pytest.raises(StopError, match="408"):
        client.ask_url("https://first.example/")


def test_a_document_of_several_lines_is_one_question(worker: FakeWorker) -> None:
    """JSON may break its lines between tokens; a break within a text is escaped, and stays."""
    text = ARTICLE + "\n\r\n"
    document = json.dumps(page(1, text=text), indent=2).replace("\n", "\r\n").encode()
    with SeenClient(worker.address, TOKEN) as client:
        [answer] = client.ask_documents([document])
    assert answer.fields["verdict"] == "duplicate"
    assert [[asked["text"]] for [asked] in worker.requests] == [[text]]


def test_a_worker_that_is_behind_says_so(worker: FakeWorker, source: Path) -> None:
    """On stderr, with how many records it has still to apply."""
    worker.as_of["behind"] = 1234
    said = run("ask", source, "--worker", worker.address).stderr
    assert "as of offset 88 of the log, 1,234 records behind" in said


def test_what_is_wrong_is_said_with_its_remedy(
    worker: FakeWorker, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address of nobody, of another server, no address at all; a wrong token, and none."""
    with socket.create_server(("127.0.0.1", 0)) as idle:
        nobody = f"http://127.0.0.1:{idle.getsockname()[1]}"
    failed = run("ask", source, "--worker", nobody, code=1)
    assert "Is it the address of a worker's metrics_port" in str(failed.exception)
    assert failed.stdout == ""  # no head of a table either
    said = refused("ask", source, "--worker", "a..b:9")  # which no host can be called
    assert "no answer from a..b:9: " in said and "metrics_port" in said
    said = refused("ask", source, "--worker", worker.address + "/other")
    assert "name the worker's metrics_port" in said and "404" in said
    for wrong in (
        "worker",
        ":9465",
        "worker:0",
        "::1:9465",
        "ftp://worker",
        "http://",
        "http://worker:x",
    ):
        said = refused("ask", source, "--worker", wrong)
        assert "must be HOST:PORT" in said and repr(wrong) in said
    said = refused("ask", source, "--worker", "http://:secret@worker")
    assert "NEARDUP_ASK_TOKEN" in said and "secret" not in said
    for token in ("another-token-than-its-own", None):
        if token is None:
            monkeypatch.delenv("NEARDUP_ASK_TOKEN")
        else:
            monkeypatch.setenv("NEARDUP_ASK_TOKEN", token)
        said = refused("ask", source, "--worker", worker.address)
        assert "refuses the token: set NEARDUP_ASK_TOKEN" in said


def test_a_server_that_is_no_worker_is_named(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that answers anything with 200, but not with answers."""
    monkeypatch.setattr(FakeWorker, "answer", lambda *_: {"hello": "world"})
    said = refused("ask", "-", "--worker", worker.address, stdin=lines(page(1, text=OTHER)))
    assert "gave 0 answers to 1 questions" in said


def test_the_token_is_no_option(worker: FakeWorker, source: Path) -> None:
    """Others of the machine can read a command line."""
    assert "No such option" in misused("ask", source, "--worker", "http://a", "--ask-token", "x")


def test_a_command_asks_about_files_or_urls(source: Path) -> None:
    """One of them, and not both."""
    assert "for FILES or --url: name one of the two" in misused("ask", "--worker", "http://a")
    both = "ask", source, "--url", "https://b.example/", "--worker", "http://a"
    assert "for FILES or --url: name one of the two" in misused(*both)


def test_nothing_that_can_be_judged_is_a_failure(worker: FakeWorker) -> None:
    """Exit code 1, with the first reason."""
    said = refused("ask", "-", "--worker", worker.address, stdin=lines(page(1, title="no body")))
    assert "nothing could be judged" in said and "needs exactly one of" in said


def test_a_document_without_a_name_is_asked_about_under_one_that_no_worker_knows(
    worker: FakeWorker, tmp_path: Path
) -> None:
    """
    As `feed` names it. A group that began with the state of files may know 0.0.0-DIGEST: it would
    say of a copy in that place that it is the same document.
    """
    source = tmp_path / "in.jsonl"
    source.write_text(lines({"text": ARTICLE}))
    asked = set[str]()
    for _ in range(2):
        run("ask", source, "--worker", worker.address, "--quiet")
        [[document]] = worker.requests
        asked.add(document["doc_id"])
        worker.requests.clear()
    assert len(asked) == 2 and not any(doc_id.startswith("0.") for doc_id in asked)
