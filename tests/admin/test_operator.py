"""Operators with names: by a token each, or by the header of a proxy that is trusted."""

import asyncio

import pytest
from tests.admin.looping import PATH as INCIDENTS
from tests.admin.looping import incident, loop
from tests.admin.operating import operating, told

from looptrap.admin.auth import AdminAuth, configured_access
from looptrap.config import load
from looptrap.errors import ConfigError

STATUS = "/api/v1/status"
TOOL = "/api/v1/tools/poll"
EXEMPT = {"json": {"exempt": True}}

NAMED = """
[gateway]
admin_token_env = "ADMIN"
[[gateway.operators]]
name = "ada"
token_env = "ADA"
[[gateway.operators]]
name = "grace"
token_env = "GRACE"
role = "read"
"""
TOKENS = {"ADMIN": "a" * 16, "ADA": "b" * 16, "GRACE": "c" * 16}

PROXIED = """
public_url = "https://looptrap.example.com"
[gateway]
user_header = "X-Forwarded-Email"
trusted_proxies = ["127.0.0.1"]
[[gateway.operators]]
name = "ada@example.com"
"""
ADA = {"X-Forwarded-Email": "ada@example.com"}
OTHER = {"X-Forwarded-Email": "eve@example.com"}


def bearer(name):
    return {"Authorization": f"Bearer {TOKENS[name]}"}


async def authors(operator, headers):
    entries = (await told(operator, "GET", "/api/v1/audit", headers=headers))["entries"]
    return [one["by"] for one in entries]


class TestByToken:
    @pytest.fixture
    async def operator(self, tmp_path):
        async with operating(tmp_path, NAMED, tokens=TOKENS) as (_, operator):
            yield operator

    async def test_the_audit_says_whose_token_changed_something(self, operator):
        for name in ("ADA", "ADMIN"):
            await told(operator, "PUT", TOOL, headers=bearer(name), **EXEMPT)
        assert await authors(operator, bearer("GRACE")) == ["admin", "ada"]

    @pytest.mark.parametrize(
        ("name", "operator_name", "can_write"),
        [("ADMIN", "admin", True), ("ADA", "ada", True), ("GRACE", "grace", False)],
    )
    async def test_everybody_knows_who_they_are(self, operator, name, operator_name, can_write):
        status = await told(operator, "GET", STATUS, headers=bearer(name))
        assert (status["operator"], status["can_write"]) == (operator_name, can_write)

    async def test_who_may_only_read_changes_nothing(self, operator):
        refused = await told(operator, "PUT", TOOL, headers=bearer("GRACE"), status=403, **EXEMPT)
        assert refused["error"]["code"] == "read_only"

    async def test_a_header_names_nobody_where_no_proxy_is_trusted(self, operator):
        await told(operator, "GET", STATUS, headers=ADA, status=401)

    async def test_an_incident_says_who_acknowledged_it(self, tmp_path):
        async with operating(tmp_path, NAMED, tokens=TOKENS) as (here, operator):
            operator.headers.update(bearer("ADA"))
            await loop(here, 7)
            one = (await incident(operator, lambda shown: shown["refused"] == 2))["id"]
            shown = await told(operator, "POST", f"{INCIDENTS}/{one}/acknowledge", json={})
            assert shown["acknowledged"]["by"] == "ada"


