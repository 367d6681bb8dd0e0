"""Secrets and prompts, planted wherever a client or an operator can put one: none comes out.

A gateway of its own process, with everything on that writes or sends anything, is driven through
calls that are allowed, refused, malformed and failing; then every byte that left it is searched.
"""

import asyncio
import json
import os
import re
import signal
from contextlib import contextmanager
from secrets import token_hex

import aiohttp
import msgspec
import pytest
from tests.cli.serving import LOOPTRAP, run
from tests.gateway.serving import request
from tests.gateway.signing import forged
from tests.gateway.tracing import listening
from tests.incident.alert.receiving import Receiver
from tests.patience import PATIENCE
from tests.store.serving import free_port, server
from tests.wire.fake_client import Client

from looptrap.admin.server import document
from looptrap.testing import FakeProvider, Reply

ADMIN_GETS = [path for path, known in document()["paths"].items() if "get" in known]

NAMES = (
    "authorization", "x_api_key", "goog_key", "query_key", "provider_key", "admin_token",
    "read_token", "decision_token", "digest_secret", "store_password", "collector_token", "jwt",
    "system", "prompt", "image", "arguments", "result", "answer", "thought", "hook_path",
)  # fmt: skip
TOML = """
store = "{store}"
capture = "digests"

[gateway]
upstream = "{provider}"
access_log = "json"
capture_dir = "captures"
admin_token_env = "ADMIN"
read_token_env = "READ"
decision_token_env = "DECISION"
jwt = "unverified"
jwt_header = "X-Token"

[[providers]]
name = "down"
base_url = "http://127.0.0.1:{closed}/v1"
api_key_env = "PROVIDER"

[[routes]]
select = {{ models = ["gone"] }}
chain = ["down/gone"]

[[channels]]
kind = "webhook"
name = "ops"
url = "{hook}"
secret_env = "HOOK"
allow_private = true
allow_http = true

[[budgets]]
by = ["session"]
limit_usd = 5

[prices."*"]
input = 3.0
output = 15.0

[traces]
endpoint = "{collector}"
"""


def planted():
    """Return a text for each name that nobody would write by chance."""
    return {name: f"planted{token_hex(8)}{name.replace('_', '')}" for name in NAMES}


def rounds(secrets, count=6):
    """Return a history in which an agent goes in circles, with something secret in every part."""
    image = {"url": f"data:image/png;base64,{secrets['image']}"}
    asked = [
        {"type": "text", "text": secrets["prompt"]},
        {"type": "image_url", "image_url": image},
    ]
    messages = [
        {"role": "system", "content": f"Mind {secrets['system']}."},
        {"role": "user", "content": asked},
    ]
    for number in range(count):
        function = {"name": "look_up", "arguments": json.dumps({"what": secrets["arguments"]})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {
                "role": "assistant",
                "content": secrets["answer"],
                "reasoning_content": secrets["thought"],
                "tool_calls": [call],
            },
            {
                "role": "tool",
                "tool_call_id": f"c{number}",
                "content": f"ERROR: {secrets['result']} not found",
            },
        ]
    return messages


def chat(secrets, model="gpt-5.3", messages=None, **more):
    messages = messages or [{"role": "user", "content": secrets["prompt"]}]
    return msgspec.json.encode({"model": model, "messages": messages, **more})


def answers(secrets):
    """Return a provider that chants, and that repeats the caller's key where it fails."""

    def reply(asked):
        if b"boom" in asked.body:
            said = " ".join(str(value) for value in dict(asked.headers).values())
            return Reply.status(500, {"error": {"message": f"{said} {secrets['answer']}"}})
        if b"broken" in asked.body:
            return Reply.raw(f"HTTP/1.1 2x0 {secrets['answer']}\r\n\r\n".encode())
        return Reply.text(f"{secrets['answer']} again and again. " * 60)

    return reply


