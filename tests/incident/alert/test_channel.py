"""Channels, made ready from their settings."""

import json
import sys

import pytest
from standardwebhooks import Webhook
from tests.incident.alert.delivering import event
from tests.incident.alert.receiving import status

from looptrap.errors import ConfigError
from looptrap.incident.alert.channel import make_channels
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.setting import ChannelSettings

SECRET = "whsec_" + "c2VjcmV0" * 4
ENV = {"SECRET": SECRET, "BAD_SECRET": "hunter2", "URL": "https://example.com/s3cret", "EMPTY": " "}


def settings(**changes) -> ChannelSettings:
    given = {"name": "ops", "url": "https://example.com/hook", **changes}
    if "url_env" in changes:
        del given["url"]
    return ChannelSettings(**given)


@pytest.mark.parametrize(
    ("given", "place", "message"),
    [
        pytest.param(
            settings(secret_env="NONE"),
            "secret_env",
            "names the variable NONE, which is not set",
            id="no secret",
        ),
        pytest.param(
            settings(url_env="EMPTY"),
            "url_env",
            "names the variable EMPTY, which is not set",
            id="an empty URL",
        ),
        pytest.param(
            settings(secret_env="BAD_SECRET"),
            "secret_env",
            "does not begin with whsec_, must be whsec_ and 24 to 64 random bytes in base64",
            id="a malformed secret",
        ),
        pytest.param(
            settings(url="http://example.com/"),
            "url",
            "is plain http, must be https (allow_http = true lets it be)",
            id="plain http",
        ),
        pytest.param(
            settings(kind="slack", url="https://10.0.0.1/"),
            "url",
            "leads to 10.0.0.1, which is not public (allow_private = true lets it)",
            id="a private address",
        ),
        pytest.param(
            settings(kind="apprise", url="nonsense://x"),
            "url",
            "is not a URL that Apprise understands, such as discord://…",
            id="not Apprise's",
        ),
        pytest.param(
            settings(kind="apprise", url_env="URL"),
            "url_env",
            "is not a URL that Apprise understands, such as discord://…",
            id="a URL that Apprise does not know",
        ),
    ],
)
def test_refuses_at_start(given, place, message):
    with pytest.raises(ConfigError) as refused:
        make_channels([settings(), given], ENV)
    (problem,) = refused.value.problems
    assert (problem.place, problem.message) == (f"channels[1].{place}", message)


def test_all_mistakes_are_told_at_once():
    wrong = settings(url="ftp://x/", secret_env="NONE")
    with pytest.raises(ConfigError) as refused:
        make_channels([wrong, wrong], ENV)
    assert [one.place for one in refused.value.problems] == [
        "channels[0].secret_env",
        "channels[0].url",
        "channels[1].secret_env",
        "channels[1].url",
    ]


def test_says_how_to_install_apprise(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r'url: needs Apprise: pip install "looptrap\[apprise\]"'):
        make_channels([settings(kind="apprise", url="json://example.com/")], {})


@pytest.mark.parametrize(
    ("given", "heard", "not_heard"),
    [
        pytest.param({}, [("loop.detected", ""), ("store.degraded", "x")], [], id="everything"),
        pytest.param(
            {"events": ("loop.*",)},
            [("loop.detected", ""), ("loop.resolved", "")],
            [("store.degraded", ""), ("budget.exceeded", "")],
            id="a family",
        ),
        pytest.param(
            {"events": ("loop.detected", "budget.*")},
            [("loop.detected", ""), ("budget.exceeded", "")],
            [("loop.escalated", "")],
            id="one and a family",
        ),
        pytest.param(
            {"projects": ("research",)},
            [("loop.detected", "research")],
            [("loop.detected", ""), ("loop.detected", "research2")],
            id="a project",
        ),
    ],
)
def test_hears_of(given, heard, not_heard):
    (channel,) = make_channels([settings(**given)], {})
    assert all(channel.wants(event(name=name, project=project)) for name, project in heard)
    assert not any(channel.wants(event(name=name, project=project)) for name, project in not_heard)


async def test_a_webhook_is_signed_as_the_reference_library_wants_it(receiver):
    given = settings(url=receiver.url, secret_env="SECRET", allow_http=True, allow_private=True)
    (channel,) = make_channels([given], ENV)
    await channel.send(event())
    (got,) = receiver.got
    told = Webhook(SECRET).verify(got.body, got.headers)
    assert (got.id, told["event"], told["project_id"]) == ("evt_1", "loop.detected", "research")


async def test_slack_gets_blocks_and_says_what_is_wrong(receiver):
    given = settings(kind="slack", url=receiver.url, allow_http=True, allow_private=True)
    (channel,) = make_channels([given], {})
    await channel.send(event())
    assert json.loads(receiver.got[0].body)["blocks"][0]["type"] == "header"
    receiver.always = status(403, "action_prohibited")
    with pytest.raises(DeliveryError, match="answered 403 action_prohibited"):
        await channel.send(event())
