"""The event that says a channel works."""

import json

import pytest
from tests.incident.alert.delivering import START

from looptrap.incident.alert.channel import channel_test_event, make_channels
from looptrap.incident.alert.message import webhook_body
from looptrap.incident.setting import ChannelSettings


@pytest.mark.parametrize(
    ("given", "name", "project"),
    [
        pytest.param({}, "loop.detected", "", id="that hears of everything"),
        pytest.param({"events": ("budget.*",)}, "budget.threshold", "", id="of budgets"),
        pytest.param({"projects": ("research",)}, "loop.detected", "research", id="of a project"),
    ],
)
def test_a_channel_gets_what_it_would_hear_of(given, name, project):
    settings = ChannelSettings(name="ops", url="https://example.com/", **given)
    (channel,) = make_channels([settings], {})
    event = channel_test_event(channel, START)
    assert channel.wants(event)
    told = json.loads(webhook_body(event))
    assert (told["event"], told["project_id"], told["data"]["test"]) == (name, project, True)
    assert event.id != channel_test_event(channel, START + 1).id
