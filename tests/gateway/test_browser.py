"""Web pages: without gateway keys, none may use the gateway from a visitor's browser."""

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat

from looptrap.gateway.auth import Identity
from looptrap.gateway.browser import CROSS_SITE, FOREIGN_HOST, PREFLIGHT, Browsers

KEYLESS = Identity(caller="addr:127.0.0.1")
KEYED = Identity(caller="key:ci", key_name="ci")
HERE = "127.0.0.1:4100"


def refused(headers, *, allowed=(), listen="127.0.0.1", identity=KEYLESS, method=b"POST"):
    fields = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Browsers(allowed, listen).decide(method, fields, identity)[0]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Origin": "https://evil.example"}, id="a page of another site"),
        pytest.param({"Origin": "http://localhost:3000"}, id="a page of another port"),
        pytest.param({"Origin": "null"}, id="a sandboxed frame, or a file that was opened"),
        pytest.param({"Origin": "chrome-extension://abcdef"}, id="an extension"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, id="an image, a form, a link"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, id="a page of the same site"),
        pytest.param(
            {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}, id="both disagree"
        ),
        pytest.param(
            {"Host": "evil.example:4100", "Origin": "http://evil.example:4100"},
            id="a name that was made to point here",
        ),
    ],
)
@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0"])
def test_requests_of_web_pages_are_refused(headers, listen):
    assert refused({"Host": HERE} | headers, listen=listen) == CROSS_SITE
    assert refused({"Host": HERE} | headers, listen=listen, identity=KEYED) is None


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="a program"),
        pytest.param({"Sec-Fetch-Site": "none"}, id="an address that somebody typed"),
        pytest.param({"Sec-Fetch-Mode": "cors", "Accept-Language": "*"}, id="fetch in Node"),
        pytest.param({"Origin": f"http://{HERE}"}, id="a page of this address"),
        pytest.param({"Origin": "vscode-file://vscode-app"}, id="VS Code"),
        pytest.param({"Origin": "vscode-webview://0abc"}, id="a view in VS Code"),
        pytest.param(
            {"Origin": "app://obsidian.md", "Sec-Fetch-Site": "cross-site"}, id="an Electron app"
        ),
        pytest.param({"Origin": "tauri://localhost"}, id="a Tauri app"),
        pytest.param({"Origin": "file://"}, id="an Electron app from files"),
    ],
)
def test_programs_and_desktop_applications_pass(headers):
    assert refused({"Host": HERE} | headers) is None


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:4100", "localhost", "LOCALHOST:4100", "[::1]:4100", "192.0.2.7:4100", "gateway",
     "gateway:4100", "host.docker.internal:4100", "my-mac.local:4100", "api.localhost:4100", ""],
)  # fmt: skip
def test_the_own_names_of_a_machine_pass_on_loopback(host):
    assert refused({"Host": host}) is None


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4100", "127.0.0.1.evil.example"])
def test_a_name_that_is_not_its_own_is_refused_on_loopback_only(host):
    assert refused({"Host": host}) == FOREIGN_HOST
    assert refused({"Host": host}, identity=KEYED) is None
    assert refused({"Host": host}, listen="0.0.0.0") is None
    assert refused({"Host": host}, allowed=[f"https://{host}"]) is None


def test_origins_that_are_allowed_pass_and_no_others():
    allowed = ["https://chat.example"]
    page = {"Host": HERE, "Sec-Fetch-Site": "cross-site", "Origin": "https://chat.example"}
    assert refused(page, allowed=allowed) is None
    for other in ("https://chat.example.evil.example", "http://chat.example", "https://evil"):
        assert refused(page | {"Origin": other}, allowed=allowed) == CROSS_SITE
    asking = page | {"Access-Control-Request-Method": "POST"}
    assert refused(asking, allowed=allowed, method=b"OPTIONS") == PREFLIGHT


PAGE = {"Origin": "https://chat.example", "Sec-Fetch-Site": "cross-site"}
ALLOWED = 'gateway.allowed_origins = ["https://Chat.example:443"]\n'


async def test_a_page_gets_no_answer_and_the_provider_no_request(serve):
    here = await serve()
    for headers in (JSON | PAGE, PAGE | {"Content-Type": "text/plain"}):
        answer = await here.ask(headers=headers, body=chat())
        assert answer.status == 403
        assert msgspec.json.decode(answer.body)["error"]["code"] == "cross_site_request"
        assert b"access-control-allow-origin" not in answer.headers
    asked = PAGE | {"Access-Control-Request-Method": "POST"}
    assert (await here.ask("OPTIONS", headers=asked)).status == 403
    assert here.provider.requests == []


async def test_an_allowed_page_is_answered_by_the_rules_of_cors(serve):
    here = await serve(ALLOWED)
    asked = PAGE | {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
        "Access-Control-Request-Private-Network": "true",
    }
    answer = await here.ask("OPTIONS", headers=asked)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers[b"access-control-allow-origin"] == b"https://chat.example"
    assert answer.headers[b"access-control-allow-headers"] == b"authorization,content-type"
    assert b"POST" in answer.headers[b"access-control-allow-methods"]
    assert answer.headers[b"access-control-allow-private-network"] == b"true"
    assert here.provider.requests == []
    statuses = set()
    for _ in range(12):  # until it is refused as a loop: a page may read that, too
        answer = await here.ask(headers=JSON | PAGE, body=chat())
        statuses.add(answer.status)
        assert answer.headers[b"access-control-allow-origin"] == b"https://chat.example"
        assert answer.headers[b"vary"] == b"Origin"
    assert 200 in statuses
    assert len(statuses) > 1
    assert b"access-control-allow-origin" not in (await here.ask(body=chat())).headers


async def test_where_keys_are_needed_an_allowed_page_may_ask_before_it_sends_one(serve):
    here = await serve(ALLOWED)
    key = here.add_key()
    asked = PAGE | {"Access-Control-Request-Method": "POST"}
    assert (await here.ask("OPTIONS", headers=asked)).status == 204
    denied = await here.ask(headers=JSON | PAGE, body=chat())
    assert (denied.status, denied.headers[b"access-control-allow-origin"]) == (
        401,
        b"https://chat.example",
    )
    headers = JSON | PAGE | {"X-Looptrap-Key": key, "Authorization": "Bearer sk-own"}
    assert (await here.ask(target=CHAT, headers=headers, body=chat())).status == 200
