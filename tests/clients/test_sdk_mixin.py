"""Our clients of a gateway: refusals are both vendors' and our exceptions, sessions are named."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai
import pytest
from tests.client.vendors import EVERY_WAY, ONE_OF_EACH, STREAMS, WAY, close, refusal

import looptrap
from looptrap.dialect.model import Request
from looptrap.testing import Reply

HEADER = "x-looptrap-session"


@pytest.fixture
async def connect():
    """Return a function that makes a door's client of a gateway."""
    clients = []

    def make(way, gateway, **options):
        url = way.base_url(gateway.url)
        clients.append(way.door(base_url=url, **{"api_key": "sk-test", **options}))
        return clients[-1]

    yield make
    for client in clients:
        await close(client)


@EVERY_WAY
async def test_the_sixth_equal_call_raises_what_both_families_catch(
    way, gateway, provider, connect
):
    client = connect(way, gateway)
    for _ in range(5):
        assert await way.ask(client) == "All done."
    before = gateway.app.server.requests
    error = await refusal(way, client)
    assert gateway.app.server.requests - before == 1  # the SDK did not retry
    assert provider.calls == 5
    assert isinstance(error, looptrap.LoopDetectedError)
    assert isinstance(error, way.vendor.RateLimitError)
    assert (error.hit_count, error.cooldown_seconds) == (6, 30)
    assert error.rule == "identical-conversation"
    assert error.fingerprint
    assert [one.signal for one in error.evidence] == ["conversation"]
    assert "sent 6 times in a row" in error.message
    assert str(error) == error.message
    assert error.status_code == error.response.status_code == 429
    assert error.request_id == error.response.headers["x-request-id"]
    assert "sent 6 times" in str(error.body)
    if way.vendor is openai:
        assert (error.code, error.type) == ("recursive_loop_detected", "loop_detected")
    else:
        assert (error.error_code, error.type) == ("recursive_loop_detected", "rate_limit_error")


@ONE_OF_EACH
async def test_a_refusal_survives_a_pickle(way, gateway, connect):
    client = connect(way, gateway)
    for _ in range(5):
        await way.ask(client)
    error = await refusal(way, client)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.message, again.hit_count, again.evidence) == (
        error.message,
        6,
        error.evidence,
    )
    assert again.status_code == 429
    assert again.body == error.body


RULE = """
block_status = {status}
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = 2
"""


@ONE_OF_EACH
@pytest.mark.parametrize("status", [400, 422])
async def test_whatever_its_status_it_is_the_rate_limit_error(way, status, serve, connect):
    client = connect(way, serve(RULE.format(status=status)))
    await way.ask(client)
    error = await refusal(way, client)
    assert isinstance(error, way.vendor.RateLimitError)
    assert error.status_code == status


BUDGET = """
[[budgets]]
name = "a-cent"
by = ["caller"]
limit_usd = 0.0001
"""


@EVERY_WAY
async def test_a_spent_budget_raises_its_own_error(way, serve, provider, connect):
    error = await refusal(way, connect(way, serve(BUDGET)))
    assert isinstance(error, looptrap.BudgetExceededError)
    assert isinstance(error, way.vendor.APIStatusError)
    assert not isinstance(error, way.vendor.RateLimitError)
    assert error.status_code == 402
    assert error.budget == "a-cent"
    assert error.percent >= 0
    assert error.fingerprint
    assert provider.calls == 0


RATE = """
[[policies]]
name = "p"
  [[policies.rates]]
  name = "slowly"
  rps = 0.001
  burst = 1
"""


@ONE_OF_EACH
async def test_a_rate_that_stays_exceeded_raises_its_own_error(way, serve, connect):
    client = connect(way, serve(RATE), max_retries=0)
    await way.ask(client, "One.")
    error = await refusal(way, client, text="Two.")
    assert isinstance(error, looptrap.RateLimitedError)
    assert isinstance(error, way.vendor.RateLimitError)
    assert error.rate == "slowly"
    assert error.retry_after > 0


KILL = """
[[kill_switches]]
match = { session = "rogue" }
reason = "credential leaked"
"""


@ONE_OF_EACH
async def test_a_kill_switch_raises_its_own_error(way, serve, connect):
    gateway = serve(KILL)
    assert await way.ask(connect(way, gateway, session="honest"))
    error = await refusal(way, connect(way, gateway, session="rogue"))
    assert isinstance(error, looptrap.KilledError)
    assert isinstance(error, way.vendor.PermissionDeniedError)
    assert error.status_code == 403
    assert "credential leaked" in error.message


CHANT = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "chanting"
  watch = "chant"
  threshold = 6
  action = "block"