class Traffic:
    """Sends everything that a client might; keeps what the gateway itself answered."""

    def __init__(self, url, key, secrets):
        self._place = url.rpartition("//")[2].rsplit(":", 1)
        self._key = key
        self._secrets = secrets
        self.refusals = []

    async def ask(self, body=b"", target="/v1/chat/completions", method="POST", **headers):
        secrets = self._secrets
        token = forged({"sub": secrets["jwt"]}, {"alg": "HS256"}, secrets["jwt"].encode())
        sent = {
            "X-Looptrap-Key": self._key,
            "Authorization": f"Bearer {secrets['authorization']}",
            "X-Token": f"Bearer {token}",
            "X-Looptrap-Session": "run-1",
            "Content-Type": "application/json",
        }
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.raw(request(method, target, sent | given, body))

    async def raw(self, data):
        reader, writer = await asyncio.open_connection(*self._place)
        client = Client(reader, writer)
        try:
            await client.send(data)
            answer = await client.answer()
        finally:
            client.close()
        if b"x-looptrap-reason" in answer.headers or answer.status in (400, 401, 403, 413, 429):
            self.refusals.append(repr(answer).encode())
        return answer

    async def everything(self):
        """Return the statuses seen."""
        secrets, ask = self._secrets, self.ask
        bodies = [chat(secrets)] * 7
        bodies += [chat(secrets, messages=rounds(secrets, count)) for count in (2, 6)]
        for text in ("boom", "broken"):
            bodies.append(chat({**secrets, "prompt": f"{text} {secrets['prompt']}"}))
        bodies.append(chat(secrets, model="gone"))
        seen = [(await ask(body)).status for body in bodies]
        await ask(chat(secrets, stream=True, n=1), x_api_key=secrets["x_api_key"])
        google = msgspec.json.encode({"contents": [{"parts": [{"text": secrets["prompt"]}]}]})
        target = f"/v1beta/models/g:generateContent?key={secrets['query_key']}"
        await ask(google, target, x_goog_api_key=secrets["goog_key"])
        await self.malformed()
        await self.decisions()
        return seen

    async def malformed(self):
        secrets = self._secrets
        prompt, key = secrets["prompt"], secrets["authorization"]
        await self.ask(chat(secrets), X_Looptrap_Key=f"lt-0000-{key}")
        await self.ask(chat(secrets), X_Looptrap_Session_Limit_Usd=prompt)
        await self.ask(b'{"messages": "' + prompt.encode())
        for head in (
            f"POST /{key}?key={key} HTTP/9.9\r\nHost: x\r\n\r\n",
            f"GET /v1/x HTTP/1.1\r\nHost: x\r\nAuthorization {key}\r\n\r\n",
            f"GET / HTTP/1.1\r\nHost: x\r\nX-Api-Key: {key}\r\nContent-Length: {key}\r\n\r\n",
            f"{key}\r\n\r\n",
        ):
            await self.raw(head.encode())

    async def decisions(self):
        secrets = self._secrets
        for token in (secrets["decision_token"], secrets["read_token"]):
            await self.ask(
                chat(secrets),
                "/looptrap/decision/v1/chat/completions",
                X_Looptrap_Decision_Token=token,
            )


async def operated(admin, secrets):
    """Ask the admin address everything there is to ask, and return every byte it answered."""
    said = []
    token = {"Authorization": f"Bearer {secrets['admin_token']}"}
    pasted = {"text": chat(secrets, messages=rounds(secrets)).decode()}
    changes = [
        ("POST", "/api/v1/kill-switches", {"match": {"caller": "key:nobody"}, "reason": "x"}),
        ("POST", "/api/v1/alerts/test", {"channel": "ops"}),
        ("PUT", "/api/v1/tools/look_up", {"exempt": True}),
        ("POST", "/api/v1/release", {"caller": "key:ci"}),
    ]
    async with aiohttp.ClientSession(admin) as operator:
        incidents = await _told(operator, "GET", "/api/v1/incidents", said, headers=token)
        found = [one["id"] for one in json.loads(incidents).get("incidents", [])]
        assert found
        for path in ADMIN_GETS:
            if path == "/api/v1/events":
                continue
            for one in found if "{id}" in path else ["look_up"]:
                shown = re.sub(r"\{\w+\}", one, path)
                await _told(operator, "GET", shown, said, headers=token)
        for method, path, sent in changes:
            await _told(operator, method, path, said, headers=token, json=sent)
        wrong = {"Authorization": f"Bearer {secrets['jwt']}"}
        await _told(operator, "GET", "/api/v1/config", said, headers=wrong)
        # What is pasted is shown again to who pasted it, and kept nowhere.
        await _told(operator, "POST", "/api/v1/try", [], headers=token, json=pasted)
    return said


async def _told(operator, method, path, said, **sent):
    async with operator.request(method, path, **sent) as answer:
        content = await answer.read()
        assert answer.status < 500, (path, content)
        said.append(repr(dict(answer.headers)).encode() + content)
        return content


async def commanded(folder, env, admin):
    """Run the commands that look at a gateway; return what they wrote."""
    reach = ["--admin", admin.rpartition("/")[2], "--token-env", "ADMIN"]
    commands = (
        ["check", "looptrap.toml"],
        ["check", "looptrap.toml", "--effective"],
        ["incidents", *reach],
        ["incidents", "--json", *reach],
        ["alerts", *reach],
        ["spending", *reach],
        ["release", "--caller", "key:ci", *reach],
        ["replay", "captures"],
    )
    return await asyncio.gather(*(_said(folder, env, command) for command in commands))


