"""Cooldowns: what is refused right now, for how long, and for longer."""

from datetime import datetime

import msgspec
import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import JSON, chat, until
from tests.store.serving import server

PATH = "/api/v1/cooldowns"
NONE = "1-" + "0" * 32


@pytest.fixture(params=["memory", "shared"])
async def running(request, tmp_path):
    if request.param == "memory":
        async with operating(tmp_path) as both:
            yield both
        return
    with server() as shared:
        async with operating(tmp_path, store=shared.url) as both:
            yield both


async def looping(here, operator):
    """Have a loop refused; return its fingerprint, once operators are told of it."""
    answers = [await here.ask(headers=JSON, body=chat()) for _ in range(7)]
    assert [one.status for one in answers[-2:]] == [429, 429]

    async def is_told():
        return (await told(operator, "GET", PATH))["cooldowns"] != []

    await until(is_told)
    return msgspec.json.decode(answers[-1].body)["detail"]["fingerprint"]


async def test_what_is_refused_is_told_with_its_incident(running):
    here, operator = running
    assert await told(operator, "GET", PATH) == {"cooldowns": [], "next": None}
    fingerprint = await looping(here, operator)
    (found,) = (await told(operator, "GET", PATH))["cooldowns"]
    assert (found["fingerprint"], found["caller"]) == (fingerprint, "addr:127.0.0.1")
    assert found["rule"] == "identical-conversation"
    assert 0 < found["left_seconds"] <= 30
    assert found["message"].startswith("Blocked (recursive_loop_detected): ")
    await told(operator, "GET", f"/api/v1/incidents/{found['incident']}")


async def test_asking_does_not_count_as_another_call(running):
    here, operator = running
    await looping(here, operator)
    for _ in range(3):
        await told(operator, "GET", PATH)
    answer = await here.ask(headers=JSON, body=chat())
    assert msgspec.json.decode(answer.body)["detail"]["hit_count"] == 8


async def test_a_release_ends_it_and_the_next_call_passes(running):
    here, operator = running
    fingerprint = await looping(here, operator)
    await told(operator, "POST", "/api/v1/release", json={"fingerprint": fingerprint})
    assert (await told(operator, "GET", PATH))["cooldowns"] == []
    assert (await here.ask(headers=JSON, body=chat())).status == 200


async def test_it_can_be_made_longer_and_not_shorter(running):
    here, operator = running
    fingerprint = await looping(here, operator)
    for seconds, least in ((3_600, 3_590), (60, 3_580)):
        sent = {"fingerprint": fingerprint, "seconds": seconds}
        found = await told(operator, "POST", PATH, json=sent)
        now = datetime.fromisoformat((await told(operator, "GET", "/api/v1/status"))["now"])
        left = (datetime.fromisoformat(found["until"]) - now).total_seconds()
        assert least < left <= 3_600
        assert found["pending"] is False
    (listed,) = (await told(operator, "GET", PATH))["cooldowns"]
    assert listed["left_seconds"] > 3_500
    answer = await here.ask(headers=JSON, body=chat())
    assert (answer.status, answer.headers[b"retry-after"]) == (429, b"60")


@pytest.mark.parametrize(
    ("sent", "status", "place"),
    [
        pytest.param({"fingerprint": NONE, "seconds": 60}, 404, None, id="never refused"),
        pytest.param({"fingerprint": "x", "seconds": 60}, 400, "fingerprint", id="none"),
        pytest.param({"fingerprint": NONE, "seconds": 0}, 400, "seconds", id="no time"),
        pytest.param({"fingerprint": NONE, "seconds": 86_401}, 400, "seconds", id="too long"),
        pytest.param({"seconds": 60}, 400, "", id="nothing named"),
        pytest.param([], 400, "", id="a list"),
    ],
)
async def test_mistakes_change_nothing(running, sent, status, place):
    _, operator = running
    error = (await told(operator, "POST", PATH, json=sent, status=status))["error"]
    assert error["code"] == ("not_found" if status == 404 else "bad_request")
    assert [one["place"] for one in error.get("problems", [])] == ([place] if status == 400 else [])


async def test_cooldowns_are_paged_by_incident(running):
    here, operator = running
    for number in range(3):
        for _ in range(7):
            await here.ask(headers=JSON, body=chat(f"Again, {number}?"))

    async def are_told():
        found = (await told(operator, "GET", PATH))["cooldowns"]
        return len({one["incident"] for one in found}) == 3

    await until(are_told)
    whole = await told(operator, "GET", PATH)
    seen, cursor = [], {}
    while True:
        page = await told(operator, "GET", PATH, params={"limit": 1, **cursor})
        assert len({one["incident"] for one in page["cooldowns"]}) <= 1
        seen += [one["fingerprint"] for one in page["cooldowns"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == [one["fingerprint"] for one in whole["cooldowns"]]
    await told(operator, "GET", PATH, params={"cursor": "x"}, status=400)
