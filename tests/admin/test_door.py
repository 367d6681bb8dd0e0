"""The door of the admin address: tokens, names, pages of other sites, and what answers carry."""

import asyncio
import logging

import pytest
from tests.admin.operating import operating, told

from looptrap.admin import auth
from looptrap.admin.auth import AdminAuth, GuessLimiter, token_access
from looptrap.admin.server import AdminServer
from looptrap.config import load
from looptrap.config.kind import Address
from looptrap.errors import ConfigError

ALL = {"Authorization": "Bearer t0ken"}
READ = {"Authorization": "Bearer r3ader"}

WRITES = [
    ("POST", "/api/v1/release"),
    ("POST", "/api/v1/kill-switches"),
    ("DELETE", "/api/v1/kill-switches/1"),
    ("PUT", "/api/v1/projects/research"),
    ("DELETE", "/api/v1/projects/research"),
    ("POST", "/api/v1/cooldowns"),
    ("POST", "/api/v1/alerts/test"),
    ("PUT", "/api/v1/tools/poll"),
    ("POST", "/api/v1/nowhere"),
]


@pytest.fixture
async def operator(tmp_path):
    async with operating(tmp_path) as (_, operator):
        yield operator


@pytest.fixture
async def guarded(tmp_path):
    async with operating(tmp_path, token="t0ken", read_token="r3ader") as (_, operator):
        yield operator


@pytest.mark.parametrize(
    ("headers", "can_write"),
    [pytest.param(ALL, True, id="the first token"), pytest.param(READ, False, id="the second")],
)
async def test_both_tokens_see_everything_and_know_what_they_may_do(guarded, headers, can_write):
    status = await told(guarded, "GET", "/api/v1/status", headers=headers)
    assert status["can_write"] is can_write
    for path in ("/api/v1/incidents", "/api/v1/config", "/api/v1/keys"):
        await told(guarded, "GET", path, headers=headers)
    async with guarded.get("/metrics", headers=headers) as answer:
        assert answer.status == 200


async def test_without_tokens_everybody_on_this_machine_may_write(operator):
    assert (await told(operator, "GET", "/api/v1/status"))["can_write"] is True


@pytest.mark.parametrize(("method", "path"), WRITES, ids=lambda value: value)
async def test_the_read_token_changes_nothing(guarded, method, path):
    found = await told(guarded, method, path, headers=READ, json={}, status=403)
    assert found["error"]["code"] == "read_only"


@pytest.mark.parametrize(
    ("path", "sent", "status"),
    [
        ("/api/v1/try", {"text": "no conversation"}, 400),
        ("/api/v1/what-if", {"settings": {"scale": 2}}, 409),
    ],
)
async def test_the_read_token_may_ask_what_is_too_long_for_a_url(guarded, path, sent, status):
    found = await told(guarded, "POST", path, headers=READ, json=sent, status=status)
    assert found["error"]["code"] in ("unreadable", "no_capture")


@pytest.mark.parametrize(
    "authorization",
    [
        pytest.param("Bearer wrong", id="a wrong one"),
        pytest.param("Bearer", id="no token at all"),
        pytest.param("t0ken", id="no scheme"),
        pytest.param("Basic t0ken", id="another scheme"),
        pytest.param("Bearer t0kenr3ader", id="both in a row"),
    ],
)
async def test_what_is_no_token_opens_nothing(guarded, authorization):
    headers = {"Authorization": authorization}
    async with guarded.get("/api/v1/status", headers=headers) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert (await answer.json())["error"]["code"] == "missing_token"


async def test_the_name_of_the_scheme_may_be_in_any_case(guarded):
    await told(guarded, "GET", "/api/v1/status", headers={"Authorization": "bearer t0ken"})


async def test_an_empty_second_token_is_none(tmp_path):
    async with operating(tmp_path, token="t0ken") as (_, operator):
        for authorization in ("Bearer ", "Bearer"):
            headers = {"Authorization": authorization}
            await told(operator, "GET", "/api/v1/status", headers=headers, status=401)


def test_a_second_token_that_is_the_first_is_refused():
    with pytest.raises(ConfigError, match=r"gateway\.read_token_env: its token is that of"):
        AdminAuth("127.0.0.1", token_access("same", "same"))


def test_a_second_token_needs_a_first(tmp_path):
    with pytest.raises(ConfigError, match=r"gateway\.read_token_env: is a second token"):
        load(None, env={"LOOPTRAP_READ_TOKEN_ENV": "READER"})
    both = {"LOOPTRAP_READ_TOKEN_ENV": "READER", "LOOPTRAP_ADMIN_TOKEN_ENV": "WRITER"}
    assert load(None, env=both).gateway.read_token_env == "READER"


