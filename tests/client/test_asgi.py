"""The ASGI middleware: judges a service's requests, and changes nothing else about them."""

import asyncio
import json
import logging
import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap import Guard
from looptrap.asgi import LoopMiddleware
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy, Selector
from looptrap.policy.rate import Rate
from looptrap.policy.rule import Rule

GONE = {"type": "http.disconnect"}


class Service:
    """An application that keeps what it got and answers in two pieces."""

    def __init__(self):
        self.bodies = []
        self.messages = []
        self.scopes = []

    async def __call__(self, scope, receive, send):
        self.scopes.append(scope)
        if scope["type"] != "http":
            return
        body, has_more = b"", True
        while has_more:
            message = await receive()
            self.messages.append(message)
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        self.bodies.append(body)
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": b"do", "more_body": True})
        await send({"type": "http.response.body", "body": b"ne"})
        self.messages.append(await receive())


class Answer:
    """What a client got."""

    def __init__(self, sent):
        start = sent[0]
        self.status = start["status"]
        self.headers = dict(start["headers"])
        self.body = b"".join(message.get("body", b"") for message in sent[1:])

    @property
    def verdict(self):
        return self.headers.get(b"x-looptrap-verdict")


def pieces(body, size=None):
    """Return the messages in which a body arrives."""
    size = size or max(len(body), 1)
    parts = [body[start : start + size] for start in range(0, len(body), size)] or [b""]
    return [
        {"type": "http.request", "body": part, "more_body": number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]


async def ask(app, body=b"{}", *, method="POST", path="/orders", headers=(), client="10.0.0.1",
              arriving=None):  # fmt: skip
    """Send one request; None where nothing came back."""
    waiting = [*(pieces(body) if arriving is None else arriving), GONE]
    sent = []

    async def receive():
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "client": (client, 1),
        "headers": [(name.encode(), value.encode()) for name, value in dict(headers).items()],
    }  # fmt: skip
    await app(scope, receive, send)
    return Answer(sent) if sent else None


async def verdicts(app, times, *args, **options):
    return [(await ask(app, *args, **options)).verdict for _ in range(times)]


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def app(service):
    return LoopMiddleware(service)


def guard_with(ladder, *, mode="enforce", watch="request", select=None, **settings):
    rule = Rule(name="r", watch=watch, ladder=Ladder(ladder), **settings)
    return Guard([Policy(name="p", mode=mode, select=select or Selector(), rules=(rule,))])


