"""Questions: a worker says now what the topic would say next, and is none the wiser for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.ask import DOCUMENTS_MAX, ProblemDetails, SeenVerdict
from tests.conftest import JSON_VALUES, eventually
from tests.faults.crawl import crawl
from tests.shell.asked import AskedWorker, comparable, document, split_messages
from tests.shell.memory_log import MemoryLog
from tests.shell.test_message_document import BAD
from worker.log.record import Rows
from worker.settings import Settings
from worker.shell.ask.pace import REST, REST_S_MAX, QuestionPace
from worker.shell.ask.questions import Questions, RefusedError, split
from worker.shell.pipeline.replicated_log import FairLock
from worker.shell.ports import InputMessage
from worker.shell.runtime import metrics

SETTINGS = Settings(threads=2)


@pytest.fixture
def worker() -> AskedWorker:
    return AskedWorker(SETTINGS)


def test_an_answer_is_the_verdict_that_the_document_then_gets() -> None:
    """
    Of a crawl of every kind of document, unreadable ones too, each is asked for and then fed.

    Asked alone, in an array with its neighbours, and twice: the answer is the same, and equals the
    verdict or the dead letter. A worker that reads the same log unasked ends in the same bytes.
    `tests/log/test_ask.py` shows the same under all rules of judging.
    """
    settings = Settings(threads=2, recrawls="replace", documents_max=100)
    worker = AskedWorker(settings)
    messages = list(crawl(7, 300, pages=True))
    for part in split_messages(messages, 30):
        for place, (key, value) in enumerate(part):
            if value is None:
                worker.feed(value, key)
                continue
            [answer] = worker.ask(value)
            assert [answer] == worker.ask(value)
            if place % 10 == 0:
                neighbours = [each for _, each in part if each is not None and _is_json(each)]
                if _is_json(value):
                    assert answer == worker.ask_array(*neighbours, value)[-1]
            assert answer.get("binding", False) is False
            before = worker.replica.next_offset
            verdict = worker.feed(value, key)
            assert comparable(answer) == comparable(verdict)
            if "verdict" in answer:
                SeenVerdict.model_validate_json(orjson.dumps(answer))
                assert answer["as_of"] == {"log_offset": before, "behind": 0}
                assert verdict["index"]["log_offset"] >= before
            else:
                ProblemDetails.model_validate_json(orjson.dumps(answer))
    unasked = AskedWorker(settings, worker.log)
    assert unasked.snapshot() == worker.snapshot()


def _is_json(value: bytes) -> bool:
    try:
        json.loads(value)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize(
    ("code", "value"), [case[1:3] for case in BAD], ids=[case[0] for case in BAD]
)
def test_what_the_topic_would_dead_letter_is_refused_alike(
    worker: AskedWorker, code: str, value: bytes
) -> None:
    """Same code, same text: of one document as 422, of a line as its problem."""
    letter = worker.feed(value)
    assert letter["code"] == code
    if not value.lstrip().startswith(b"["):  # else it is a list of documents
        with pytest.raises(RefusedError) as caught:
            worker.questions.answer(value, is_lines=False)
        error = caught.value
        assert (error.status, error.code, error.text) == (422, code, letter["detail"])
    if value.strip(b" \t\r\n") and b"\n" not in value:
        lines = worker.questions.answer(value + b"\n\n" + document(), is_lines=True).splitlines()
        answers = [orjson.loads(line) for line in lines]
        assert len(answers) == 2
        assert comparable(answers[0]) == letter
        assert answers[1]["verdict"] == "new"


def test_a_worker_that_is_behind_answers_as_of_its_offset(worker: AskedWorker) -> None:
    """It says by how much, and answers like the others when it has caught up."""
    worker.feed(document(0))
    other = AskedWorker(SETTINGS, worker.log)
    worker.feed(document(1))
    [answer] = other.ask(document(1))
    assert (answer["verdict"], answer["as_of"]["behind"]) == ("new", 1)
    other.replicated.follow(0)
    [answer] = other.ask(document(1))
    assert (answer["reason"], answer["as_of"]["behind"]) == ("redelivered", 0)
    assert [answer] == worker.ask(document(1))


def test_until_the_log_is_replayed_it_says_how_far_behind_it_is(worker: AskedWorker) -> None:
    """503 before there is a log, while it is replayed, and when the worker ends."""
    questions = Questions(SETTINGS)

    def refusal() -> RefusedError:
        with pytest.raises(RefusedError) as caught:
            questions.answer(document(), is_lines=False)
        assert caught.value.status == 503
        return caught.value

    assert (refusal().code, refusal().behind) == ("replaying", None)
    log = MemoryLog(lambda: 0)
    late = AskedWorker(SETTINGS, log)
    log.append([b"1", b"2", b"3"])
    questions.follow(late.replicated)
    assert (refusal().code, refusal().behind) == ("replaying", 3)
    assert "3 records" in refusal().text
    questions.open(late.rows)
    assert orjson.loads(questions.answer(document(), is_lines=False))["as_of"]["behind"] == 3
    questions.close()
    assert refusal().code == "ending"


@given(st.lists(JSON_VALUES, max_size=8), st.sampled_from(["", " ", "\n\t\r "]), st.booleans())
def test_an_array_is_taken_apart_where_its_values_end(
    values: list[Any], space: str, ascii_only: bool
) -> None:
    """Each part is the bytes of its value as they stand in the body."""
    texts = [json.dumps(value, ensure_ascii=ascii_only) for value in values]
    comma = f"{space},{space}"
    body = f"{space}[{space}{comma.join(texts)}{space}]{space}".encode("utf-8", "surrogatepass")
    asked = split(body, is_lines=False)
    assert asked.form == "array"
    assert list(asked.documents) == [text.encode("utf-8", "surrogatepass") for text in texts]


def test_an_array_may_have_a_byte_order_mark() -> None:
    """Some editors and PowerShell write one; each document is asked for all the same."""
    asked = split(b"\xef\xbb\xbf [7, 8]", is_lines=False)
    assert (asked.form, list(asked.documents)) == ("array", [b"7", b"8"])


@given(st.binary() | st.text(alphabet='[]{},:"\\ 1e\n').map(str.encode), st.booleans())
def test_any_bytes_are_documents_or_refused(body: bytes, is_lines: bool) -> None:
    """Nothing but a RefusedError comes out, and no part is larger than the body."""
    try:
        asked = split(body, is_lines=is_lines)
    except RefusedError as error:
        assert error.status in (400, 413)
        return
    assert sum(map(len, asked.documents)) <= len(body)


@pytest.mark.parametrize(
    ("body", "is_lines", "status"),
    [
        (b"[" * 100_000, False, 400),
        (b'[{"a":' * 50_000, False, 400),
        (b"[" + b"1" * 100_000, False, 400),
        (b"[[], " + b"1" * 100_000 + b"]", False, None),
        (b"[1e999999, -0, 1E+5]", False, None),
        (b"[1,]", False, 400),
        (b"[1] 2", False, 400),
        (b"[1 2]", False, 400),
        (b'["', False, 400),
        (b"[" + b"{}," * DOCUMENTS_MAX + b"{}]", False, 413),
        (b"{}\n" * (DOCUMENTS_MAX + 1), True, 413),
        (b" \n" * 100_000 + b"{}", True, None),
        (b"[ ]", False, None),
        (b"", True, None),
    ],
    ids=range(14),
)
def test_hostile_lists(
    worker: AskedWorker, body: bytes, is_lines: bool, status: int | None
) -> None:
    """Deep, endless, cut or too many: refused as a whole, or each document has its answer."""
    if status is None:
        answer = worker.questions.answer(body, is_lines=is_lines)
        answers = answer.splitlines() if is_lines else orjson.loads(answer)
        assert len(answers) == len(split(body, is_lines=is_lines).documents)
        return
    with pytest.raises(RefusedError) as caught:
        worker.questions.answer(body, is_lines=is_lines)
    assert caught.value.status == status


def test_answers_are_counted_by_what_they_say(worker: AskedWorker) -> None:
    """seen, new, skipped, refused: each document of a list for itself."""

    def counts() -> dict[str, float]:
        samples = next(iter(metrics.QUESTIONS.collect())).samples
        return {sample.labels["answer"]: sample.value for sample in samples}

    worker.feed(document(1))
    before = counts()
    worker.ask(document(1), document(1, doc_id="x"), document(2), document(3, text=""), b"{}")
    assert {name: count - before[name] for name, count in counts().items()} == {
        "seen": 2,
        "new": 1,
        "skipped": 1,
        "refused": 1,
    }


def test_requests_that_wait_are_computed_together(worker: AskedWorker) -> None:
    """
    One pass answers all that have come by then, up to DOCUMENTS_MAX documents: each as if it was
    alone; a document on which the worker fails costs its own request alone.
    """
    calls: list[int] = []

    def read(messages: Sequence[InputMessage]) -> Rows:
        calls.append(len(messages))
        if any(b"poison" in (message.value or b"") for message in messages):
            raise ValueError("as nobody foresaw")
        return worker.rows(messages)

    worker.feed(document(1))
    bodies = [document(1, doc_id="copy"), document(2), b"{}\n" * 98 + document(3), b'"poison"']
    alone = [worker.ask(body) for body in bodies[:3]]
    worker.questions.open(read)
    answers: dict[int, Any] = {}

    def ask(number: int) -> None:
        try:
            answers[number] = worker.ask(bodies[number])
        except ValueError as error:
            answers[number] = error

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(bodies))]
    questions = worker.questions
    questions._is_computing = True
    for number, thread in enumerate(threads):
        thread.start()
        # At once.
        eventually(lambda: len(questions._waiting) == number + 1, "it waits")  # noqa: B023
    with questions._changed:
        questions._is_computing = False
        questions._changed.notify_all()
    for thread in threads:
        thread.join()
    assert [answers[number] for number in range(3)] == alone
    assert isinstance(answers[3], ValueError)
    assert calls == [2, 100, 99, 1]


def test_a_fair_lock_goes_to_the_one_that_waits() -> None:
    """
    A thread that lets go and takes hold again at once comes after everyone who was waiting, in
    their order.
    """
    lock = FairLock()
    order: list[str] = []

    def wait_for_it(name: str) -> None:
        with lock:
            order.append(name)

    threads = []
    with lock:
        for name in "abc":
            threads.append(threading.Thread(target=wait_for_it, args=(name,)))
            threads[-1].start()
            eventually(lambda: len(lock._waiting) == len(threads), "it waits")
    with lock:
        order.append("again")
    for thread in threads:
        thread.join()
    assert order == ["a", "b", "c", "again"]
    assert not lock.is_held


def test_a_fair_lock_holds_one_at_a_time() -> None:
    """Eight threads that count without a lock of their own lose no count."""
    lock = FairLock()
    held = 0
    counts = 0

    def count() -> None:
        nonlocal held, counts
        for _ in range(500):
            with lock:
                held += 1
                assert held == 1
                counts += 1
                held -= 1

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == 8 * 500


def test_questions_from_many_threads_while_the_log_goes_on_change_nothing() -> None:
    """Threads ask all the time; the log's verdicts and the replica's bytes are as without them."""
    worker = AskedWorker(Settings(threads=4, recrawls="replace"))
    messages = list(crawl(11, 300))
    values = [value for _, value in messages if value is not None and _is_json(value)]
    is_done = threading.Event()
    failures: list[BaseException] = []
    asked = [0]

    def ask_on(start: int) -> None:
        at = start
        try:
            while not is_done.is_set():
                worker.ask(*values[at % len(values) :][:5])
                asked[0] += 1
                at += 7
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask_on, args=(start,)) for start in range(3)]
    for thread in threads:
        thread.start()
    verdicts = [worker.feed(value, key) for key, value in messages]
    eventually(lambda: asked[0] >= 3 or failures, "something was asked")
    is_done.set()
    for thread in threads:
        thread.join()
    assert not failures
    unasked = AskedWorker(worker.settings)
    assert [unasked.feed(value, key) for key, value in messages] == verdicts
    assert unasked.snapshot() == worker.snapshot()
    worker.replica.check()


class Day:
    """A clock that sleeping moves, and a processor that computing takes."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.processor_s = 0.0
        self.pace = QuestionPace(lambda: self.now_s, lambda: self.processor_s, self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def compute(self, seconds: float) -> float:
        """Take a turn that takes so much of a processor; return when it began."""
        with self.pace.turn():
            begun_s = self.now_s
            self.now_s += seconds
            self.processor_s += seconds
        return begun_s


@given(st.lists(st.floats(0, REST_S_MAX / REST), min_size=2, max_size=20))
def test_questions_take_their_share_while_documents_wait(costs: list[float]) -> None:
    """However much each computation costs, documents have REST times as long before the next."""
    day = Day()
    day.pace.documents_wait = lambda: True
    begun_s = [day.compute(cost) for cost in costs]
    for before, after, cost in zip(begun_s, begun_s[1:], costs, strict=False):
        assert after - before == pytest.approx(cost + REST * cost)


def test_a_worker_without_documents_answers_at_once() -> None:
    """Also in the middle of a wait: whether documents wait is looked at again and again."""
    day = Day()
    for number in range(100):
        assert day.compute(1) == number
    day.pace.documents_wait = lambda: day.now_s < 100.5
    assert day.compute(0.1) == 100  # nothing is owed of the time without documents
    assert day.compute(0) == pytest.approx(100.5, abs=0.02)


def test_a_computation_that_fails_counts_all_the_same() -> None:
    """A question that makes the worker fail is no way around the share."""
    day = Day()
    day.pace.documents_wait = lambda: True
    with pytest.raises(ZeroDivisionError), day.pace.turn():
        day.processor_s += 0.1
        raise ZeroDivisionError
    assert day.compute(0) == pytest.approx(REST * 0.1)


def test_a_request_is_charged_once() -> None:
    """What it takes beside its turn, and that turn: not twice, whichever ends first."""
    day = Day()
    day.pace.documents_wait = lambda: True
    with day.pace.charged():
        day.processor_s += 0.01
        day.compute(0.02)
        day.processor_s += 0.03
    # The turn took 0.02 s, and REST times that is waited for; so is the rest of the request.
    assert day.compute(0) == pytest.approx(0.02 + REST * 0.06)


def test_no_turn_waits_for_ever() -> None:
    """Whatever those before it took, and whatever others take while it waits."""
    day = Day()
    day.pace.documents_wait = lambda: True
    day.compute(1_000)
    sleep = day.pace._sleep

    def sleep_and_charge(seconds: float) -> None:
        sleep(seconds)
        with day.pace.charged():
            day.processor_s += 1

    day.pace._sleep = sleep_and_charge
    assert day.compute(0) == pytest.approx(1_000 + REST_S_MAX, abs=0.02)


def test_a_worker_that_answers_without_end_takes_a_question(worker: AskedWorker) -> None:
    """Questions about URLs are put off like others, and none of them starves a document."""
    questions = worker.questions
    worker.questions.yield_to(lambda: True)
    is_done = threading.Event()

    def keep_asking() -> None:
        while not is_done.is_set():
            with suppress(RefusedError):
                questions.latest("https://example.org/")

    askers = [threading.Thread(target=keep_asking) for _ in range(4)]
    for asker in askers:
        asker.start()
    try:
        for number in range(3):
            assert questions.answer(document(number), is_lines=False)
    finally:
        is_done.set()
        for asker in askers:
            asker.join()
