"""What docs/alerts.md shows is what is sent, and what it says to do works."""

import asyncio
import base64
import json
import os
import re
from pathlib import Path
from typing import get_args

import pytest
from tests.incident.alert.delivering import PATIENCE
from tests.incident.alert.delivering import event as some_event
from tests.incident.test_budget_event import standing

from looptrap.detect.signals.signal import Evidence
from looptrap.gateway.upstream.upstream_state import breaker_opened_event
from looptrap.incident import event
from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.message import webhook_body
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.event import budget_event
from looptrap.incident.indicator import Indicators, Observation
from looptrap.incident.model import EventName, Incident
from looptrap.incident.setting import ChannelSettings, IndicatorSettings
from looptrap.retry.breaker import CircuitKey

PAGE = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.+?)```", PAGE, re.DOTALL)


SHOWN = {shown["event"]: shown for shown in map(json.loads, blocks("json"))}


def incident(**changes) -> Incident:
    given = {"id": "inc", "instance": "a", "key": "k", "opened": 1.0, "last": 2.0}
    evidence = (Evidence("conversation", "the same 3 messages", 6),)
    return Incident(**{**given, "action": "block", "evidence": evidence, **changes})


def fired():
    indicators = Indicators(IndicatorSettings())
    for second in range(400):
        seen = Observation(time=1_000.0 + second, caller="key:ci", tools=1, failed=1)
        indicators.observe([seen])
        if events := indicators.tick(1_000.0 + second):
            return events[0]
    raise AssertionError("only failures, and nothing fires")


def shape(value):
    """Return the fields of a value in their order, and of what kind they are."""
    match value:
        case dict():
            return {name: shape(one) for name, one in value.items()}
        case list():
            return [shape(one) for one in value]
        case _:
            return type(value).__name__


@pytest.mark.parametrize(
    "one",
    [
        event.detected_event(incident(), 6),
        budget_event(standing(), time=5.0, project="research", request_id="req-7"),
        event.store_degraded_event(5.0),
        fired(),
        breaker_opened_event(CircuitKey("anthropic"), 60.0, 5.0),
    ],
    ids=lambda one: one.name,
)
def test_the_page_shows_the_fields_that_are_sent(one):
    sent, shown = json.loads(webhook_body(one)), SHOWN[one.name]
    scopes = [part["data"].pop("scope", {}) for part in (sent, shown)]
    assert shape(sent) == shape(shown)
    assert list(sent["data"]) == list(shown["data"])
    assert set(scopes[0]) <= {"caller", "project", "model", "provider", "session"}


def test_what_comes_later_in_an_incident_has_the_same_fields():
    names = list(event.detected_event(incident(), 6).data)
    assert list(event.escalated_event(incident(stage=2), 12).data) == names
    assert list(event.resolved_event([incident()], 9.0, 12).data) == [
        *names, "closed", "duration_seconds"
    ]  # fmt: skip


def test_every_event_is_on_the_page():
    table = PAGE.partition("## Events")[2].partition("###")[0]
    assert set(re.findall(r"`([a-z]+\.[a-z]+)`", table)) >= set(get_args(EventName))


async def test_the_receiver_in_node_tells_ours_from_others(tmp_path, needs):
    node = needs("node", "nodejs")
    (tmp_path / "receiver.js").write_text(blocks("js")[0], "utf-8")
    ours, other = ("whsec_" + base64.b64encode(os.urandom(size)).decode() for size in (32, 25))
    process = await asyncio.create_subprocess_exec(
        node,
        tmp_path / "receiver.js",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "WEBHOOK_SECRET": ours, "PORT": "0"},
    )
    try:
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().split()[-1]
            given = ChannelSettings(
                name="ops", url=url, secret_env="SECRET", allow_http=True, allow_private=True
            )
            (forged,) = make_channels([given], {"SECRET": other})
            with pytest.raises(DeliveryError, match="answered 401"):
                await forged.send(some_event(1))
            (old,) = make_channels([given], {"SECRET": ours}, clock=lambda: 1_600_000_000.0)
            with pytest.raises(DeliveryError, match="answered 401"):
                await old.send(some_event(2))
            (rotating,) = make_channels([given], {"SECRET": f"{other} {ours}"})
            await rotating.send(some_event(3, data={"model": "größer"}))
            assert (await process.stdout.readline()).decode() == "loop.detected evt_3\n"
    finally:
        process.kill()
        await process.wait()
