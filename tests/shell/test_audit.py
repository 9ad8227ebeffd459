"""The whole-history check: silent on a right history, and no defect put into one escapes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest

from tests.oracle import read_answer
from tests.shell.simulated_cluster import DEFINITION, TOPIC_ID, World
from tests.shell.simulation import without_faults
from worker.core.document import Outcome, Verdict
from worker.core.search import SearchRules
from worker.errors import DocumentError, StopError
from worker.log.record import (
    FORMAT_VERSION,
    Row,
    RowKind,
    Rows,
    Section,
    Source,
    encode,
)  # fmt: skip
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.shell.admin.audit import (
    Defect,
    Left,
    Report,
    _History,
    check,
    replayed_answers,
)
from worker.shell.admin.new_documents import NewDocuments
from worker.shell.admin.older_verdicts import OPTIONAL
from worker.shell.admin.published import AnswerMessage, place_of
from worker.shell.admin.remains import OLDEST_MAX, KnownCommits
from worker.shell.admin.verify import refuse_wrong
from worker.shell.messages import VerdictBytes, encode_dead_letter, encode_verdict
from worker.shell.ports import UNREADABLE, InputMessage, LogEntry, Outgoing

FEW = 12


@pytest.fixture(scope="module")
def world() -> World:
    """A history without faults: some 30 documents in three partitions, answered and committed."""
    return without_faults(50)


_check = partial(check, topic="documents", topic_id=TOPIC_ID)


def _report(
    world: World,
    answers: Iterable[AnswerMessage],
    log: list[LogEntry] | None = None,
    definition: Definition = DEFINITION,
    **more: Any,
) -> Report:
    """What is found with these answers in place of the world's, and with this log."""
    facts = {"documents": list(world.documents().values()), "committed": world.committed, **more}
    log = log or world.log.entries
    return _check(
        Replica(definition),
        log=log,
        answers=answers,
        again=lambda: (Replica(definition), log),
        **facts,
    )


def _logged(*sections: Section) -> list[LogEntry]:
    """A log of the definition and these sections, each in a record of its own."""
    log = [LogEntry(0, 5, DEFINITION.declaration("w", FORMAT_VERSION))]
    for section in sections:
        [data] = encode(DEFINITION.author("w"), [section], 10_000)
        log.append(LogEntry(len(log), 5, data))
    return log


def _letter(value: bytes | None, error: DocumentError, defect: str = "") -> AnswerMessage:
    """The dead letter of the first message."""
    message = InputMessage(0, 0, b"k" if value else None, value, defect=defect)
    key, sent, headers = encode_dead_letter("documents", message, error)
    return AnswerMessage(key, sent, tuple(headers), True)


def _only(report: Report, defect: Defect, count: int = 1) -> bool:
    return (
        report.defects == {each.value: count if each is defect else 0 for each in Defect}
        and not report.clean
    )


def test_a_right_history_is_clean(world: World) -> None:
    """
    Every document answered once: nothing to report; above the group's offset one waits, which is no
    defect.
    """
    report, count = _report(world, world.messages), len(world.documents())
    assert report.clean and report.findings == () and count > 25
    assert (report.documents, report.answered, report.unanswered, report.expired) == (
        count,
        count,
        0,
        0,
    )
    assert sum(report.outcomes.values()) == count
    assert report.log_rows == count + report.log_rows_repeated
    report = _report(world, [], committed={})
    assert report.clean and (report.answered, report.unanswered) == (0, count)


def test_an_answer_that_is_missing_is_lost_and_one_given_twice_is_repeated(world: World) -> None:
    """Whichever it is: the group has committed it; the second says the same as the first."""
    for position in range(FEW):
        without = world.messages[:position] + world.messages[position + 1 :]
        assert _only(_report(world, without), Defect.LOST)
        assert _only(_report(world, [*world.messages, world.messages[position]]), Defect.REPEATED)


def test_what_retention_may_have_deleted_is_not_lost_in_its_own_topic_alone(world: World) -> None:
    """Where all dead letters are gone, a verdict that is missing is lost all the same."""
    verdicts = [one for one in world.messages if not one.is_dead_letter]
    letters = [one for one in world.messages if one.is_dead_letter]
    assert verdicts and letters
    report = _report(world, verdicts, left=lambda: Left(dead_letters=[[]]))
    assert report.clean and report.expired == len(letters)
    assert _only(_report(world, verdicts[1:], left=lambda: Left(dead_letters=[[]])), Defect.LOST)
    report = _report(world, letters, left=lambda: Left(verdicts=[[]]))
    assert report.clean and report.expired == len(verdicts)
    assert all(known.aged <= known.covered for known in report.partitions.values())
    assert sum(known.unanswered for known in report.partitions.values()) == 0


