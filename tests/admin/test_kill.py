"""Kill switches for operators: set, listed and ended, with every mistake told at once."""

import tomllib

import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat
from tests.store.serving import server

PATH = "/api/v1/kill-switches"
FILE = '[[kill_switches]]\nmatch = { model = "o0" }\nreason = "too old"\n'
RED = {"match": {"header:x-team": "red"}, "reason": "<leaked> & gone"}


@pytest.fixture
async def running(tmp_path):
    async with operating(tmp_path, FILE) as (here, operator):
        yield here, operator


async def ask(here):
    return await here.ask(headers=JSON | {"X-Team": "red"}, body=chat())


async def test_one_is_set_listed_and_ended(running):
    here, operator = running
    made = await told(operator, "POST", PATH, json=RED, status=201)
    assert (await ask(here)).status == 403
    of_file, set_here = (await told(operator, "GET", PATH))["kill_switches"]
    assert of_file == {
        "origin": "file", "id": None, "match": {"model": "o0"}, "reason": "too old",
    }  # fmt: skip
    assert tomllib.loads(set_here.pop("toml")) == {"kill_switches": [RED]}
    assert set_here == {"origin": "run_time", "id": made["id"], "created": made["created"], **RED}
    ended = await told(operator, "DELETE", f"{PATH}/{made['id']}")
    assert ended == {"ended": True, "pending": False}
    assert (await ask(here)).status == 200
    assert len((await told(operator, "GET", PATH))["kill_switches"]) == 1


async def test_what_it_says_is_answered_as_it_was_sent(running):
    _, operator = running
    expires = "2099-12-01T00:00:00Z"
    sent = RED | {"expires": expires, "path_prefix": "/v1/"}
    async with operator.post(PATH, json=sent) as answer:
        made = await answer.json()
        assert answer.headers["Location"] == f"{PATH}/{made['id']}"
    assert {name: made[name] for name in sent} == sent
    assert "warnings" not in made


async def test_one_that_can_match_nothing_is_warned_of(running):
    _, operator = running
    made = await told(operator, "POST", PATH, json={"match": {"jwt:org": "x"}}, status=201)
    assert made["warnings"] == ["match: jwt:org: unverified claims read as empty"]


async def test_every_mistake_is_told_at_once(running):
    _, operator = running
    sent = {"match": {"colour": "red"}, "reason": 7, "expires": "soon", "until": 1}
    error = (await told(operator, "POST", PATH, json=sent, status=400))["error"]
    assert error["code"] == "bad_request"
    assert sorted(one["place"] for one in error["problems"]) == [
        "expires", "match.colour", "reason", "until",
    ]  # fmt: skip
    assert len((await told(operator, "GET", PATH))["kill_switches"]) == 1


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        ({"json": {}}, 400, "has no match, needs a table of descriptors and values"),
        ({"json": {"match": {}}}, 400, "match: is empty"),
        ({"json": [RED]}, 400, "is a list, must be a table"),
        ({"json": RED | {"expires": "2020-01-01T00:00:00Z"}}, 400, "must be in the future"),
        ({"json": RED | {"expires": "2099-01-01T00:00:00"}}, 400, "with its offset"),
        ({"json": RED | {"path_exact": "/a", "path_prefix": "/b"}}, 400, "one or the other"),
        ({"data": b"{", "headers": JSON}, 400, "Send JSON"),
        ({"data": b"{}"}, 415, "Send application/json."),
    ],
    ids=["nothing", "matches all", "a list", "over", "without offset", "two paths", "cut off",
         "another type"],
)  # fmt: skip
async def test_a_mistake_sets_nothing(running, sent, status, says):
    here, operator = running
    error = (await told(operator, "POST", PATH, status=status, **sent))["error"]
    assert says in error["message"]
    assert (await ask(here)).status == 200


async def test_the_files_end_with_the_file(running):
    _, operator = running
    for unknown in ("0badcafe", "None", "a%2Fb"):
        error = (await told(operator, "DELETE", f"{PATH}/{unknown}", status=404))["error"]
        assert error["code"] == "not_found"


async def test_only_the_holder_of_the_token_sets_one(tmp_path):
    async with operating(tmp_path, token="t0ken") as (here, operator):
        await told(operator, "POST", PATH, json=RED, status=401)
        await told(operator, "GET", PATH, status=401)
        assert (await ask(here)).status == 200
        bearer = {"Authorization": "Bearer t0ken"}
        await told(operator, "POST", PATH, json=RED, headers=bearer, status=201)


async def test_while_the_store_is_away_it_is_pending_for_the_others(tmp_path):
    with server() as valkey:
        async with operating(tmp_path, store=valkey.url) as (here, operator):
            valkey.kill()
            made = await told(operator, "POST", PATH, json=RED, status=201)
            assert made["pending"]
            assert (await ask(here)).status == 403
            ended = await told(operator, "DELETE", f"{PATH}/{made['id']}")
            assert ended == {"ended": True, "pending": True}
