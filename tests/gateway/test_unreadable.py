"""Requests that are hard to read, or cannot be read: every limit holds for them all the same."""

import gzip
import zlib

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat

from looptrap.dialect.splice import has_repeated_key
from looptrap.testing import Reply

ANSWER = Reply.status(
    200,
    {
        "usage": {
            "prompt_tokens": 50, "completion_tokens": 50, "input_tokens": 50, "output_tokens": 50,
        },
        "usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 50},
    },
)  # fmt: skip
"""A hundred tokens, in every dialect."""

PRICES = """
[prices."gpt-5.3"]
input = 1_000
output = 1_000
"""

TOKENS = """
policies = []
[[budgets]]
name = "purse"
limit_tokens = 800
thresholds = { block = 100 }
output_tokens = 50
"""

DOLLARS = f"""
policies = []
[[budgets]]
name = "purse"
limit_usd = 0.8
thresholds = {{ block = 100 }}
output_tokens = 50
{PRICES}
"""
"""Eight calls of a hundred tokens, a tenth of a cent each."""


def with_field(body, value):
    return body[:-1] + b"," + value + b"}"


def raw_deflate(body):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def gzipped(body):
    """Return a body packed without the time at which that was done: the same bytes each time."""
    return gzip.compress(body, mtime=0)


def two_members(body):
    return gzipped(body[:20]) + gzipped(body[20:])


def packed_as(encoding):
    return {**JSON, "Content-Encoding": encoding}


READABLE = [
    pytest.param(CHAT, JSON, lambda body: b"\xef\xbb\xbf" + body, id="byte-order mark"),
    *(
        pytest.param(CHAT, JSON, lambda body, to=to: body.decode().encode(to), id=to)
        for to in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
    ),
    pytest.param(CHAT, packed_as("gzip"), two_members, id="two gzip members"),
    pytest.param(CHAT, packed_as("deflate"), raw_deflate, id="raw deflate"),
    pytest.param(CHAT, packed_as("gzip, identity"), gzipped, id="gzip and identity"),
    pytest.param(
        CHAT,
        [("Content-Encoding", "identity"), ("Content-Encoding", "gzip")],
        gzipped,
        id="gzip in a second header",
    ),
    pytest.param(
        CHAT, packed_as("gzip"), lambda body: gzipped(body) + b"more", id="more behind gzip"
    ),
    pytest.param(CHAT, packed_as("gzip"), lambda body: gzipped(body)[:-8], id="gzip cut off"),
    pytest.param(CHAT, JSON, lambda body: with_field(body, b'"user":1e400'), id="1e400"),
    pytest.param(
        CHAT,
        JSON,
        lambda body: with_field(body, b'"x":' + b"[" * 1_100 + b"]" * 1_100),
        id="1,100 levels",
    ),
    *(
        pytest.param(path, JSON, bytes, id=path)
        for path in (
            "/v1/Chat/Completions",
            "/v1/chat/completions/.",
            "/v1/chat/completions;a=b",
            "/v1/chat/completions/%2e",
            "/v1//chat/%63ompletions",
        )
    ),
]

UNREADABLE = [
    pytest.param(CHAT, packed_as("br"), lambda body: b"\x0b" + body, id="br"),
    pytest.param(CHAT, packed_as("zstd"), lambda body: b"\x28\xb5\x2f\xfd" + body, id="zstd"),
    pytest.param(CHAT, packed_as("gzip, gzip"), lambda body: gzipped(gzipped(body)), id="stacked"),
    pytest.param(CHAT, JSON, lambda body: body + b"more", id="something behind JSON"),
    pytest.param(CHAT, JSON, lambda body: body.replace(b"[", b"{"), id="no JSON"),
    pytest.param("/v1/messages", JSON, gzipped, id="gzip that does not say so"),
    pytest.param("/v1/embeddings", JSON, lambda body: body + b"more", id="embeddings"),
    pytest.param("/v1beta/models/g:generateContent", JSON, gzipped, id="Gemini"),
]

UNREAD_MODEL_PRICE = [
    pytest.param(path, JSON, lambda body: body.replace(b'"messages"', b'"input"'), id=path)
    for path in (
        "/v1/batches",
        "/v1/messages/batches",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/responses/compact",
        "/v1beta/models/g:predict",
        "/v1beta/models/g:batchGenerateContent",
    )
]

BEDROCK = [
    pytest.param(path, JSON, bytes, id=path)
    for path in ("/model/gpt-5.3/converse", "/model/gpt-5.3/invoke")
]

ODD = [*BEDROCK, *READABLE, *UNREADABLE, *UNREAD_MODEL_PRICE]


@pytest.mark.parametrize(
    ("limits", "path", "headers", "make"),
    [
        pytest.param(limits, *one.values, id=f"{unit}, {one.id}")
        for unit, limits, among in (
            ("tokens", TOKENS, ODD),
            ("dollars", DOLLARS, [*BEDROCK, *UNREADABLE]),
        )
        for one in among
    ],
)
async def test_a_budget_for_eight_calls_lets_no_more_than_eight_pass(
    serve, limits, path, headers, make
):
    here = await serve(limits, script=[ANSWER] * 12)
    statuses = []
    for turn in range(12):
        body = make(chat(f"Question {turn}", max_tokens=50))
        statuses.append((await here.ask(target=path, headers=headers, body=body)).status)
    assert set(statuses) <= {200, 402}
    assert statuses.count(200) <= 8
    assert len(here.provider.requests) == statuses.count(200)