@pytest.mark.parametrize("is_dead_letter", [False, True])
def test_what_is_left_of_a_topic_shows_what_retention_may_have_deleted(
    world: World, is_dead_letter: bool
) -> None:
    """
    However much of its beginning is gone, nothing of that is lost. What was decided after the log
    had heard of the oldest answer left is lost if it is missing, however few are left behind it.
    """
    answers = [one for one in world.messages if one.is_dead_letter == is_dead_letter]
    others = [one for one in world.messages if one.is_dead_letter != is_dead_letter]
    name = "dead_letters" if is_dead_letter else "verdicts"
    noticed = dict.fromkeys((1, OLDEST_MAX), 0)
    for gone in range(1, len(answers) + 1, 3):
        for count in noticed:
            remaining = answers[gone:]
            left = {name: [remaining[:count]]}
            report = _report(world, [*others, *remaining], left=partial(Left, **left))
            assert report.clean and report.expired == gone
            report = _report(world, [*others, *remaining[:-1]], left=partial(Left, **left))
            noticed[count] += report.defects["lost"]
    assert 0 < noticed[1] <= noticed[OLDEST_MAX]


def _verdict(message: AnswerMessage, **changed: object) -> AnswerMessage:
    """Change fields of a verdict."""
    fields = {"reason": "empty-text", **orjson.loads(message.value or b""), **changed}
    return message._replace(value=orjson.dumps(fields))


def _with_code(message: AnswerMessage) -> AnswerMessage:
    headers = tuple(
        (name, b"other" if name.endswith("code") else value) for name, value in message.headers
    )
    return message._replace(headers=headers)


def _pointer(message: AnswerMessage, value: bytes) -> AnswerMessage:
    """Say of a dead letter that its value points to the message."""
    headers = (*message.headers, ("neardup.value", b"pointer"))
    return message._replace(headers=headers, value=value)


@pytest.mark.parametrize(
    ("is_dead_letter", "change"),
    [
        (False, lambda one: _verdict(one, verdict="skipped")),
        (False, lambda one: _verdict(one, doc_id="another")),
        (False, lambda one: _verdict(one, decided_at="2020-01-01T00:00:00.000Z")),
        (False, lambda one: _verdict(one, url="http://x/")),
        (False, lambda one: one._replace(key=b"another")),  # by which the topic is partitioned
        (True, lambda one: one._replace(value=b"w")),  # it must carry its message
        (True, lambda one: _pointer(one, b"w")),  # or point to it
        (True, lambda one: _pointer(one, b"[]")),
        (True, _with_code),
    ],
)
def test_an_answer_that_differs_from_the_replay_is_wrong(
    world: World, is_dead_letter: bool, change: Callable[[AnswerMessage], AnswerMessage]
) -> None:
    """
    Each field counts: outcome, identity, time, reason; not their order, for what counts is what it
    says.
    """
    at, message = next(
        (at, one)
        for at, one in enumerate(world.messages)
        if one.is_dead_letter == is_dead_letter
        and (is_dead_letter or b'"verdict":"new"' in (one.value or b""))
    )
    report = _report(world, [*world.messages[:at], change(message), *world.messages[at + 1 :]])
    assert _only(report, Defect.WRONG)
    if not is_dead_letter:
        fields = orjson.loads(message.value or b"")
        assert report.findings[0].offset == fields["source"]["offset"]
        again = message._replace(value=orjson.dumps(dict(reversed(fields.items()))))
        assert again != message
        assert _report(world, [*world.messages[:at], again, *world.messages[at + 1 :]]).clean


