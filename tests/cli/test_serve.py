"""`looptrap serve` as its users run it: a process with flags, signals and a standard error."""

import asyncio
import json
import re
import signal
import ssl
from contextlib import AsyncExitStack
from socket import socket

import aiohttp
import openai
import pytest
from click.testing import CliRunner
from tests.cli.serving import PATIENCE, run
from tests.gateway.serving import JSON, chat, request
from tests.wire.fake_client import Client
from tests.wire.fake_upstream import Authority

from looptrap import __version__
from looptrap.cli import main
from looptrap.cli.lifecycle import banner
from looptrap.config import load
from looptrap.policy import preset
from looptrap.testing import FakeProvider, Gate, Reply

RULE = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "same"
  watch = "conversation"
  threshold = {threshold}
"""


@pytest.fixture
async def provider():
    async with FakeProvider() as provider:
        yield provider


@pytest.fixture
async def serve(tmp_path, provider):
    """Start a gateway in front of the provider and wait until it serves."""
    async with AsyncExitStack() as stack:

        async def start(*arguments, listen="127.0.0.1:0"):
            flags = ("--listen", listen, "--admin", "127.0.0.1:0", "--upstream", provider.url)
            process = await stack.enter_async_context(run(tmp_path, *flags, *arguments))
            process.url = (await process.hears(r"guards (https?://\S+)"))[1]
            await process.hears("Policies")
            return process

        yield start


async def test_the_banner_says_where_to_point_clients_and_what_is_protected(serve, provider):
    gateway = await serve()
    url = gateway.url
    admin_line = re.search(r"  Dashboard  http://\S+/", gateway.said)[0]
    rules = len(preset.load("default")[0].rules)
    assert gateway.said.splitlines() == [
        f"Looptrap {__version__} guards {url}",
        f"  Clients    OPENAI_BASE_URL={url}/v1 ANTHROPIC_BASE_URL={url}"
        f" GOOGLE_GEMINI_BASE_URL={url}",
        admin_line,
        f"Forwards to {provider.url}. Callers use their own keys. No alerts are sent.",
        f"Policies of preset default: {rules} rules; `looptrap check` lists them.",
    ]
    admin = re.search(r"Dashboard +(http://\S+)/", gateway.said)[1]
    async with aiohttp.ClientSession() as operator, operator.get(f"{admin}/readyz") as answer:
        assert await answer.json() == {"status": "ready"}
    gateway.send(signal.SIGTERM)
    assert await gateway.ended() == (0, "")


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        ("", "Forwards to OpenAI, Anthropic and Gemini, by the path."),
        ('[[routes]]\nprovider = "groq"', "Forwards to groq."),
        (
            '[[routes]]\nselect = { models = ["a"] }\nchain = ["xai", "groq/b"]',
            "Forwards to xai and groq by routes; else to OpenAI, Anthropic and Gemini",
        ),
    ],
    ids=["nothing set", "a route for all", "a route for some"],
)
def test_the_banner_says_where_calls_go(toml, line, tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(toml)
    said = banner(load(file), ("127.0.0.1", 4100), ("127.0.0.1", 4101), asks_for_keys=False)
    assert said.splitlines()[3].startswith(line)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--upstream", "ftp://x"], r"--upstream: .*must be a base URL such as"),
        (["--listen", "4100"], r"--listen: .*must be an address such as"),
        (["--preset", "fast"], r"--preset: .*fast"),
        (["--config", "gone.toml"], r"gone\.toml: "),
        (
            ["--state", "/nowhere/state"],
            r"gateway\.state: /nowhere/state: cannot write there: ",
        ),
        (["--listen", "0.0.0.0:0"], r"gateway\.listen: 0\.0\.0\.0 .*looptrap keys add"),
        (["--capture", "/dev/null/x"], r"gateway\.capture_dir: /dev/null/x: cannot write there"),
        (["--admin", "0.0.0.0:0"], r"gateway\.admin: 0\.0\.0\.0 .*admin_token_env"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_mistaken_flag_is_one_clear_line_and_exit_status_2(fails, flags, line):
    fails(["--listen", "127.0.0.1:0", *flags], line)


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        pytest.param("block_status =", r"looptrap\.toml: ", id="no TOML"),
        pytest.param("block_status = 500", r"block_status: .*429", id="a value"),
        pytest.param(
            "[gateway]\ntls_cert = 'gone.pem'\ntls_key = 'gone.key'",
            r"gateway\.tls_cert: gone\.pem, gone\.key: no such file",
            id="no certificate",
        ),
        pytest.param(
            "[gateway]\ntls_cert = 'looptrap.toml'\ntls_key = 'looptrap.toml'",
            r"gateway\.tls_cert: looptrap\.toml, ",
            id="no certificate in it",
        ),
        pytest.param(
            "[gateway]\nupstream_ca = 'gone.pem'",
            r"gateway\.upstream_ca: gone\.pem: no such file",
            id="no authorities",
        ),
        pytest.param(
            "[gateway]\nadmin_token_env = 'NOWHERE'",
            r"gateway\.admin_token_env: the variable NOWHERE is not set",
            id="no token",
        ),
    ],
)
def test_a_mistaken_file_is_one_clear_line_and_exit_status_2(fails, tmp_path, toml, line):
    (tmp_path / "looptrap.toml").write_text(toml)
    fails(["--config", "looptrap.toml", "--listen", "127.0.0.1:0"], line)


@pytest.fixture
def fails(tmp_path, monkeypatch):
    """Run the command in this process; it must fail with that one line."""
    monkeypatch.chdir(tmp_path)

    def run_here(arguments, line):
        result = CliRunner().invoke(main, ["serve", *arguments])
        assert (result.exit_code, result.stdout) == (2, "")
        assert re.match(line, result.stderr), result.stderr
        assert result.stderr.count("\n") == 1, result.stderr

    return run_here


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
async def test_an_address_in_use_is_one_clear_line_and_exit_status_2(tmp_path, flag):
    other = "--admin" if flag == "--listen" else "--listen"
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with run(tmp_path, flag, address, other, "127.0.0.1:0") as process:
            status, _ = await process.ended()
    assert status == 2
    assert re.fullmatch(
        rf"gateway\.{flag[2:]}: cannot listen at {address}: address already in use: perhaps by"
        rf" another Looptrap \(`ss -ltnp` says by whom\): stop it, or set another {flag}\n",
        process.said,
    ), process.said


async def test_sighup_reads_the_file_again_and_mistakes_change_nothing(serve, tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(RULE.format(threshold=50))
    gateway = await serve("--config", file)

    async def statuses(text):
        return [(await gateway.ask(chat(text))).status for _ in range(2)]

    assert await statuses("a") == [200, 200]
    file.write_text(RULE.format(threshold=2))
    gateway.send(signal.SIGHUP)
    await gateway.hears("the configuration was read again")
    assert await statuses("b") == [200, 429]
    file.write_text(RULE.format(threshold="'many'"))
    gateway.send(signal.SIGHUP)
    await gateway.hears("has mistakes, the old one stays")
    await gateway.hears("many")
    assert await statuses("c") == [200, 429]


async def test_sigterm_lets_an_answer_in_flight_finish(serve, provider):
    gate = Gate()
    provider._script = [Reply.pause(gate, Reply.sse({"n": 1}, {"n": 2}), after_chunks=1)]
    gateway = await serve()
    answer = asyncio.ensure_future(gateway.ask(chat(stream=True)))
    await gate.reached.wait()
    gateway.send(signal.SIGTERM)
    await gateway.hears("stopping: calls in flight have 30 s")
    with pytest.raises((OSError, EOFError)):
        await gateway.ask(chat("another"))
    gate.open()
    assert (await answer).body == b'data: {"n":1}\n\ndata: {"n":2}\n\n'
    assert (await gateway.ended())[0] == 0


async def test_a_second_signal_ends_it_at_once(serve, provider):
    gate = Gate()
    provider._script = [Reply.pause(gate)]
    gateway = await serve()
    asking = asyncio.ensure_future(gateway.ask(chat()))
    await gate.reached.wait()
    gateway.send(signal.SIGTERM)
    await gateway.hears("stopping")
    gateway.send(signal.SIGINT)
    assert (await gateway.ended())[0] == 128 + signal.SIGINT
    with pytest.raises((OSError, EOFError)):
        await asking


async def test_the_listener_speaks_tls(serve, tmp_path):
    authority = Authority.make(tmp_path)
    authority.server("127.0.0.1")
    file = tmp_path / "looptrap.toml"
    file.write_text("[gateway]\ntls_cert = 'server.pem'\ntls_key = 'server.pem'")
    gateway = await serve("--config", file)
    assert gateway.url.startswith("https://")
    trusting = ssl.create_default_context(cafile=authority.file)
    answer = await gateway.ask(chat(), ssl=trusting, server_hostname="127.0.0.1")
    assert answer.status == 200
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1",
        api_key="k",
        http_client=openai.DefaultAsyncHttpxClient(verify=trusting),
    ) as client:
        said = await client.chat.completions.create(
            model="gpt-5.3", messages=[{"role": "user", "content": "hi"}]
        )
    assert said.choices[0].message.content


@pytest.mark.parametrize("form", ["digests", "content"])
async def test_calls_are_captured_on_request_and_can_be_replayed(serve, tmp_path, form):
    settings = tmp_path / "looptrap.toml"
    settings.write_text('capture = "content"' if form == "content" else "")
    gateway = await serve("--config", settings, "--capture", tmp_path / "calls")
    assert f"Capturing {form} to {tmp_path / 'calls'}.\n" in gateway.said
    verdicts = [dict((await gateway.ask(chat("secret"))).headers) for _ in range(6)]
    gateway.send(signal.SIGTERM)
    await gateway.ended()
    assert [sent[b"x-looptrap-verdict"] for sent in verdicts] == [b"allow"] * 5 + [b"block"]
    (file,) = (tmp_path / "calls").iterdir()
    assert (b"secret" in file.read_bytes()) is (form == "content")
    replayed = CliRunner().invoke(main, ["replay", str(file), "--json"])
    found = json.loads(replayed.stdout)
    assert (found["calls"], found["first"]["block"]) == (6, 5)
    assert found["rule"] == "identical-conversation"


async def test_another_capture_is_for_the_next_start(serve, tmp_path):
    settings = tmp_path / "looptrap.toml"
    settings.write_text("")
    gateway = await serve("--config", settings, "--capture", tmp_path / "calls")
    settings.write_text('capture = "content"\n[gateway]\ncapture_limit = "2GB"')
    gateway.send(signal.SIGHUP)
    await gateway.hears(r"gateway\.capture_limit: changed, takes effect at the next start")
    await gateway.hears(r"capture: changed, takes effect at the next start")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_the_access_log_is_written_line_by_line_without_any_secret(serve, form):
    gateway = await serve("--access-log", form)
    host, port = gateway.url.rpartition("//")[2].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    headers = JSON | {"Authorization": "Bearer sk-secret"}
    writer.write(request("POST", "/v1/chat/completions?key=secret", headers, chat("secret")))
    await Client(reader, writer).answer()
    line = await asyncio.wait_for(gateway._process.stdout.readline(), PATIENCE)
    writer.close()
    assert b"secret" not in line
    if form == "json":
        assert json.loads(line)["path"] == "/v1/chat/completions"
    else:
        assert b" path=/v1/chat/completions status=200 verdict=allow " in line
