"""
Kafka: the one package that talks to the client library. Its errors leave here as ours.

    errors       the client's errors, translated
    consumer     the source, as a member of the group
    log          the ordered log: follow, append
    publisher    verdicts and offsets in one transaction
    clearing     what a transaction before may have left open
    damage       error events, and batches that cannot be read
    log_time     the time stamps of the log's records
    admin        topics and cluster
    feeder       documents into their topic
    reader       offsets and messages from outside the group
"""

from __future__ import annotations

from worker.shell.kafka.admin import Admin, Member, Topic
from worker.shell.kafka.clearing import Scope
from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.kafka.errors import translate
from worker.shell.kafka.feeder import Feeder
from worker.shell.kafka.log import LogAppender, LogConsumer
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.kafka.reader import GroupOffsets, TopicMessage, TopicReader

__all__ = [
    "Admin",
    "Feeder",
    "GroupConsumer",
    "GroupOffsets",
    "LogAppender",
    "LogConsumer",
    "Member",
    "Scope",
    "Topic",
    "TopicMessage",
    "TopicReader",
    "TransactionalPublisher",
    "translate",
]