@pytest.mark.parametrize(
    ("headers", "is_let_in"),
    [
        pytest.param({}, True, id="no browser"),
        pytest.param({"Sec-Fetch-Site": "same-origin"}, True, id="our page"),
        pytest.param({"Sec-Fetch-Site": "none"}, True, id="a person"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, False, id="another site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, False, id="another port of this machine"),
        pytest.param({"Origin": "http://{host}"}, True, id="our origin"),
        pytest.param({"Origin": "https://{host}"}, True, id="ours, behind a proxy with TLS"),
        pytest.param({"Origin": "http://evil.example"}, False, id="another origin"),
        pytest.param({"Origin": "http://{host}.evil.example"}, False, id="one that begins like us"),
        pytest.param({"Origin": "http://127.0.0.1:1"}, False, id="another port"),
        pytest.param({"Origin": "null"}, False, id="a sandboxed frame"),
        pytest.param(
            {"Sec-Fetch-Site": "cross-site", "Origin": "http://{host}"}, False, id="both, at odds"
        ),
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/v1/release"), ("DELETE", "/api/v1/projects/x")]
)
async def test_a_page_of_another_site_changes_nothing(operator, method, path, headers, is_let_in):
    host = f"127.0.0.1:{operator._base_url.port}"
    headers = {name: value.replace("{host}", host) for name, value in headers.items()}
    async with operator.request(method, path, headers=headers, json={}) as answer:
        code = (await answer.json()).get("error", {}).get("code")
        assert (code != "cross_site") is is_let_in
        assert (answer.status != 403) is is_let_in


async def test_a_link_on_another_site_may_lead_here(operator):
    async with operator.get("/", headers={"Sec-Fetch-Site": "cross-site"}) as answer:
        assert answer.status == 200


async def test_not_even_a_token_lets_a_page_of_another_site_write(guarded):
    headers = {**ALL, "Sec-Fetch-Site": "cross-site"}
    found = await told(guarded, "POST", "/api/v1/release", headers=headers, json={}, status=403)
    assert found["error"]["code"] == "cross_site"


@pytest.mark.parametrize("port", ["4101", "9999", "80"])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
async def test_names_of_this_machine_are_good_at_any_port(operator, name, port):
    headers = {"Host": f"{name}:{port}"}
    async with operator.get("/api/v1/status", headers=headers) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("host", ["rebound.example:4101", "rebound.example", "[::2]:80"])
@pytest.mark.parametrize("path", ["/", "/api/v1/status", "/api/v1/events", "/metrics"])
async def test_a_foreign_name_opens_nothing_whatever_the_port(operator, host, path):
    async with operator.get(path, headers={"Host": host}) as answer:
        assert answer.status == 403
        assert (await answer.json())["error"]["code"] == "foreign_host"


@pytest.mark.parametrize(
    "path",
    [
        "/livez", "/metrics", "/api/v1/status", "/api/v1/nowhere", "/api/v1/stats?step=7",
        "/", "/ui/nothing.js",
    ],
)  # fmt: skip
async def test_answers_are_not_run_framed_sniffed_or_lent_to_other_pages(operator, path):
    async with operator.get(path) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Cache-Control" in answer.headers
        assert not [name for name in answer.headers if name.startswith("Access-Control")]
        assert "Set-Cookie" not in answer.headers


async def test_what_refuses_carries_the_same_headers(guarded):
    async with guarded.get("/api/v1/status") as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (401, "no-store")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nowhere", 404, "not_found"),
        ("GET", "/nowhere", 404, "not_found"),
        ("PATCH", "/api/v1/status", 405, "wrong_method"),
        ("OPTIONS", "/api/v1/release", 405, "wrong_method"),
    ],
)
async def test_what_is_not_there_is_said_in_json(operator, method, path, status, code):
    found = await told(operator, method, path, status=status)
    assert found["error"]["code"] == code


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/alerts"),
        ("GET", "/api/v1/projects"),
        ("GET", "/api/v1/kill-switches"),
        ("GET", "/api/v1/incidents/inc_1"),
        ("POST", "/api/v1/release"),
    ],
)
async def test_what_cannot_be_asked_there_is_a_mistake(operator, method, path):
    sent = {"params": {"verbose": "1"}, **({"json": {}} if method == "POST" else {})}
    found = await told(operator, method, path, status=400, **sent)
    assert [one["place"] for one in found["error"]["problems"]] == ["verbose"]


@pytest.mark.parametrize("path", ["/", "/metrics", "/readyz"])
async def test_elsewhere_what_is_asked_more_is_left_alone(operator, path):
    async with operator.get(path, params={"verbose": "1"}) as answer:
        assert answer.status == 200


