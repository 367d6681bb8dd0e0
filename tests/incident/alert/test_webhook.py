"""One delivery over HTTP, on real sockets."""

import asyncio
import ssl
import time

import pytest
from tests.incident.alert.receiving import Receiver, closes, hangs, never_ends, status
from tests.wire.fake_upstream import Authority

from looptrap.incident.alert.webhook import DeliveryError, WebhookClient, WebhookTarget

ALLOWED = {"allow_http": True, "allow_private": True}


def post_to(url: str, **options) -> WebhookClient:
    return WebhookClient(WebhookTarget.of(url, **ALLOWED), clock=time.time, **options)


async def refusal(post: WebhookClient) -> DeliveryError:
    with pytest.raises(DeliveryError) as refused:
        await post.send(b"{}", {"webhook-id": "evt_1"})
    assert "secret" not in refused.value.reason
    return refused.value


async def test_a_body_arrives_with_its_headers(receiver):
    await post_to(receiver.url).send(b'{"a":1}', {"webhook-id": "evt_1"})
    (got,) = receiver.got
    assert (got.path, got.body) == ("/hook/secret-path?token=secret-token", b'{"a":1}')
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-id"] == "evt_1"
    assert got.headers["user-agent"].startswith("Looptrap/")
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"


async def test_a_user_name_and_password_in_the_url_are_sent_as_such(receiver):
    url = receiver.url.replace("http://", "http://me:secret@")
    await post_to(url).send(b"{}", {})
    assert receiver.got[0].headers["authorization"] == "Basic bWU6c2VjcmV0"
    receiver.always = status(500)
    assert "me" not in (await refusal(post_to(url))).reason.split()


@pytest.mark.parametrize(
    ("answer", "reason", "after", "is_final"),
    [
        pytest.param(status(500), "answered 500", None, False, id="a failure"),
        pytest.param(
            status(404, "no_service"), "answered 404 no_service", None, False, id="a word"
        ),
        pytest.param(
            status(404, "Cannot POST /hook/secret-path"), "answered 404", None, False, id="a page"
        ),
        pytest.param(status(410), "answered 410", None, True, id="gone"),
        pytest.param(status(429, Retry_After="17"), "answered 429", 17.0, False, id="too many"),
        pytest.param(status(503, Retry_After="9999999"), "answered 503", 3600.0, False, id="later"),
        pytest.param(status(429, Retry_After="soon"), "answered 429", None, False, id="unclear"),
        pytest.param(status(500, Retry_After="17"), "answered 500", None, False, id="not asked"),
        pytest.param(closes, "closed the connection|connection failed", None, False, id="closed"),
    ],
)
async def test_tells_why_it_did_not_get_through(receiver, answer, reason, after, is_final):
    receiver.always = answer
    error = await refusal(post_to(receiver.url))
    assert error.reason.startswith(f"http://127.0.0.1:{receiver.port}")
    assert any(one in error.reason for one in reason.split("|"))
    assert (error.retry_after, error.is_final) == (after, is_final)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_not_followed(receiver, code):
    receiver.always = status(code, Location="/elsewhere")
    assert "which is not followed" in (await refusal(post_to(receiver.url))).reason
    assert len(receiver.got) == 1


async def test_nobody_is_waited_for_longer_than_the_time_out(receiver):
    receiver.always = hangs
    error = await refusal(post_to(receiver.url, timeout=0.05))
    assert error.reason.endswith("no answer in 0.05 s")


async def test_nobody_listens():
    async with Receiver.running() as gone:
        url = gone.url
    assert "Connection refused" in (await refusal(post_to(url))).reason


async def test_an_answer_without_end_is_read_up_to_the_limit(receiver):
    receiver.always = never_ends
    async with asyncio.timeout(5):
        await post_to(receiver.url).send(b"{}", {})


async def test_an_answer_that_drips_has_arrived_all_the_same(receiver):
    async def drips(request):
        from aiohttp import web

        response = web.StreamResponse(status=202)
        await response.prepare(request)
        await asyncio.Event().wait()
        return response

    receiver.always = drips
    await post_to(receiver.url, timeout=0.05).send(b"{}", {})


async def test_what_is_no_http_is_a_failure():
    async def talk(_reader, writer):
        writer.write(b"220 mail.example ESMTP\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        await refusal(post_to(f"http://127.0.0.1:{port}/secret"))


async def test_proxies_of_the_environment_are_not_used(receiver, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    await post_to(receiver.url).send(b"{}", {})
    assert len(receiver.got) == 1


async def test_a_name_that_changes_its_meaning_meanwhile_changes_nothing(receiver):
    asked = []

    async def lookup(host, _port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with Receiver.running("127.0.0.2", receiver.port) as other:
        post = post_to(f"http://hooks.test:{receiver.port}/x", lookup=lookup)
        await post.send(b"{}", {})
        assert (len(receiver.got), len(other.got)) == (1, 0)
        assert asked == ["hooks.test"]
        assert receiver.got[0].headers["host"] == f"hooks.test:{receiver.port}"
        await post.send(b"{}", {})
        assert (len(receiver.got), len(other.got)) == (1, 1), "looked up anew for every delivery"


async def test_a_name_that_leads_inside_is_not_connected_to(receiver):
    async def lookup(_host, _port):
        return ["127.0.0.1"]

    target = WebhookTarget.of(f"http://hooks.test:{receiver.port}/secret", allow_http=True)
    error = await refusal(WebhookClient(target, clock=time.time, lookup=lookup))
    assert error.reason.endswith(
        "leads to 127.0.0.1, which is not public (allow_private = true lets it)"
    )
    assert receiver.got == []


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.mark.parametrize(
    ("certified", "is_accepted"),
    [("hooks.test", True), ("elsewhere.test", False)],
    ids=["of the name in the URL", "of another name"],
)
async def test_a_certificate_must_be(authority, certified, is_accepted):
    async def lookup(_host, _port):
        return ["127.0.0.1"]

    asked = []
    tls = authority.server(certified)
    tls.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with Receiver.running(tls=tls) as receiver:
        post = post_to(
            f"https://hooks.test:{receiver.port}/secret",
            lookup=lookup,
            tls=ssl.create_default_context(cafile=authority.file),
        )
        if is_accepted:
            await post.send(b"{}", {})
        else:
            assert "certificate not accepted" in (await refusal(post)).reason
        assert asked == ["hooks.test"]
        assert len(receiver.got) == is_accepted
