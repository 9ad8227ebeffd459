"""What the log says of dead letters."""

from __future__ import annotations

from structlog.testing import capture_logs

from worker.shell.pipeline.publishing import DEAD_LETTERS_TOLD_S, DeadLetterLog


def test_the_first_of_each_class_and_then_a_count_a_minute() -> None:
    """A crawler that sends 50,000 of a class writes two lines, and a minute without any none."""
    now_s = 0.0
    letters = DeadLetterLog(lambda: now_s)
    with capture_logs() as said:
        for offset in range(50_000):
            letters.add("no-body", 3, offset)
            letters.tick()
        letters.add("invalid-json", 4, 7)
    assert [(line["event"], line["code"], line["partition"], line["offset"]) for line in said] == [
        ("dead letter", "no-body", 3, 0),
        ("dead letter", "invalid-json", 4, 7),
    ]
    with capture_logs() as said:
        letters.add("invalid-json", 4, 8)
        for minute in range(1, 5):
            now_s = minute * DEAD_LETTERS_TOLD_S
            letters.tick()
    assert said == [{"event": "more dead letters", "log_level": "warning", "no_body": 49_999, "invalid_json": 1}]
