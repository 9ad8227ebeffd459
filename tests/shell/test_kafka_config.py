"""The client configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worker.errors import StopError
from worker.settings import Settings
from worker.settings.connection import KAFKA_OPTIONS_REFUSED
from worker.shell.kafka import Admin
from worker.shell.kafka import config as kafka_config

Configure = Callable[[Settings], dict[str, Any]]
CLIENTS: list[Configure] = [getattr(kafka_config, name) for name in kafka_config.__all__]


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
        Admin(kafka_config.admin(Settings(**wrong)), 1.0)
