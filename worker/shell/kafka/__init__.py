"""
Kafka: the one package that talks to the client library. Its errors leave here as ours.

    client       configurations, errors, questions asked again, batches that cannot be read
    consumer     the source, as a member of the group
    log          the ordered log: follow, append
    publisher    answers and offsets in one transaction
    reader       offsets and messages from outside the group; documents fed into their topic
    admin        topics and cluster
    topics       what the topics must be
"""

from __future__ import annotations

from worker.shell.kafka.admin import Admin, Member, Topic, known_brokers
from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.kafka.log import LogAppender, LogConsumer, log_entries
from worker.shell.kafka.publisher import TransactionalPublisher
from worker.shell.kafka.reader import Feeder, GroupOffsets, TopicMessage, TopicReader

__all__ = [
    "Admin",
    "Feeder",
    "GroupConsumer",
    "GroupOffsets",
    "LogAppender",
    "LogConsumer",
    "Member",
    "Topic",
    "TopicMessage",
    "TopicReader",
    "TransactionalPublisher",
    "known_brokers",
    "log_entries",
]
