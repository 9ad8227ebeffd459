"""A real Apache Kafka from Python alone: layout, jars, Java, nodes, and the cluster that they make."""

from __future__ import annotations

from worker.devkit.broker.cluster import (
    CLIENT_PORT_DEFAULT,
    EmbeddedKafka,
    Extras,
    NodeState,
    Runtime,
    default_data,
    prepare,
)

__all__ = ["CLIENT_PORT_DEFAULT", "EmbeddedKafka", "Extras", "NodeState", "Runtime", "default_data", "prepare"]