class TestByDefault:
    async def test_the_sixth_equal_request_is_refused_and_the_service_never_sees_it(
        self, app, service
    ):
        assert await verdicts(app, 6, b'{"item": 5}') == (
            [b"allow"] * 3 + [b"warn"] * 2 + [b"block"]
        )
        assert service.bodies == [b'{"item": 5}'] * 5

    async def test_a_refusal_is_the_gateways(self, app):
        await verdicts(app, 5)
        answer = await ask(app, headers={"x-request-id": "r-1"})
        assert answer.status == 429
        assert answer.headers[b"x-should-retry"] == b"false"
        assert answer.headers[b"retry-after"] == b"30"
        assert answer.headers[b"x-looptrap-rule"] == b"same-request"
        assert answer.headers[b"x-looptrap-reason"] == b"loop_detected"
        assert answer.headers[b"x-request-id"] == b"r-1"
        assert int(answer.headers[b"content-length"]) == len(answer.body)
        told = json.loads(answer.body)
        assert told["error"]["code"] == "recursive_loop_detected"
        assert told["error"]["message"].startswith("Blocked (recursive_loop_detected): ")
        assert told["detail"]["hit_count"] == 6
        assert all(name == name.lower() for name in answer.headers)

    async def test_what_is_allowed_passes_as_it_came_and_goes_as_it_left(self, app, service):
        answer = await ask(app, b'{"item": 5}')
        assert (answer.status, answer.body) == (201, b"done")
        assert answer.headers[b"content-type"] == b"text/plain"
        assert service.messages == [*pieces(b'{"item": 5}'), GONE]

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param({"body": b'{"item": 6}'}, id="another body"),
            pytest.param({"path": "/refunds"}, id="another path"),
            pytest.param({"method": "PUT"}, id="another method"),
            pytest.param({"client": "10.0.0.2"}, id="another address"),
            pytest.param({"headers": {"authorization": "Bearer b"}}, id="another credential"),
            pytest.param({"headers": {"x-looptrap-session": "s-2"}}, id="another session"),
        ],
    )
    async def test_what_differs_is_counted_apart(self, app, other):
        await verdicts(app, 5)
        assert (await ask(app, **{"body": b"{}", **other})).verdict == b"allow"

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
    async def test_reads_may_repeat(self, service, app, method):
        said = await verdicts(app, 30, b"", method=method)
        assert set(said) == ({None} if method == "OPTIONS" else {b"allow"})

    async def test_the_order_of_keys_does_not_count(self, app):
        for _ in range(3):
            await ask(app, b'{"a": 1, "b": 2}')
        assert (await ask(app, b'{"b":2,"a":1}')).verdict == b"warn"

    async def test_one_credential_is_one_caller_wherever_it_comes_from(self, app):
        key = {"x-api-key": "sk-very-secret"}
        for number in range(5):
            await ask(app, headers=key, client=f"10.0.0.{number}")
        assert (await ask(app, headers=key)).verdict == b"block"

    async def test_one_bearer_token_is_one_caller_however_it_is_written(self, app):
        for scheme in ("Bearer ", "bearer ", "BEARER ", "Bearer  ", "bEARER   "):
            await ask(app, headers={"authorization": f"{scheme}sk-very-secret"})
        headers = {"authorization": "Bearer sk-very-secret"}
        assert (await ask(app, headers=headers)).verdict == b"block"

    async def test_a_credential_is_kept_as_a_digest_only(self, app):
        seen = []
        plan = app.guard.plan
        app.guard.plan = lambda call, *rest, **named: (
            seen.append(call) or plan(call, *rest, **named)
        )
        await ask(app, headers={"authorization": "Bearer sk-very-secret"})
        assert seen[0].request.caller.startswith("cred:")
        assert "secret" not in seen[0].request.caller


RPC = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def rpc(method, number, **params):
    asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return json.dumps(asked).encode()


class TestMcp:
    async def test_equal_tool_calls_are_warned_about_and_refused_late(self, app):
        said = []
        for number in range(20):
            body = rpc("tools/call", number, name="search", arguments={"q": "pump"})
            said.append(await ask(app, body, path="/mcp", headers=RPC))
        assert [one.verdict for one in said] == [b"allow"] * 5 + [b"warn"] * 14 + [b"block"]
        assert said[-1].status == 200
        told = json.loads(said[-1].body)
        assert (told["id"], told["error"]["code"]) == (19, -32029)
        assert told["error"]["data"]["rule"] == "same-tool-call"

    async def test_sessions_are_counted_apart(self, app):
        body = rpc("tools/call", 1, name="search", arguments={})
        for session in range(9):
            headers = {**RPC, "mcp-session-id": f"s-{session}"}
            assert await verdicts(app, 5, body, path="/mcp", headers=headers) == [b"allow"] * 5

    @pytest.mark.parametrize(
        "method", ["initialize", "ping", "tools/list", "notifications/initialized", "tools/call"]
    )
    async def test_that_every_session_begins_alike_is_no_loop(self, app, method):
        said = []
        for session in range(30):
            headers = {**RPC, "mcp-session-id": f"s-{session}"}
            said.append(await ask(app, rpc(method, 0, name="search"), path="/mcp", headers=headers))
        assert {one.verdict for one in said} == {b"allow"}

    async def test_that_sessions_end_alike_is_no_loop(self, app):
        headers = {"mcp-session-id": "s-1"}
        said = await verdicts(app, 9, b"", method="DELETE", path="/mcp", headers=headers)
        assert set(said) == {b"allow"}

    async def test_other_json_rpc_is_a_request_like_any_other(self, app):
        said = await verdicts(app, 6, rpc("eth_call", 1), headers={"accept": "application/json"})
        assert said[-1] == b"block"


