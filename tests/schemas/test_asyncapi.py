"""asyncapi.yaml says what the code does: the same topics, the same schema files, the same keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from schemas.__main__ import FOLDER, MODELS
from worker.settings import Settings
from worker.shell.kafka.client import feeder_config, publisher_config

API: dict[str, Any] = yaml.safe_load((FOLDER / "asyncapi.yaml").read_text(encoding="utf-8"))


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                yield value
            else:
                yield from _references(value)


def test_the_topics_are_the_defaults_of_the_settings() -> None:
    """A channel for each topic, and the address of the broker that we start."""
    fields = Settings.model_fields
    topics = {fields[name].default for name in fields if name.startswith("topic_")}
    assert {channel["address"] for channel in API["channels"].values()} == topics
    assert API["servers"]["local"]["host"] == fields["bootstrap"].default


def test_every_reference_leads_somewhere() -> None:
    """To a part of this file, or to a schema file; and each schema file is used."""
    files = set()
    for reference in _references(API):
        if reference.startswith("#/"):
            part = API
            for name in reference[2:].split("/"):
                part = part[name]
        else:
            files.add(reference)
            assert (FOLDER / reference).is_file()
    assert files == {f"./{name}.schema.json" for name in MODELS}


def test_every_channel_has_an_operation() -> None:
    """No topic that nobody reads or writes."""
    used = {operation["channel"]["$ref"].rsplit("/", 1)[1] for operation in API["operations"].values()}
    assert used == set(API["channels"])


def test_the_log_is_internal_and_binary() -> None:
    """Its payload is not described: it is not for others."""
    batch = API["components"]["messages"]["batch"]
    assert batch["contentType"] == "application/octet-stream"
    assert batch["payload"] == {"type": "string", "format": "binary"}


def test_it_says_how_messages_are_compressed() -> None:
    """As the producers do it: a client without the codec reads nothing."""
    for channel, producer in (("verdicts", publisher_config), ("documents", feeder_config)):
        assert f"with {producer(Settings())['compression.type']}" in API["channels"][channel]["description"]