def test_a_verdict_on_a_document_of_another_topic_is_said_to_be_another_groups(
    world: World,
) -> None:
    """Two groups that publish into one topic: each would find the other's verdicts wrong."""
    verdict = next(one for one in world.messages if not one.is_dead_letter)
    fields = orjson.loads(verdict.value or b"")
    others = {**fields, "source": {**fields["source"], "topic": "documents-2", "offset": 9_999}}
    report = _report(world, [*world.messages, verdict._replace(value=orjson.dumps(others))])
    assert "another topic than documents: if another group" in report.findings[0].text


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b"\xff", None])
def test_what_is_no_verdict_at_all_is_wrong(world: World, value: bytes | None) -> None:
    """
    Whatever stands in the topic of the verdicts must be one. But it says nothing of the settings:
    answers and offsets can still be mended.
    """
    report = _report(world, [*world.messages, AnswerMessage(b"k", value, (), False)])
    assert _only(report, Defect.WRONG)
    refuse_wrong(report, "nothing is known")
    new = next(one for one in world.messages if b'"verdict":"new"' in (one.value or b""))
    others = [one for one in world.messages if one is not new]
    wrong = _verdict(new, verdict="skipped")
    with pytest.raises(StopError, match="1 answers differ from the log"):
        refuse_wrong(_report(world, [wrong, *others, new._replace(value=value)]), "nothing")


def _elsewhere(world: World, **changed: object) -> AnswerMessage:
    """Return a right verdict of the world with another place."""
    new = next(one for one in world.messages if b'"verdict":"new"' in (one.value or b""))
    source = orjson.loads(new.value or b"")["source"]
    return _verdict(new, source={**source, **changed})


