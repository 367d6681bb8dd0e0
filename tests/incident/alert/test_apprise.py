"""Everything else, through Apprise."""

import json
import logging
import threading

import pytest
from tests.incident.alert.delivering import event, until
from tests.incident.alert.receiving import Receiver, status

from looptrap.incident.alert.channel import AppriseNotifier, make_channels
from looptrap.incident.alert.webhook import DeliveryError
from looptrap.incident.setting import ChannelSettings

ALLOWED = {"allow_http": True, "allow_private": True}


def channel_to(receiver: Receiver):
    url = f"json://127.0.0.1:{receiver.port}/s3cret"
    (channel,) = make_channels([ChannelSettings(name="x", kind="apprise", url=url, **ALLOWED)], {})
    return channel


async def test_an_event_arrives_as_title_text_and_mood(receiver):
    await channel_to(receiver).send(event())
    told = json.loads(receiver.got[0].body)
    assert told["title"] == event().title
    assert told["message"].splitlines()[:2] == ["Project: research", "Model: gpt-5.4-mini"]
    assert told["type"] == "warning"


@pytest.mark.parametrize(
    "answer",
    [status(500), status(404), status(302, Location="/elsewhere")],
    ids=["a failure", "not there", "a redirect"],
)
async def test_what_is_not_accepted_is_a_failure(receiver, answer, caplog):
    receiver.always = answer
    with caplog.at_level(logging.DEBUG), pytest.raises(DeliveryError, match="could not deliver"):
        await channel_to(receiver).send(event())
    assert len(receiver.got) == 1
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("jsons://127.0.0.1/s3cret", id="loopback"),
        pytest.param("jsons://[::ffff:10.0.0.1]/s3cret", id="IPv4-mapped"),
        pytest.param("jsons://0x7f000001/s3cret", id="hexadecimal"),
        pytest.param("jsons://2130706433/s3cret", id="one number"),
        pytest.param("jsons://localhost/s3cret", id="localhost"),
        pytest.param("jsons://metadata.google.internal/s3cret", id="a cloud's own"),
        pytest.param("mailtos://me:s3cret@example.com?smtp=10.0.0.1", id="a mail server"),
    ],
)
def test_refuses_a_private_host_that_the_url_names(url):
    with pytest.raises(ValueError, match=r"is not public|stands for an address") as refused:
        AppriseNotifier.of(url)
    assert "s3cret" not in str(refused.value)
    AppriseNotifier.of(url, allow_private=True)


@pytest.mark.parametrize(
    ("url", "secure"),
    [("json://example.com/s3cret", "jsons://"), ("mailto://me:s3cret@example.com", "mailtos://")],
    ids=["http", "mail"],
)
def test_refuses_what_is_not_encrypted(url, secure):
    with pytest.raises(ValueError, match="is not encrypted") as refused:
        AppriseNotifier.of(url)
    assert secure in str(refused.value)
    assert "s3cret" not in str(refused.value)
    AppriseNotifier.of(url, allow_http=True)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("tgram://170000000:abcdefg_hijklmnop/12315544/", id="a number like 10.x.x.x"),
        pytest.param("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", id="a token"),
        pytest.param("mailtos://me:s3cret@example.com", id="encrypted mail"),
    ],
)
def test_takes_services_that_have_no_host_or_a_public_one(url):
    AppriseNotifier.of(url)


async def test_a_service_that_hangs_costs_a_thread_and_no_more():
    release, started = threading.Event(), []

    def hang(**_message):
        started.append(threading.current_thread())
        return release.wait(10)

    notifier = AppriseNotifier(hang, timeout=0.01)
    try:
        for _ in range(2):
            with pytest.raises(DeliveryError, match=r"took more than 0\.01 s"):
                await notifier.notify("title", "text", "info")
        with pytest.raises(DeliveryError, match="still busy"):
            await notifier.notify("title", "text", "info")
        assert len(started) == 2
        assert all(thread.daemon for thread in started), "none keeps the gateway from ending"
    finally:
        release.set()
    await until(lambda: not any(thread.is_alive() for thread in started))
    await AppriseNotifier(lambda **_message: True).notify("title", "text", "info")
    await notifier.notify("title", "text", "info")


async def test_a_mistake_in_a_plugin_is_a_failed_delivery():
    def broken(**_message):
        raise ZeroDivisionError

    with pytest.raises(DeliveryError, match="could not deliver"):
        await AppriseNotifier(broken).notify("title", "text", "info")
