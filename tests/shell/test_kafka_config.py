"""The client configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.errors import StopError
from worker.settings import KAFKA_OPTIONS_REFUSED, Settings
from worker.shell.kafka import Admin, client

Configure = Callable[[Settings], dict[str, Any]]
CLIENTS: list[Configure] = [one for name, one in vars(client).items() if name.endswith("_config") and name[0] != "_"]


@pytest.mark.parametrize("configure", CLIENTS)
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_an_option_of_the_users_wins_or_is_refused(configure: Configure, group_protocol: str) -> None:
    """Whatever neardup sets for a client of its own accord."""
    own = configure(Settings(group_protocol=group_protocol))
    open_to_users = own.keys() - KAFKA_OPTIONS_REFUSED.keys()
    assert "message.max.bytes" in open_to_users
    options = dict.fromkeys(sorted(open_to_users), "1234")
    configured = configure(Settings(group_protocol=group_protocol, kafka_options=options))
    assert {name: configured[name] for name in options} == options
    assert {name: configured[name] for name in own.keys() - options.keys()} == {
        name: own[name] for name in own.keys() - options.keys()
    }


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"security_protocol": "SSL", "ssl_ca_location": Path("missing.pem")}, "ssl.ca.location failed"),
        ({"kafka_options": {"nope": "1"}}, 'No such configuration property: "nope"'),
    ],
)
def test_settings_that_the_client_refuses_are_named(wrong: dict[str, Any], named: str) -> None:
    """In one line: nobody is asked."""
    with pytest.raises(StopError, match=f"refuses its settings: {named}.* Check ssl_"):
        Admin(Settings(**wrong), 1.0)


def test_no_two_slots_share_a_transactional_id() -> None:
    """Wherever the names of a group and of a worker have their dots: each would fence the other for ever."""
    slots = [("neardup", "eu.w1"), ("neardup.eu", "w1"), ("neardup", "w1")]
    ids = {client.publisher_config(Settings(group=group, worker_id=name))["transactional.id"] for group, name in slots}
    assert len(ids) == len(slots)