class TestBodies:
    async def test_come_to_the_service_in_the_pieces_in_which_they_came(self, app, service):
        arriving = pieces(b"a" * 1_000, 300)
        await ask(app, arriving=list(arriving))
        assert service.messages == [*arriving, GONE]

    async def test_larger_ones_pass_unlooked_at(self, service):
        app = LoopMiddleware(service, max_body=100)
        said = [await ask(app, arriving=pieces(b"a" * 1_000, 60)) for _ in range(8)]
        assert {one.verdict for one in said} == {b"allow"}
        assert service.bodies == [b"a" * 1_000] * 8

    async def test_of_one_that_says_it_is_larger_nothing_is_read_before_the_service_does(self):
        read = []

        async def service(scope, receive, send):
            read.append("asked")
            while (await receive())["more_body"]:
                pass
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body"})

        arriving = pieces(b"a" * 1_000, 500)

        async def receive():
            read.append("received")
            return arriving.pop(0)

        async def send(message):
            pass

        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"",
                 "headers": [(b"content-length", b"1000")], "client": None}  # fmt: skip
        await LoopMiddleware(service, max_body=100)(scope, receive, send)
        assert read == ["asked", "received", "received"]

    async def test_rules_that_need_no_body_judge_larger_ones_too(self, service):
        rate = Rate(name="few", rps=0.001, burst=2)
        guard = Guard([Policy(name="p", rates=(rate,))])
        app = LoopMiddleware(service, guard, max_body=10)
        said = [await ask(app, b"a" * 1_000) for _ in range(3)]
        assert [one.status for one in said] == [201, 201, 429]
        assert said[0].headers[b"ratelimit-remaining"] == b"1"

    async def test_a_client_that_goes_away_meanwhile_is_the_services_to_handle(self, app, service):
        arriving = [*pieces(b"a" * 10, 5)[:1], GONE]
        for _ in range(9):
            assert await ask(app, arriving=list(arriving)) is None
        assert service.messages[:2] == arriving

    async def test_a_client_that_goes_away_later_is_told_of(self, app, service):
        await ask(app)
        assert service.messages[-1] == GONE

    @given(st.lists(st.binary(max_size=40), min_size=1, max_size=8))
    def test_no_byte_is_altered(self, parts):
        service = Service()
        arriving = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, 1)
        ]
        asyncio.run(ask(LoopMiddleware(service, max_body=60), arriving=list(arriving)))
        assert service.messages == [*arriving, GONE]


class TestWhatIsNoRequest:
    @pytest.mark.parametrize("kind", ["lifespan", "websocket"])
    async def test_is_handed_on_untouched(self, app, service, kind):
        scope, receive, send = {"type": kind}, object(), object()
        await app(scope, receive, send)
        assert service.scopes == [scope]
        assert service.scopes[0] is scope


