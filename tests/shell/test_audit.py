"""The whole-history check: silent on a right history, and no defect put into one escapes it."""

from __future__ import annotations

import orjson
import pytest

from tests.oracle import read_answers
from tests.shell.simulation import DEFINITION, TOPIC_ID, History, World
from worker.core.search import SearchRules
from worker.core.verdict import Outcome
from worker.errors import StopError
from worker.log.record import FORMAT_VERSION, Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.shell.admin.audit import AnswerMessage, Defect, NewDocuments, Report, check
from worker.shell.messages import encode_verdict
from worker.shell.ports import LogEntry, Outgoing, SourceMessage

FEW = 12


@pytest.fixture(scope="module")
def world() -> World:
    """A history without faults: 36 documents in three partitions, answered and committed."""
    history = History(10)
    history.world.faults = False
    history._finish()
    return history.world


def _report(
    world: World,
    answers: list[AnswerMessage],
    *,
    committed: dict[int, int] | None = None,
    new: NewDocuments | None = None,
) -> Report:
    documents = [world.message(partition, row.offset) for partition in range(3) for row in world.sources[partition]]
    return check(
        Replica(DEFINITION),
        "documents",
        TOPIC_ID,
        log=world.log.entries,
        documents=documents,
        answers=answers,
        committed=world.committed if committed is None else committed,
        new=new,
    )


def _only(report: Report, defect: Defect, count: int = 1) -> bool:
    return report.defects == {each.value: count if each is defect else 0 for each in Defect} and not report.clean


def _index(world: World, *, is_dead_letter: bool) -> int:
    return next(i for i, message in enumerate(world.messages) if message.is_dead_letter == is_dead_letter)


def test_a_right_history_is_clean(world: World) -> None:
    """Every document answered once: nothing to report."""
    report = _report(world, world.messages)
    assert report.clean and report.findings == ()
    assert (report.documents, report.answered, report.unanswered, report.expired) == (36, 36, 0, 0)
    assert sum(report.outcomes.values()) == 36
    assert report.log_rows == 36 + report.log_rows_repeated


@pytest.mark.parametrize("position", range(FEW))
def test_an_answer_that_is_missing_is_lost(world: World, position: int) -> None:
    """Whichever answer is taken away, one document is lost: the group has committed it."""
    answers = world.messages[:position] + world.messages[position + 1 :]
    assert _only(_report(world, answers), Defect.LOST)


@pytest.mark.parametrize("position", range(FEW))
def test_an_answer_given_twice_is_repeated(world: World, position: int) -> None:
    """Whichever answer stands there twice, one is repeated, though it says the same."""
    assert _only(_report(world, [*world.messages, world.messages[position]]), Defect.REPEATED)


def test_what_is_not_committed_waits(world: World) -> None:
    """An offset above the group's is unanswered, which is no defect."""
    report = _report(world, [], committed={})
    assert report.clean
    assert (report.answered, report.unanswered) == (0, 36)


@pytest.mark.parametrize(
    ("field", "value"),
    [("verdict", "skipped"), ("doc_id", "another"), ("decided_at", "2020-01-01T00:00:00.000Z"), ("url", "http://x/")],
)
def test_a_verdict_that_differs_from_the_replay_is_wrong(world: World, field: str, value: str) -> None:
    """Each field counts: outcome, identity, time."""
    at = _index(world, is_dead_letter=False)
    fields = orjson.loads(world.messages[at].value or b"")
    fields[field] = value
    fields.setdefault("reason", "empty-text")
    tampered = world.messages[at]._replace(value=orjson.dumps(fields))
    report = _report(world, [*world.messages[:at], tampered, *world.messages[at + 1 :]])
    assert _only(report, Defect.WRONG)
    assert report.findings[0].offset == fields["source"]["offset"]


def test_a_verdict_with_its_fields_in_another_order_is_right(world: World) -> None:
    """What counts is what it says."""
    at = _index(world, is_dead_letter=False)
    fields = orjson.loads(world.messages[at].value or b"")
    again = world.messages[at]._replace(value=orjson.dumps(dict(reversed(fields.items()))))
    assert again != world.messages[at]
    assert _report(world, [*world.messages[:at], again, *world.messages[at + 1 :]]).clean


def test_a_verdict_under_another_key_is_wrong(world: World) -> None:
    """The key is the doc_id, by which the topic is partitioned."""
    at = _index(world, is_dead_letter=False)
    tampered = world.messages[at]._replace(key=b"another")
    assert _only(_report(world, [*world.messages[:at], tampered, *world.messages[at + 1 :]]), Defect.WRONG)