async def test_off_loopback_a_read_token_alone_is_not_enough(tmp_path):
    async with operating(tmp_path) as (here, _):
        with pytest.raises(ConfigError, match="admin_token_env"):
            AdminServer(here.app, Address("0.0.0.0", 0), token_access("", "r3ader"))


@pytest.mark.parametrize(
    ("token", "read_token", "place"),
    [("x", "", "admin_token_env"), ("x" * 15, "", "admin_token_env"), ("x" * 16, "y", "read_tok")],
    ids=["one character", "fifteen", "a short second one"],
)
def test_a_token_that_can_be_guessed_is_refused_where_others_reach_it(token, read_token, place):
    for host in ("0.0.0.0", "192.0.2.7", "gateway.example"):
        with pytest.raises(ConfigError, match=rf"gateway\.{place}.*must have 16 or more") as caught:
            AdminAuth(host, token_access(token, read_token))
        assert "xx" not in str(caught.value)
    AdminAuth("127.0.0.1", token_access(token, read_token))
    AdminAuth("0.0.0.0", token_access("x" * 16, "y" * 16))


class Guessing:
    """Wrong tokens on a clock that the test turns; notes the waits in place of waiting."""

    def __init__(self, *, is_stuck=False):
        self.now = 1000.0
        self.waits = []
        self.is_stuck = is_stuck
        self.limiter = GuessLimiter(lambda: self.now, self.sleep)

    async def sleep(self, seconds):
        self.waits.append(seconds)
        if self.is_stuck:
            await asyncio.Event().wait()

    async def guess(self, times, address="192.0.2.7"):
        return [await self.limiter.delay(address) for _ in range(times)]


async def test_wrong_tokens_wait_longer_and_longer():
    here = Guessing()
    assert await here.guess(10) == [True] * 10
    assert here.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]


async def test_guesses_of_one_address_do_not_slow_another_down():
    here = Guessing()
    await here.guess(50)
    here.waits.clear()
    await here.guess(3, "192.0.2.8")
    assert here.waits == []


async def test_guesses_from_everywhere_wait_as_well():
    here = Guessing()
    for i in range(auth.FREE_GUESSES_TOTAL + 1):
        await here.guess(1, f"2001:db8::{i:x}")
    assert here.waits == [0.25]


async def test_guesses_are_forgotten():
    here = Guessing()
    await here.guess(3)
    here.now += auth.RESET_AFTER_S + 1
    await here.guess(3)
    assert here.waits == []


async def test_what_is_remembered_and_held_back_is_bounded():
    here = Guessing(is_stuck=True)
    tasks = []
    for i in range(auth.MAX_ADDRESSES + 10):
        tasks.append(asyncio.ensure_future(here.guess(1, f"a{i}")))
        await asyncio.sleep(0)
    assert len(here.limiter._by_address) == auth.MAX_ADDRESSES
    assert len(here.waits) == auth.MAX_DELAYED
    refused = tasks[auth.FREE_GUESSES_TOTAL + auth.MAX_DELAYED :]
    assert [task.result() for task in refused] == [[False]] * len(refused)
    for task in tasks:
        task.cancel()


async def test_guesses_are_logged_now_and_then_without_the_token(guarded, caplog):
    caplog.set_level(logging.WARNING)
    for _ in range(auth.FREE_GUESSES):
        headers = {"Authorization": "Bearer a-wrong-guess"}
        await told(guarded, "GET", "/api/v1/status", headers=headers, status=401)
    (line,) = [one.getMessage() for one in caplog.records if "wrong token" in one.getMessage()]
    assert "127.0.0.1" in line
    assert "a-wrong-guess" not in caplog.text


async def test_the_right_token_never_waits_and_no_token_is_no_guess(guarded, monkeypatch):
    async def delay(self, address):
        raise AssertionError("held back")

    monkeypatch.setattr(GuessLimiter, "delay", delay)
    await told(guarded, "GET", "/api/v1/status", headers=ALL)
    await told(guarded, "GET", "/api/v1/status", status=401)


async def test_too_many_wrong_tokens_at_once_are_told_so(guarded, monkeypatch):
    async def delay(self, address):
        return False

    monkeypatch.setattr(GuessLimiter, "delay", delay)
    wrong = {"Authorization": "Bearer wrong"}
    found = await told(guarded, "GET", "/api/v1/status", headers=wrong, status=429)
    assert found["error"]["code"] == "too_many_guesses"
    await told(guarded, "GET", "/api/v1/status", headers=ALL)
