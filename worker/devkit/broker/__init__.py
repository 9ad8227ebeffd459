"""A real Apache Kafka from Python alone: the jars, Java, the nodes, and the cluster that they
form."""

from __future__ import annotations

from worker.devkit.broker.cluster import EmbeddedKafka, Extras, default_data
from worker.devkit.broker.runtime import Runtime, prepare

__all__ = ["EmbeddedKafka", "Extras", "Runtime", "default_data", "prepare"]