def test_a_dead_letter_must_carry_its_message(world: World) -> None:
    """Another value than the document's is not the original message."""
    at = _index(world, is_dead_letter=True)
    tampered = world.messages[at]._replace(value=b"w")
    assert _only(_report(world, [*world.messages[:at], tampered, *world.messages[at + 1 :]]), Defect.WRONG)


def test_a_dead_letter_with_another_reason_is_wrong(world: World) -> None:
    """Class and text are the log's."""
    at = _index(world, is_dead_letter=True)
    headers = tuple((name, b"other" if name.endswith("code") else value) for name, value in world.messages[at].headers)
    answers = [*world.messages[:at], world.messages[at]._replace(headers=headers), *world.messages[at + 1 :]]
    assert _only(_report(world, answers), Defect.WRONG)


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", None])
def test_what_is_no_verdict_at_all_is_wrong(world: World, value: bytes | None) -> None:
    """Whatever stands in the topic of the verdicts must be one."""
    assert _only(_report(world, [*world.messages, AnswerMessage(b"k", value, (), False)]), Defect.WRONG)


def test_two_documents_that_duplicate_each_other_are_found() -> None:
    """What indexes that tell each other of their documents would do; here both verdicts are wrong, too."""
    rows = [Row(i, RowKind.FULL, name, "http://x/", 0, 0, i, 9) for i, name in enumerate("ab")]
    source = Source(TOPIC_ID, 0)
    [data] = encode(DEFINITION.author("w"), [Section(source, 0, 2, -1, Rows.of(rows))], 10_000)
    replica = Replica(DEFINITION)
    replica.apply(decode(data), 1, 5)
    first, second = (replica.answer(source, offset, "documents", read_answers) for offset in (0, 1))
    assert first.outcome is Outcome.NEW and second.outcome is Outcome.DUPLICATE  # type: ignore[union-attr]
    fields = orjson.loads(encode_verdict(first)[1])  # type: ignore[arg-type]
    fields |= {
        "verdict": "duplicate",
        "duplicate_of": {**orjson.loads(encode_verdict(second)[1])["duplicate_of"], "doc_id": "b"},  # type: ignore[arg-type]
    }
    report = check(
        Replica(DEFINITION),
        "documents",
        TOPIC_ID,
        log=[LogEntry(0, 5, DEFINITION.declaration("w", FORMAT_VERSION)), LogEntry(1, 5, data)],
        documents=[SourceMessage(0, offset, b"k", b"v") for offset in (0, 1)],
        answers=[
            AnswerMessage(b"a", orjson.dumps(fields), (), False),
            AnswerMessage(*encode_verdict(second), (), False),  # type: ignore[arg-type]
        ],
        committed={0: 2},
    )
    assert (report.defects["mutual"], report.defects["wrong"]) == (1, 1)


def _new(world: World, messages: list[Outgoing], *, is_whole: bool = True, is_compacted: bool = False) -> Report:
    """What is found of the topic of new documents with these messages."""
    topic = NewDocuments(is_whole=is_whole, is_compacted=is_compacted)
    for message in messages:
        topic.take(message.key, message.value)
    return _report(world, world.messages, new=topic)


def test_the_topic_of_new_documents_has_each_once(world: World) -> None:
    """Whichever message is taken away is lost, whichever stands there twice is wrong; a null value counts, too."""
    assert _new(world, world.new).clean and _new(world, world.new).new_documents == len(world.new) > 5
    for at, message in enumerate(world.new):
        without = [*world.new[:at], *world.new[at + 1 :]]
        assert _only(_new(world, without), Defect.LOST)
        assert _only(_new(world, [*world.new, message]), Defect.WRONG)
        turned = message._replace(value=b"w" if message.value is None else None)
        report = _new(world, [*without, turned])
        assert (report.defects["lost"], report.defects["wrong"]) == (1, 1)
        assert _new(world, without, is_compacted=True).clean


def test_what_was_new_before_the_topic_began_is_not_missed(world: World) -> None:
    """`topic_new` may be set in a deployment that runs: each partition begins with its first document there."""
    assert _new(world, [], is_whole=False).clean
    assert _only(_new(world, []), Defect.LOST, len(world.new))
    for count in range(1, len(world.new)):
        assert _new(world, world.new[-count:], is_whole=False).clean
    late = [world.new[0], *world.new[2:]]
    assert _only(_new(world, late, is_whole=False), Defect.LOST)


def test_a_log_of_other_parameters_is_refused(world: World) -> None:
    """Its verdicts cannot be replayed."""
    with pytest.raises(StopError, match="parameters"):
        check(
            Replica(Definition("nd1", "1" * 16, SearchRules("exact", 3))),
            "documents",
            TOPIC_ID,
            log=world.log.entries,
            documents=[],
            answers=[],
            committed={},
        )