@pytest.mark.parametrize(
    ("path", "headers", "make"),
    [one for one in ODD if one.id != "embeddings"],
)
async def test_the_same_again_is_refused_by_default(serve, path, headers, make):
    here = await serve(script=[ANSWER] * 6)
    answers = [
        await here.ask(target=path, headers=headers, body=make(chat("Again?"))) for _ in range(6)
    ]
    assert [one.status for one in answers] == [200] * 5 + [429]
    assert answers[-1].headers[b"x-looptrap-rule"] == b"identical-conversation"


@pytest.mark.parametrize(("path", "headers", "make"), UNREADABLE)
async def test_what_cannot_be_read_can_be_refused(serve, path, headers, make):
    here = await serve('[gateway]\nunreadable = "refuse"')
    answer = await here.ask(target=path, headers=headers, body=make(chat()))
    assert answer.status == 400
    error = msgspec.json.decode(answer.body)["detail"]
    assert error["error"] == "unreadable_request"
    assert "cannot be read" in error["message"]
    assert here.provider.requests == []


@pytest.mark.parametrize(("path", "headers", "make"), [*READABLE, *UNREAD_MODEL_PRICE])
async def test_what_can_be_read_or_is_never_read_is_not_refused(serve, path, headers, make):
    here = await serve('[gateway]\nunreadable = "refuse"', script=[ANSWER])
    assert (await here.ask(target=path, headers=headers, body=make(chat()))).status == 200


@pytest.mark.parametrize(("path", "headers", "make"), [*READABLE, *UNREADABLE])
async def test_a_kill_switch_for_a_path_holds_however_the_path_is_spelled(
    serve, path, headers, make
):
    here = await serve("""
[[kill_switches]]
match = { "header:host" = "gateway" }
path_exact = "/v1/chat/completions"

[[kill_switches]]
match = { "header:host" = "gateway" }
path_prefix = "/v1/messages"

[[kill_switches]]
match = { "header:host" = "gateway" }
path_prefix = "/v1beta/"

[[kill_switches]]
match = { "header:host" = "gateway" }
path_exact = "/v1/embeddings/"
""")
    answer = await here.ask(target=path, headers=headers, body=make(chat()))
    assert answer.status == 403
    assert here.provider.requests == []


@pytest.mark.parametrize(("path", "headers", "make"), UNREADABLE)
async def test_a_rate_of_tokens_holds_for_what_cannot_be_read(serve, path, headers, make):
    here = await serve(
        """
[[policies]]
name = "rates"
  [[policies.rates]]
  name = "tokens"
  kind = "token_bucket_llm"
  tokens_per_minute = 800
  output_tokens = 50
""",
        script=[ANSWER] * 12,
    )
    statuses = [
        (await here.ask(target=path, headers=headers, body=make(chat(f"Question {turn}")))).status
        for turn in range(12)
    ]
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= 9  # what flows back in a second or two included


@pytest.mark.parametrize(("path", "headers", "make"), UNREADABLE)
async def test_a_decision_about_what_cannot_be_read_is_no_when_that_is_refused(
    serve, path, headers, make
):
    here = await serve('[gateway]\nunreadable = "refuse"')
    target = f"/looptrap/decision{path}"
    answer = await here.ask(target=target, headers=headers, body=make(chat()))
    assert answer.status == 400
    assert msgspec.json.decode(answer.body)["detail"]["error"] == "unreadable_request"


async def test_a_call_that_cannot_be_read_pays_the_dearest_price_that_is_set(serve):
    """A cheap model would otherwise be what a call says that nobody can read."""
    cheap = "[prices.cheap]\ninput = 1\noutput = 1\n"
    here = await serve(DOLLARS + cheap, script=[ANSWER] * 2)
    body = b"\x0b" * 150
    assert (await here.ask(headers=packed_as("br"), body=body)).status == 200
    large = await here.ask(headers=packed_as("br"), body=body * 14)
    assert large.status == 402
    told = msgspec.json.decode(large.body)["error"]["message"]
    assert "this call may need $0.75" in told


REPEATED = (
    b'{"model":"gpt-5.3","messages":[],"model":"cheap","messages":[{"role":"user","content":"%d"}]}'
)


async def test_a_caller_that_repeats_keys_is_refused_within_64_calls_and_then_always(serve):
    here = await serve(script=[ANSWER] * 70)
    statuses = [
        (await here.ask(target=CHAT, headers=JSON, body=REPEATED % turn)).status
        for turn in range(70)
    ]
    first = statuses.index(400)
    assert first < 64
    assert set(statuses[first:]) == {400}
    answer = await here.ask(target=CHAT, headers=JSON, body=REPEATED % 70)
    assert msgspec.json.decode(answer.body)["error"]["code"] == "ambiguous_request"
    others = await here.ask(target=CHAT, headers=JSON, body=chat("An honest question"))
    assert others.status == 200


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"a":1,"b":{"a":2,"a":3}}', False, id="only inside"),
        pytest.param(b' { "a" : [1] , "b" : "\\"a\\":1" } ', False, id="in a text"),
        pytest.param(b"{}", False, id="none"),
        pytest.param(b"[1]", False, id="no object"),
        pytest.param(b'{"a":1,"a":1}', True, id="the same value"),
        pytest.param(b'{"a":1,"b":2,"a":3}', True, id="another value"),
        pytest.param(b'{"a":1,"\\u0061":3}', True, id="written otherwise"),
    ],
)
def test_repeated_keys(body, expected):
    assert has_repeated_key(body) is expected
