"""
What people would write today: Quix Streams with an index for each partition, here gaoya's SimHash
index in Rust.

Exactly-once from document to verdict, as ours. Not the same answers: an index of a partition never
sees the duplicates that other partitions hold, and it is gone after a restart. It runs in an
environment of its own, because Quix Streams needs another version of the Kafka client.

    python quix_pipeline.py BOOTSTRAP GROUP DOCUMENTS LOG VERDICTS
"""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    from gaoya.simhash import SimHashStringIndex  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    from quixstreams import Application, message_context  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    bootstrap, group, documents, _log, verdicts = sys.argv[1:6]
    app = Application(
        broker_address=bootstrap,
        consumer_group=group,
        auto_offset_reset="earliest",
        auto_create_topics=False,
        processing_guarantee="exactly-once",
        commit_every=1_000,
        loglevel="WARNING",
    )
    indexes: dict[int, Any] = {}
    names: dict[int, list[str]] = {}  # doc_ids by row

    def judge(fields: dict[str, Any]) -> dict[str, Any]:
        partition = message_context().partition
        index = indexes.setdefault(partition, SimHashStringIndex(64, 6, 3, "word", True, (2, 2)))
        originals = names.setdefault(partition, [])
        # With the distances it would fail: gaoya 0.2.2 calls a method it lacks.
        found = index.query(fields["text"])
        answer = {
            "doc_id": fields["doc_id"],
            "url": fields["url"],
            "verdict": "duplicate" if found else "new",
        }
        if found:
            answer["duplicate_of"] = {"doc_id": originals[found[0]]}
        else:
            index.insert_document(len(originals), fields["text"])
            originals.append(fields["doc_id"])
        return answer

    source = app.topic(documents, value_deserializer="json", key_deserializer="bytes")
    target = app.topic(verdicts, value_serializer="json", key_serializer="bytes")
    app.dataframe(source).apply(judge).to_topic(target)
    app.run()


if __name__ == "__main__":
    main()
