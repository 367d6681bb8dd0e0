"""What is peculiar to nginx: one status for all refusals, and a body that it writes itself."""

import msgspec
import pytest
from tests.gateway.serving import CHAT, JSON, chat

from looptrap.policy.refusal import STATUSES
from looptrap.testing import FakeProvider, Reply

BLOCK_STATUSES = (400, 403, 422, 429)


@pytest.mark.parametrize("status", sorted({401, *STATUSES.values(), *BLOCK_STATUSES}))
async def test_the_client_gets_every_status_that_looptrap_may_mean(start, status):
    told = {"X-Looptrap-Status": str(status), "X-Looptrap-Reason": "budget_exceeded"}
    async with FakeProvider(lambda _: Reply.status(403, {}, told)) as refusing:
        nginx = await start("nginx", asked=refusing.url.rpartition(":")[2])
        refused = await nginx.ask("GET", "/x")
    assert refused.status == status
    assert msgspec.json.decode(refused.body) == {
        "error": {
            "message": "Refused by Looptrap: budget_exceeded.",
            "type": "budget_exceeded",
            "param": None,
            "code": "budget_exceeded",
        },
        "detail": {
            "error": "budget_exceeded",
            "message": "Refused by Looptrap: budget_exceeded.",
            "hit_count": 0,
            "cooldown_seconds": 0,
            "rule": "",
        },
    }
    assert nginx.forwarded == []


async def test_a_status_that_is_not_set_up_is_seen_and_not_taken_for_yes(start):
    async with FakeProvider(lambda _: Reply.status(429)) as refusing:
        nginx = await start("nginx", asked=refusing.url.rpartition(":")[2])
        assert (await nginx.ask("GET", "/x")).status == 500
    assert nginx.forwarded == []


async def test_bodies_are_not_shown_to_looptrap_so_prompts_to_one_path_never_meet(start):
    nginx = await start("nginx")
    for number in range(6):
        assert (await nginx.ask("POST", CHAT, JSON, chat(f"question {number}"))).status == 200