class TestByHeader:
    @pytest.fixture
    async def operator(self, tmp_path):
        async with operating(tmp_path, PROXIED, tokens={}) as (_, operator):
            yield operator

    async def test_a_user_of_the_proxy_needs_no_token(self, operator):
        await told(operator, "PUT", TOOL, headers=ADA, **EXEMPT)
        assert await authors(operator, ADA) == ["ada@example.com"]
        status = await told(operator, "GET", STATUS, headers=ADA)
        assert (status["operator"], status["can_write"]) == ("ada@example.com", True)

    async def test_a_user_who_is_not_listed_reads_only(self, operator):
        assert (await told(operator, "GET", STATUS, headers=OTHER))["can_write"] is False
        refused = await told(operator, "PUT", TOOL, headers=OTHER, status=403, **EXEMPT)
        assert refused["error"]["code"] == "read_only"

    async def test_user_role_lets_all_users_write(self, tmp_path):
        toml = PROXIED.replace("[[gateway", 'user_role = "write"\n[[gateway')
        async with operating(tmp_path, toml, tokens={}) as (_, operator):
            await told(operator, "PUT", TOOL, headers=OTHER, **EXEMPT)

    async def test_without_the_header_nobody_gets_in(self, operator):
        await told(operator, "GET", STATUS, status=401)
        await told(operator, "PUT", TOOL, status=401, **EXEMPT)

    @pytest.mark.parametrize("proxies", ['["10.0.0.0/8"]', '["127.0.0.2", "::1"]'])
    async def test_the_header_is_not_believed_from_another_address(self, tmp_path, proxies):
        toml = PROXIED.replace('["127.0.0.1"]', proxies)
        async with operating(tmp_path, toml, tokens={}) as (_, operator):
            await told(operator, "GET", STATUS, headers=ADA, status=401)
            await told(operator, "PUT", TOOL, headers=ADA, status=401, **EXEMPT)

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param("ada@example.com, eve@example.com", id="joined with the client's own"),
            pytest.param("", id="empty"),
            pytest.param("a" * 129, id="too long"),
            pytest.param("ada\t@example.com", id="a control character"),
            pytest.param("ad\u202ea@example.com", id="what turns text around"),
        ],
    )
    async def test_a_header_that_names_nobody_is_refused(self, operator, value):
        headers = {"X-Forwarded-Email": value}
        refused = await told(operator, "GET", STATUS, headers=headers, status=400)
        assert refused["error"]["code"] == "bad_user"

    @pytest.mark.parametrize(
        "lines",
        [
            pytest.param(
                [b"X-Forwarded-Email: ada@example.com", b"x-forwarded-email: eve@example.com"],
                id="added to the client's own",
            ),
            pytest.param([b"X-Forwarded-Email: ada\xff@example.com"], id="bytes that are no text"),
        ],
    )
    async def test_bytes_that_no_good_proxy_sends_are_refused(self, operator, lines):
        host, port = operator._base_url.host, operator._base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        head = [b"GET /api/v1/status HTTP/1.1", b"Host: localhost", *lines, b"Connection: close"]
        writer.write(b"\r\n".join([*head, b"", b""]))
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b'"code":"bad_user"' in answer

    @pytest.mark.parametrize(
        ("host", "status"),
        [("looptrap.example.com", 200), ("looptrap:4101", 200), ("evil.example", 403)],
    )
    async def test_a_name_that_a_site_points_here_is_refused(self, operator, host, status):
        await told(operator, "GET", STATUS, headers=ADA | {"Host": host}, status=status)

    @pytest.mark.parametrize(
        "more", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}]
    )
    async def test_a_page_of_another_site_changes_nothing(self, operator, more):
        refused = await told(operator, "PUT", TOOL, headers=ADA | more, status=403, **EXEMPT)
        assert refused["error"]["code"] == "cross_site"

    async def test_what_the_proxy_sends_as_authorization_does_not_matter(self, operator):
        basic = ADA | {"Authorization": "Basic YWRhOg=="}
        assert (await told(operator, "GET", STATUS, headers=basic))["can_write"] is True

    async def test_a_name_in_any_script_is_recorded(self, tmp_path):
        toml = PROXIED.replace("ada@example.com", "Zoë Äther")
        async with operating(tmp_path, toml, tokens={}) as (_, operator):
            named = {"X-Forwarded-Email": "Zoë Äther"}
            await told(operator, "PUT", TOOL, headers=named, **EXEMPT)
            assert await authors(operator, named) == ["Zoë Äther"]


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        pytest.param(
            'user_header = "X-User"', "user_header: is believed from no address", id="no address"
        ),
        pytest.param('trusted_proxies = ["::1"]', "trusted_proxies: has no effect", id="no header"),
        pytest.param(
            'trusted_proxies = ["10.0.0.1/8"]', "must be an address or a network", id="bad network"
        ),
        pytest.param('operators = [{ name = "x" }]', "has neither a token_env", id="no token"),
        pytest.param(
            'operators = [{ name = "x,y", token_env = "A" }]', "without commas", id="a comma"
        ),
        pytest.param(
            'operators = [{ name = "x", token_env = "A", role = "root" }]', "role", id="bad role"
        ),
    ],
)
def test_mistakes_are_found_in_the_file(tmp_path, toml, says):
    (tmp_path / "looptrap.toml").write_text(f"[gateway]\n{toml}\n")
    with pytest.raises(ConfigError, match=says):
        load(tmp_path / "looptrap.toml", env={})


@pytest.mark.parametrize(
    ("env", "says"),
    [
        pytest.param({"GRACE": ""}, r"operators\[1\].token_env: the variable GRACE", id="not set"),
        pytest.param({"GRACE": TOKENS["ADA"]}, "its token is that of operators", id="the same"),
        pytest.param({"ADA": "short"}, "must have 16 or more", id="can be guessed"),
    ],
)
def test_mistakes_in_tokens_are_found_at_the_start(tmp_path, env, says):
    (tmp_path / "looptrap.toml").write_text(NAMED)
    config = load(tmp_path / "looptrap.toml", env={})
    with pytest.raises(ConfigError, match=says):
        AdminAuth("0.0.0.0", configured_access(config, TOKENS | env))