class TestRules:
    async def test_shadow_tells_and_lets_pass(self, service):
        app = LoopMiddleware(service, guard_with({Action.BLOCK: 2}, mode="shadow"))
        await ask(app)
        answer = await ask(app)
        assert (answer.status, answer.verdict) == (201, b"allow")
        assert answer.headers[b"x-looptrap-shadow"] == b"block"

    async def test_a_throttled_request_is_held_back(self, service, monkeypatch):
        slept = []

        async def sleep(seconds):
            slept.append(seconds)

        monkeypatch.setattr("looptrap.asgi.asyncio.sleep", sleep)
        app = LoopMiddleware(service, guard_with({Action.THROTTLE: 2}))
        await ask(app)
        answer = await ask(app)
        assert slept == [pytest.approx(0.2)]
        assert (answer.status, answer.headers[b"x-looptrap-delay-ms"]) == (201, b"200")

    async def test_when_too_many_are_held_back_one_more_is_refused(self, service, monkeypatch):
        monkeypatch.setattr("looptrap.asgi.MAX_DELAYED_REQUESTS", 0)
        app = LoopMiddleware(service, guard_with({Action.THROTTLE: 2}))
        await ask(app)
        assert (await ask(app)).status == 429

    async def test_reads_count_where_a_policy_selects_them(self, service):
        guard = guard_with({Action.BLOCK: 3}, select=Selector(methods=("GET",)))
        app = LoopMiddleware(service, guard)
        said = [await ask(app, b"", method="GET") for _ in range(3)]
        assert [one.status for one in said] == [201, 201, 429]

    async def test_a_service_that_speaks_a_dialect_is_answered_in_it(self, service):
        app = LoopMiddleware(service, guard_with({Action.STOP: 2}, watch="conversation"))
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
        await ask(app, body, path="/v1/chat/completions")
        answer = await ask(app, body, path="/v1/chat/completions")
        assert (answer.status, answer.verdict) == (200, b"stop")
        said = json.loads(answer.body)["choices"][0]["message"]["content"]
        assert said.startswith("Looptrap ended this run")

    async def test_a_preset_by_its_name(self, service):
        app = LoopMiddleware(service, preset="fairvisor")
        assert [(await ask(app)).status for _ in range(4)] == [201, 201, 201, 429]

    async def test_a_configuration_file(self, service, tmp_path):
        file = tmp_path / "looptrap.toml"
        file.write_text('preset = "fairvisor"\nblock_status = 403\nsession_headers = ["X-Run"]\n')
        app = LoopMiddleware(service, config=file)
        assert [(await ask(app)).status for _ in range(4)] == [201, 201, 201, 403]

    async def test_a_status_of_ones_own(self, service):
        app = LoopMiddleware(service, preset="fairvisor", block_status=422)
        assert [(await ask(app)).status for _ in range(4)][-1] == 422

    async def test_ones_own_way_to_tell_callers_apart(self, service):
        def tenant(scope):
            return dict(scope["headers"]).get(b"x-tenant", b"").decode()

        app = LoopMiddleware(service, preset="fairvisor", caller=tenant)
        for number in range(9):
            assert (await ask(app, headers={"x-tenant": f"t-{number}"})).status == 201
        said = [await ask(app, headers={"x-tenant": "t-1"}) for _ in range(3)]
        assert said[-1].status == 429

    def test_two_places_for_rules_are_one_too_many(self, service):
        with pytest.raises(TypeError, match="one of guard, preset and config"):
            LoopMiddleware(service, Guard.from_preset("default"), preset="tcc")


class TestFailingOpen:
    async def test_an_error_of_our_own_lets_the_request_pass_and_is_logged(
        self, app, service, caplog
    ):
        app.guard.plan = None
        for _ in range(9):
            assert (await ask(app, b"{}")).status == 201
        assert service.bodies == [b"{}"] * 9
        assert caplog.records[0].levelno == logging.ERROR

    async def test_an_error_of_the_service_is_the_services(self):
        async def broken(scope, receive, send):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await ask(LoopMiddleware(broken))

    async def test_what_was_decided_is_counted(self, app):
        await verdicts(app, 6)
        assert app.guard.tally.verdicts == {Action.ALLOW: 3, Action.WARN: 2, Action.BLOCK: 1}
        assert app.guard.tally.statuses == {201: 5}


async def test_the_example_is_a_service_behind_the_middleware():
    example = Path(__file__).parents[2] / "examples" / "asgi_service.py"
    app = runpy.run_path(str(example))["app"]
    said = [await ask(app, b'{"part": 5}') for _ in range(6)]
    assert [one.status for one in said] == [201] * 5 + [429]
