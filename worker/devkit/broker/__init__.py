"""A real Apache Kafka from Python alone: layout, jars, Java, nodes, and the cluster that they make."""

from __future__ import annotations

from worker.devkit.broker.cluster import EmbeddedKafka, Runtime, default_data, prepare
from worker.devkit.broker.layout import CLIENT_PORT_DEFAULT, Extras
from worker.devkit.broker.serving import NodeState

__all__ = ["CLIENT_PORT_DEFAULT", "EmbeddedKafka", "Extras", "NodeState", "Runtime", "default_data", "prepare"]