async def _said(folder, env, command):
    process = await asyncio.create_subprocess_exec(
        LOOPTRAP, *command, cwd=folder, env=env, stdout=-1, stderr=-1
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert b"Traceback" not in err, err.decode()
    return out + err


def stored(valkey, password):
    """Return every key of the store, and all that is under it."""
    with valkey.client(password=password) as client:
        return [key + (client.dump(key) or b"") for key in client.scan_iter(count=1000)]


def written(folder):
    """Return what lies in the folder, but for what the test itself has put there."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".toml"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@contextmanager
def surroundings(secrets):
    """Run the store and the collector."""
    password = secrets["store_password"]
    with server(requirepass=password, rdbcompression="no") as valkey, listening() as collector:
        yield valkey, collector


async def key_of(folder, env):
    """Make a gateway key; return its text, which is shown here only."""
    process = await asyncio.create_subprocess_exec(
        LOOPTRAP, "keys", "add", "ci", "--state", "looptrap.state", cwd=folder, env=env, stdout=-1
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    return re.search(rb"lt-[\w-]+", out)[0].decode()


@pytest.mark.slow
async def test_nothing_secret_comes_out_of_a_gateway_that_tells_all_it_can(tmp_path):
    secrets = planted()
    env = {
        "PATH": os.environ["PATH"],
        "ADMIN": secrets["admin_token"],
        "READ": secrets["read_token"],
        "DECISION": secrets["decision_token"],
        "PROVIDER": secrets["provider_key"],
        "HOOK": "whsec_" + "c2VjcmV0" * 4,
        "LOOPTRAP_SECRET": secrets["digest_secret"],
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{secrets['collector_token']}",
    }
    with surroundings(secrets) as (valkey, collector):
        async with FakeProvider(answers(secrets)) as provider, Receiver.running() as receiver:
            hook = f"http://127.0.0.1:{receiver.port}/{secrets['hook_path']}"
            store = f"unix://:{secrets['store_password']}@{valkey.socket}"
            toml = TOML.format(
                store=store,
                provider=provider.url,
                closed=free_port(),
                hook=hook,
                collector=collector.url,
            )
            config = tmp_path / "looptrap.toml"
            config.write_text(toml)
            gateway_key = await key_of(tmp_path, env)
            flags = ["--config", config, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
            async with run(tmp_path, *flags, env=env) as gateway:
                url = (await gateway.hears(r"guards (http://\S+)"))[1]
                admin = (await gateway.hears(r"Dashboard +(http://\S+)/"))[1]
                traffic = Traffic(url, gateway_key, secrets)
                statuses = await asyncio.wait_for(traffic.everything(), PATIENCE)
                await _until(lambda: receiver.got and collector.bodies)
                told = await operated(admin, secrets)
                commands = await commanded(tmp_path, env, admin)
                # A mistake in what is read again: a password with a slash in it.
                config.write_text(toml.replace("unix://:", f"redis://:x/{secrets['hook_path']}"))
                gateway.send(signal.SIGHUP)
                await gateway.hears("reload|cannot|keeps|stay")
                gateway.send(signal.SIGTERM)
                status, out = await gateway.ended()
                kept = stored(valkey, secrets["store_password"])
                err = gateway.said
    assert status == 0
    sent = b"".join(repr(one.headers).encode() + one.body for one in provider.requests)
    assert all(secrets[name].encode() in sent for name in ("authorization", "prompt", "result"))
    assert {200, 429, 500, 502} <= set(statuses), statuses
    places = {
        "stdout": out.encode(),
        "stderr": err.encode(),
        "refusals": b"\n".join(traffic.refusals),
        "admin": b"\n".join(told),
        "commands": b"\n".join(commands),
        "store": b"\n".join(kept),
        "webhooks": b"\n".join(one.body + repr(one.headers).encode() for one in receiver.got),
        "spans": b"\n".join(collector.bodies),
        **{f"file {name}": content for name, content in written(tmp_path).items()},
    }
    assert all(places[name] for name in ("stdout", "stderr", "admin", "store", "webhooks", "spans"))
    assert any(name.startswith("file captures/") for name in places)
    leaks = [
        f"{what} in {place}: …{content[max(0, at - 60) : at + 20]!r}…"
        for what, text in {**secrets, "gateway_key": gateway_key}.items()
        for place, content in places.items()
        if (at := content.find(text.encode())) >= 0
    ]
    assert leaks == []


async def _until(is_so):
    async with asyncio.timeout(PATIENCE):
        while not is_so():
            await asyncio.sleep(0.02)


def test_planted_texts_are_found_where_they_are():
    secrets = planted()
    assert len(set(secrets.values())) == len(NAMES)
    body = chat(secrets, messages=rounds(secrets))
    hidden = {"system", "prompt", "image", "arguments", "result", "answer", "thought"}
    assert {name for name, text in secrets.items() if text.encode() in body} == hidden