"""


@STREAMS
async def test_a_block_amid_a_stream_is_ours_too(way, serve, provider, connect):
    provider._script = [Reply.text("I cannot find that file. Let me try once more. " * 2_000)]
    error = await refusal(way, connect(way, serve(CHANT)))
    assert isinstance(error, looptrap.LoopDetectedError)
    assert isinstance(error, way.vendor.RateLimitError)
    assert error.rule == "chanting"
    assert error.evidence[0].signal == "chant"
    assert error.hit_count >= 6
    assert error.status_code == 200  # the answer had begun


@ONE_OF_EACH
async def test_errors_of_the_provider_stay_its_own(way, gateway, provider, connect):
    provider._script = [Reply.status(429, {"error": {"message": "Slow down.", "type": "x"}})]
    client = connect(way, gateway, max_retries=0)
    with pytest.raises(way.vendor.RateLimitError) as caught:
        await way.ask(client)
    assert not isinstance(caught.value, looptrap.LooptrapError)


@ONE_OF_EACH
async def test_the_session_of_the_call_comes_before_the_block_and_that_before_the_client(
    way, gateway, connect, monkeypatch
):
    client = connect(way, gateway, session="of-the-client")
    seen = []

    def spy(*values, **named):
        made = Request(*values, **named)
        seen.append(made.session)
        return made

    monkeypatch.setattr("looptrap.gateway.handler.Request", spy)
    await way.ask(client, "1")
    with looptrap.session("outer"):
        await way.ask(client, "2")
        with looptrap.session("inner"):
            await way.ask(client, "3")
            await way.ask(client, "4", extra_headers={HEADER: "of-the-call"})
            await way.ask(client, "5", extra_headers={"x-session-id": "also-of-the-call"})
        await way.ask(client.with_options(timeout=9), "6")
    await way.ask(client.with_options(timeout=9), "7")
    await way.ask(client.copy(session="another"), "8")
    other = client.with_options(default_headers={HEADER: "as-always"})
    await way.ask(other, "9")
    with looptrap.session("outer"):
        await way.ask(other, "10")
    assert seen == [
        "of-the-client", "outer", "inner", "of-the-call", "also-of-the-call", "outer",
        "of-the-client", "another", "as-always", "outer",
    ]  # fmt: skip


@ONE_OF_EACH
async def test_copies_raise_our_exceptions_too(way, gateway, connect):
    client = connect(way, gateway)
    for _ in range(5):
        await way.ask(client.with_options(max_retries=5))
    assert isinstance(await refusal(way, client.copy()), looptrap.LoopDetectedError)


def test_calls_of_a_pool_are_of_the_session_they_are_submitted_in(serve, connect):
    way = WAY["chat"]
    gateway = serve(KILL)
    client = connect(way, gateway)

    def ask():
        return way.make(client, "Again?").choices[0].message.content

    with ThreadPoolExecutor(1) as pool:
        with looptrap.session("rogue"), pytest.raises(looptrap.KilledError):
            pool.submit(ask).result()
        assert pool.submit(ask).result() == "All done."


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        pytest.param({}, "http://127.0.0.1:4100", id="the gateway of this machine"),
        pytest.param({"VENDOR": "http://v"}, "http://v", id="the vendor's variable"),
        pytest.param({"LOOPTRAP_URL": "http://l/", "VENDOR": "http://v"}, "http://l", id="ours"),
        pytest.param({"LOOPTRAP_URL": "http://l/v1"}, "http://l", id="ours, with the version"),
    ],
)
@ONE_OF_EACH
async def test_the_address_is_filled_in(way, env, expected, monkeypatch):
    variable = "OPENAI_BASE_URL" if way.vendor is openai else "ANTHROPIC_BASE_URL"
    for name in ("LOOPTRAP_URL", variable):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        is_vendors = name == "VENDOR"
        monkeypatch.setenv(
            variable if is_vendors else name, way.base_url(value) if is_vendors else value
        )
    client = way.door(api_key="k")
    assert str(client.base_url).rstrip("/") == way.base_url(expected)
    given = way.door(api_key="k", base_url="http://given")
    assert str(given.copy().base_url).rstrip("/") == "http://given"
    await close(client)
    await close(given)


@pytest.mark.parametrize("name", ["run\r\nX-Evil: 1", " run", "läuft", "run\x00"])
@ONE_OF_EACH
def test_a_session_that_no_header_can_carry_is_refused_at_once(way, name):
    with pytest.raises(ValueError, match="printable ASCII"):
        way.door(api_key="k", session=name)
    with pytest.raises(ValueError, match="printable ASCII"):
        looptrap.session(name)


def test_copies_keep_the_credentials_of_a_provider(gateway, connect, provider):
    # The SDK itself hands them on to copies of its own classes only.
    way = WAY["messages"]
    minted = []

    def credentials(*, force_refresh=False):
        minted.append(1)
        return anthropic.AccessToken(token="tok-1")

    client = connect(way, gateway, api_key=None, credentials=credentials)
    way.make(client, "1")
    way.make(client.with_options(timeout=9), "2")
    assert {one.headers["authorization"] for one in provider.requests} == {"Bearer tok-1"}
    assert len(minted) == 1


@pytest.mark.parametrize("package", ["openai", "anthropic"])
def test_a_door_without_its_package_says_what_to_install(package):
    script = f"""
import sys
sys.modules["openai"] = sys.modules["anthropic"] = None
import looptrap
looptrap.guard, looptrap.session, looptrap.Guard
try:
    import looptrap.{package}
except ImportError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == (
        f"looptrap.{package} needs the package {package}: pip install {package}"
    )