PLACES: list[dict[str, object]] = [
    {"offset": 1e300}, {"offset": -1}, {"offset": 2**60}, {"partition": -5}, {"partition": 2**31},
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_no_topic_has_is_no_answer(world: World, place: dict[str, object]) -> None:
    """Another program's numbers: they are counted, and nothing is remembered of that place."""
    message = _elsewhere(world, **place)
    report = _report(world, [*world.messages, message])
    assert _only(report, Defect.WRONG) and report.no_answers == 1
    assert report.partitions == _report(world, world.messages).partitions
    history = _History(Replica(DEFINITION), "documents", TOPIC_ID, None)
    history.take_verdict(message)
    assert history._pages == {}


def test_an_unknown_word_for_the_verdict_is_no_answer(world: World) -> None:
    """It is no outcome that a report could count."""
    report = _report(world, [*world.messages, _verdict(_elsewhere(world), verdict="perhaps")])
    assert _only(report, Defect.WRONG) and report.no_answers == 1
    assert "perhaps" not in report.outcomes


def test_answers_far_from_all_that_exist_are_counted_and_take_no_page(world: World) -> None:
    """Another program can make up any number of them; an offset that has two is named."""
    far = [_elsewhere(world, partition=2, offset=number << 40) for number in (1, 2, 3)]
    letter = next(one for one in world.messages if one.is_dead_letter)
    headers = (*letter.headers, ("neardup.source.offset", b"%d" % (1 << 43)))
    far.append(letter._replace(headers=headers))
    report = _report(world, [*world.messages, *far, far[1], far[1]])
    assert (report.defects["wrong"], report.defects["repeated"]) == (6, 2)
    assert report.answered == len(world.documents()) + 4
    assert [finding[1:] for finding in report.findings if finding.defect is Defect.REPEATED] == [
        (2, 2 << 40, "answer number 2"),
        (2, 2 << 40, "answer number 3"),
    ]
    history = _History(Replica(DEFINITION), "documents", TOPIC_ID, None)
    history.take_verdict(far[0])
    history.take_dead_letter(far[3])
    assert history._pages == {}


def test_what_retention_has_deleted_is_asked_for_behind_the_answers(world: World) -> None:
    """It goes on while they are read: an answer that is gone by then would be called lost."""
    taken: list[AnswerMessage] = []

    def answers() -> Iterator[AnswerMessage]:
        for message in world.messages[1:]:
            taken.append(message)
            yield message

    def left() -> Left:
        assert len(taken) == len(world.messages) - 1
        return Left([[]], [[]])

    report = _report(world, answers(), documents=[], left=left)
    assert report.clean and report.expired == 1


def test_two_documents_that_duplicate_each_other_are_found() -> None:
    """
    What indexes that tell each other of their documents would do; here both verdicts are wrong,
    too.
    """
    rows = [Row(i, RowKind.FULL, name, "http://x/", 0, 0, i, 9) for i, name in enumerate("ab")]
    source = Source(TOPIC_ID, 0)
    log = _logged(Section(source, 0, 2, -1, Rows.of(rows)))
    replica = Replica(DEFINITION)
    for entry in log:
        replica.read(entry.value, entry.offset, entry.timestamp_ms)
    first, second = (read_answer(replica, source, offset) for offset in (0, 1))
    assert first.outcome is Outcome.NEW and second.outcome is Outcome.DUPLICATE  # type: ignore[union-attr]
    fields = orjson.loads(encode_verdict(first)[1])  # type: ignore[arg-type]
    fields |= {
        "verdict": "duplicate",
        "duplicate_of": {**orjson.loads(encode_verdict(second)[1])["duplicate_of"], "doc_id": "b"},  # type: ignore[arg-type]
    }
    report = _check(
        Replica(DEFINITION),
        log=log,
        documents=[InputMessage(0, offset, b"k", b"v") for offset in (0, 1)],
        answers=[
            AnswerMessage(b"a", orjson.dumps(fields), (), False),
            AnswerMessage(*encode_verdict(second), (), False),  # type: ignore[arg-type]
        ],
        committed={0: 2},
    )
    assert (report.defects["mutual"], report.defects["wrong"]) == (1, 1)


def test_a_message_that_could_not_be_read_is_not_asked_of_its_dead_letter() -> None:
    """It points to the message, which another replica may lead with whole by now."""
    error = DocumentError(UNREADABLE, "cannot be decompressed")
    rows = Rows.of([Row(0, RowKind.DEAD, "", "", 0, note=str(error))])
    report = _check(
        Replica(DEFINITION),
        log=_logged(Section(Source(TOPIC_ID, 0), 0, 1, -1, rows)),
        documents=[InputMessage(0, 0, b"k", b"v")],
        answers=[_letter(None, error, defect=error.text)],
        committed={0: 1},
    )
    assert report.clean and report.outcomes == {"dead-letter": 1}


def test_a_log_may_have_later_offsets_first_and_rows_that_come_too_late() -> None:
    """
    As where the group's offset was set back, and where one worker has read what another could read
    no more.
    """

    def section(first: int, *offsets: int) -> Section:
        rows = [Row(at, RowKind.FULL, f"{at}", "", 0, 1 << at, at, 9) for at in offsets]
        return Section(Source(TOPIC_ID, 0), first, offsets[-1] + 1, -1, Rows.of(rows))

    log = _logged(section(3, 3, 4), section(0, 1, 2), section(0, 0))
    replica = Replica(DEFINITION)
    for entry in log[:-1]:
        replica.read(entry.value, entry.offset, entry.timestamp_ms)
    published = []
    for offset in range(1, 5):
        verdict = read_answer(replica, Source(TOPIC_ID, 0), offset)
        assert isinstance(verdict, Verdict)
        published.append(encode_verdict(verdict))
    report = _check(
        Replica(DEFINITION),
        log=log,
        documents=[InputMessage(0, offset, b"k", b"v") for offset in range(1, 5)],
        answers=[AnswerMessage(*one, (), False) for one in published],
        committed={0: 5},
    )
    assert report.clean and (report.answered, report.log_rows_repeated) == (4, 1)


def _leaves(fields: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _edited(message: AnswerMessage, path: str, edit: Callable[[dict[str, Any], str], Any]) -> Any:
    """Return a verdict with one field edited; None if it has no such field."""
    fields = orjson.loads(message.value or b"{}")
    *parents, name = path.split(".")
    holder = fields
    for parent in parents:
        holder = holder.get(parent, {})
    if name not in holder:
        return None
    edit(holder, name)
    return message._replace(value=orjson.dumps(fields))


OTHER: dict[type, Callable[[Any], Any]] = {
    str: lambda value: value[:-1] + ("1" if value[-1] != "1" else "2"),
    int: lambda value: value + 1,
    float: lambda value: abs(value - 0.25),
    bool: lambda value: not value,
}


def _remove(holder: dict[str, Any], name: str) -> None:
    del holder[name]


def _change(holder: dict[str, Any], name: str) -> None:
    holder[name] = OTHER[type(holder[name])](holder[name])


def test_a_verdict_of_an_older_version_may_lack_fields_that_were_added_later(world: World) -> None:
    """
    Whichever optional field all verdicts lack, together or one at a time, they are what the log
    says. A field that must be there may not be missing, and no value may be another one.
    """
    verdicts = [message for message in world.messages if not message.is_dead_letter]
    assert len(OPTIONAL) > 7
    for path in OPTIONAL:
        without = [_edited(one, path, _remove) or one for one in verdicts]
        others = [message for message in world.messages if message.is_dead_letter]
        report = _report(world, [*without, *others])
        is_needed = path in ("duplicate_of", "fingerprint")  # the schema says with which verdict
        assert report.clean is (without == verdicts or not is_needed), path


@pytest.mark.parametrize("lacks", ["former_version", "former_version.similarity"])
def test_a_verdict_that_lacks_a_field_is_compared_in_all_others(world: World, lacks: str) -> None:
    """One field is missing, and another one has another value, or is missing although it must be."""
    tried: set[str] = set()
    for at, message in enumerate(world.messages):
        older = None if message.is_dead_letter else _edited(message, lacks, _remove)
        if older is None:
            continue
        paths = {path for path in _leaves(orjson.loads(older.value)) if path not in tried}
        if not paths:
            continue
        rest = [*world.messages[:at], *world.messages[at + 1 :]]
        assert _report(world, [*rest, older]).clean
        tried |= paths
        for path in sorted(paths):
            if path.startswith("source."):
                continue  # it would answer another document
            changed = _edited(older, path, _change)
            assert _report(world, [*rest, changed]).defects["wrong"] == 1, path
    assert len(tried) > 15


def _new(
    world: World, messages: list[Outgoing], *, is_whole: bool = True, is_compacted: bool = False
) -> Report:
    """What is found of the topic of new documents with these messages."""
    topic = NewDocuments(is_whole=is_whole, is_compacted=is_compacted)
    for message in messages:
        topic.take(message.key, message.value)
    return _report(world, world.messages, new=topic)


def test_the_topic_of_new_documents_has_each_once(world: World) -> None:
    """
    Whichever message is taken away is lost, whichever stands there twice is wrong; a null value
    counts, too.
    """
    report = _new(world, world.new)
    assert report.clean and report.new_documents == len(world.new) > 5
    for at, message in enumerate(world.new):
        without = [*world.new[:at], *world.new[at + 1 :]]
        assert _only(_new(world, without), Defect.LOST)
        assert _only(_new(world, [*world.new, message]), Defect.WRONG)
        turned = message._replace(value=b"w" if message.value is None else None)
        report = _new(world, [*without, turned])
        assert (report.defects["lost"], report.defects["wrong"]) == (1, 1)
        assert _new(world, without, is_compacted=True).clean


def test_what_was_new_before_the_topic_began_is_not_missed(world: World) -> None:
    """
    `topic_new` may be set in a deployment that runs: each partition begins with its first document
    there.
    """
    assert _new(world, [], is_whole=False).clean
    assert _only(_new(world, []), Defect.LOST, len(world.new))
    for count in range(1, len(world.new)):
        assert _new(world, world.new[-count:], is_whole=False).clean
    late = [world.new[0], *world.new[2:]]
    assert _only(_new(world, late, is_whole=False), Defect.LOST)


def test_what_retention_has_deleted_of_the_new_documents_is_not_missed(world: World) -> None:
    """However much of its beginning is gone; what is missing behind it is lost."""
    pairs = [(message.key, message.value) for message in world.new]
    noticed = 0
    for gone in range(1, len(pairs)):
        for missing in (0, 1):
            topic = NewDocuments(is_whole=True)
            for key, value in pairs[gone : len(pairs) - missing]:
                topic.take(key, value)
            topic.take_oldest(pairs[gone : gone + 1])
            report = _report(world, world.messages, new=topic)
            assert missing or report.clean
            noticed += report.defects["lost"]
    assert noticed


def test_what_is_left_of_the_log_before_shows_that_nothing_of_this_log_was_deleted() -> None:
    """a and b were forwarded with the log before, c, d and e with this one: a missing d is lost."""
    source = Source(TOPIC_ID, 0)
    commits = KnownCommits()
    commits.take(source, 2, 1)  # the record that the log begins with
    topic = NewDocuments(is_whole=True)
    for key in (b"a", b"b", b"c", b"e"):
        topic.take(key, b"{}")
    topic.take_oldest([(b"a", b"{}"), (b"b", b"{}")])
    for offset, key in ((2, b"c"), (3, b"d"), (4, b"e")):
        topic.expect(source, offset, VerdictBytes(key, b"{}", Outcome.NEW), offset)
        commits.take(source, offset + 1, offset + 1)
    text = "not in the topic of new documents"
    assert list(topic.missing({source: 5}, commits, has_carried=True)) == [(source, 3, text)]
    assert list(topic.missing({source: 5}, commits)) == []  # another program has written a and b


def test_a_log_of_other_parameters_is_refused(world: World) -> None:
    """Its verdicts cannot be replayed."""
    with pytest.raises(StopError, match="parameters"):
        _report(world, [], definition=Definition("nd1", "1" * 16, SearchRules("exact", 3)))


FORMER_ID = bytes([7]) * 16  # of the source topic before it was deleted and created again


def _renewed(
    world: World, records: int, *, former_stop: int = 0
) -> tuple[list[LogEntry], set[tuple[int, int]]]:
    """
    A log that is renewed after some records of the world's, and the offsets that it begins with as
    another log's; the former source topic ended at `former_stop`.
    """
    before = Replica(DEFINITION)
    for entry in world.log.entries[:records]:
        before.read(entry.value, entry.offset, entry.timestamp_ms)
    stops = {source: before.reach(source).stop for source in before.coverage}
    formers = {Source(FORMER_ID, partition): former_stop for partition in range(3)}
    all_stops = {**stops, **formers} if former_stop else stops
    sections = [Section(source, 0, stop, stop, Rows.of([])) for source, stop in all_stops.items()]
    carried = list(encode(DEFINITION.author("renewer"), sections, 10_000))
    values = [DEFINITION.declaration("renewer", FORMAT_VERSION), *carried]
    values += [entry.value for entry in world.log.entries[records:]]
    log = [LogEntry(offset, offset, value) for offset, value in enumerate(values)]
    return log, {(s.partition, offset) for s, stop in stops.items() for offset in range(stop)}


def test_what_the_log_before_had_is_counted_and_neither_compared_nor_forgotten(
    world: World,
) -> None:
    """
    No answer to it is wrong, and a second one or none is a defect all the same; where retention has
    deleted answers, nobody can say how old those were.
    """
    log, carried = _renewed(world, len(world.log.entries))
    answers = world.messages
    report = _report(world, answers, log)
    assert report.clean and report.carried == report.answered == len(world.documents())
    assert set(world.documents()) <= carried
    for position in range(FEW):
        without = answers[:position] + answers[position + 1 :]
        assert _only(_report(world, without, log), Defect.LOST)
        late = _report(world, without, log, left=partial(Left, [without[:1]]))
        assert late.clean and late.expired == 1
        again = [*answers, answers[position]]
        assert _only(_report(world, again, log), Defect.REPEATED)
    new = NewDocuments(is_whole=True)
    new.take(b"forwarded before", b"{}")
    assert _report(world, answers, log, new=new).clean


def _of_the_former_topic(world: World, stop: int) -> list[AnswerMessage]:
    """Answers of the former topic to all offsets below one; to some the same dead letters."""
    answers = [one for one in world.messages if one.is_dead_letter]
    letters = {place_of(one) for one in answers}
    verdict = next(one for one in world.messages if not one.is_dead_letter)
    for partition in range(3):
        for offset in range(stop):
            if (partition, offset) not in letters:
                source = {"topic": "documents", "partition": partition, "offset": offset}
                before = f"2020-01-01T00:00:{offset:02}.000Z"
                answers.append(_verdict(verdict, source=source, decided_at=before))
    return answers


def _of_the_present_topic(
    world: World, log: list[LogEntry], carried: set[tuple[int, int]]
) -> list[AnswerMessage]:
    """Answers as workers have published them, before the log was renewed and with the new one."""
    answers = [one for one in world.messages if place_of(one) in carried]
    replica = Replica(DEFINITION)
    for source, offset, answer in replayed_answers(replica, log, "documents"):
        if isinstance(answer, DocumentError):
            message = world.documents()[source.partition, offset]
            key, value, headers = encode_dead_letter("documents", message, answer)
            answers.append(AnswerMessage(key, value, tuple(headers), True))
        else:
            answers.append(AnswerMessage(answer.key, answer.value, (), False))
    return answers


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_answers_of_a_source_topic_that_was_created_again_are_not_the_present_ones(
    world: World, share: float
) -> None:
    """
    The log was renewed since, before any, half or all of the documents of the present topic were
    judged. A second answer is a defect all the same, and so is one that is missing where this log
    has decided it, unless an equal dead letter of the former topic stands in its place.
    """
    stop = 30
    assert max(offset for _, offset in world.documents()) < stop - 5
    log, carried = _renewed(world, int(len(world.log.entries) * share), former_stop=stop)
    former = _of_the_former_topic(world, stop)
    present = _of_the_present_topic(world, log, carried)
    answers = [*former, *present]
    report = _report(world, answers, log)
    assert report.clean and len(present) == len(world.documents())
    for position in range(0, len(present), 7):
        for repeated in (former[-position - 1], present[position]):
            report = _report(world, [*answers, repeated], log)
            assert _only(report, Defect.REPEATED)
        without = [*former, *present[:position], *present[position + 1 :]]
        report = _report(world, without, log)
        is_hidden = place_of(present[position]) in carried or present[position] in former
        assert report.clean if is_hidden else _only(report, Defect.LOST)


def _with_another_text(message: AnswerMessage) -> AnswerMessage:
    """Return a dead letter with another text."""
    headers = tuple(
        (name, b"another" if name == "neardup.error.text" else value)
        for name, value in message.headers
    )
    return message._replace(headers=headers)


def test_a_wrong_answer_is_no_answer_of_a_former_topic_that_has_its_own(world: World) -> None:
    """This log has decided it, and both topics are answered: verdict, older verdict, dead letter."""
    stop = 30
    log, carried = _renewed(world, 0, former_stop=stop)
    answers = [*_of_the_former_topic(world, stop), *_of_the_present_topic(world, log, carried)]
    verdict = next(one for one in reversed(answers) if not one.is_dead_letter)
    letter = next(one for one in answers if one.is_dead_letter)
    fields = orjson.loads(verdict.value or b"")
    older = {name: value for name, value in fields.items() if name not in OPTIONAL}
    older["decided_at"] = "2019-01-01T00:00:00.000Z"
    wrong = [
        _verdict(verdict, decided_at="2019-01-01T00:00:00.000Z"),
        verdict._replace(value=orjson.dumps(older)),
        _with_another_text(letter),
    ]
    for one in wrong:
        report = _report(world, [*answers, one], log)
        assert report.defects["wrong"] == 1
        assert report.carried == 3 * stop


@pytest.mark.parametrize("values", [(b"v", b"v"), (b"former", b"v")])
def test_dead_letters_of_two_source_topics_may_say_the_same(values: tuple[bytes, bytes]) -> None:
    """One log has both topics: each has its own, and none of the two is a second one."""
    error = DocumentError("no-body", "needs one")
    rows = Rows.of([Row(0, RowKind.DEAD, "", "", 0, note=str(error))])
    sources = [Source(topic_id, 0) for topic_id in (FORMER_ID, TOPIC_ID)]
    log = _logged(*(Section(source, 0, 1, -1, rows) for source in sources))
    answers = [_letter(value, error) for value in values]
    facts: dict[str, Any] = {
        "log": log,
        "documents": [InputMessage(0, 0, b"k", b"v")],
        "committed": {0: 1},
    }
    assert _check(Replica(DEFINITION), answers=answers, **facts).clean
    assert _only(
        _check(Replica(DEFINITION), answers=[*answers, answers[1]], **facts), Defect.REPEATED
    )


def test_a_worker_that_reads_again_what_the_log_before_had_appends_and_answers_nothing(
    world: World,
) -> None:
    """It is covered, and known to be committed; what comes behind it is judged."""
    log, carried = _renewed(world, len(world.log.entries) // 2)
    replica = Replica(DEFINITION)
    for entry in log[:2]:
        assert replica.read(entry.value, entry.offset, entry.timestamp_ms).judged == 0
        replica.check()
    for source in replica.coverage:
        reach = replica.reach(source)
        assert (reach.first, reach.stop) == (0, reach.committed)
        assert replica.missing(source, 0, reach.stop) == []
    for partition, offset in sorted(carried):
        row = Row(offset, RowKind.FULL, "late", "", 0, 1, 1, 9)
        section = Section(Source(TOPIC_ID, partition), offset, offset + 1, offset, Rows.of([row]))
        [value] = encode(DEFINITION.author("late"), [section], 10_000)
        applied = replica.read(value, replica.next_offset, 3)
        assert (applied.judged, applied.repeated) == (0, 1)
    assert replica.documents == 0


def test_a_partition_that_only_the_log_before_had_is_known(world: World) -> None:
    """No document has come since: the group's offset is where that log's documents end."""
    log, carried = _renewed(world, len(world.log.entries))
    report = _report(world, [], log, documents=[], committed={})
    found = {number: part.committed for number, part in report.partitions.items()}
    assert found == {n: max(o for m, o in carried if m == n) + 1 for n, _ in carried}
