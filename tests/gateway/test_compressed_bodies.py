"""Packed bodies through a running gateway: bounded in bytes, and unpacked off the loop."""

import gzip

import msgspec
from tests.gateway.serving import JSON, chat, request, until

from looptrap.gateway.slow_body import MAX_INLINE_BYTES
from looptrap.testing import Gate, Reply

GZIP = {**JSON, "Content-Encoding": "gzip"}
LARGE = "a" * (MAX_INLINE_BYTES * 2)
"""More than is unpacked on the loop."""


def held(here):
    return here.app.gateway._unpacker.held


async def test_a_large_packed_body_is_judged_and_forwarded_as_sent(serve):
    here = await serve()
    answers = []
    for level in range(6):  # the same question, in other bytes each time
        packed = gzip.compress(chat(LARGE), compresslevel=level, mtime=level)
        answers.append(await here.ask(headers=GZIP, body=packed))
        if level < 5:
            assert here.provider.requests[-1].body == packed
    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert answers[-1].headers[b"x-looptrap-rule"] == b"identical-conversation"
    assert here.app.server.handler_errors == 0


async def test_what_is_unpacked_is_bounded_for_all_calls_together(serve):
    gate = Gate()
    here = await serve(
        "[gateway]\nmax_unpacked = '1MB'",
        script=[Reply.pause(gate), *[Reply.text("Yes.")] * 3],
    )
    first = await here.connect()
    await first.send(request(headers=GZIP, body=gzip.compress(chat("b" * 600_000))))
    await gate.reached.wait()
    refused = await here.ask(headers=GZIP, body=gzip.compress(chat("c" * 600_000)))
    assert (refused.status, refused.headers[b"retry-after"]) == (503, b"1")
    assert msgspec.json.decode(refused.body)["error"]["code"] == "overloaded"
    plain = await here.ask(headers=JSON, body=chat("d" * 600_000))
    assert plain.status == 200  # bodies that are not packed are bounded elsewhere
    gate.open()
    assert (await first.answer()).status == 200
    await until(lambda: held(here) == 0)
    again = await here.ask(headers=GZIP, body=gzip.compress(chat("c" * 600_000)))
    assert again.status == 200


async def test_small_packed_bodies_count_too(serve):
    gate = Gate()
    here = await serve(script=[Reply.pause(gate)])
    client = await here.connect()
    body = chat("e" * 1_000)
    await client.send(request(headers=GZIP, body=gzip.compress(body)))
    await gate.reached.wait()
    assert held(here) == len(body)
    gate.open()
    await client.answer()
    await until(lambda: held(here) == 0)


async def test_a_client_that_leaves_before_its_body_is_unpacked_leaves_nothing_behind(serve):
    here = await serve()
    client = await here.connect()
    await client.send(request(headers=GZIP, body=gzip.compress(chat(LARGE))))
    client.close()
    assert (await here.ask(headers=JSON, body=chat("Next"))).status == 200
    await until(lambda: held(here) == 0)
    assert here.app.server.handler_errors == 0


async def test_a_bomb_is_passed_on_unopened_and_takes_no_room(serve):
    gate = Gate()
    here = await serve("[gateway]\nmax_body = '1MB'", script=[Reply.pause(gate)])
    bomb = gzip.compress(bytes(50 << 20))
    client = await here.connect()
    await client.send(request(headers=GZIP, body=bomb))
    await gate.reached.wait()
    assert (here.provider.requests[0].body, held(here)) == (bomb, 0)
    gate.open()
    assert (await client.answer()).status == 200


async def test_a_decision_about_a_large_packed_body_is_made_by_what_it_says(serve):
    here = await serve()
    answers = [
        await here.ask(
            target="/looptrap/decision/v1/chat/completions",
            headers=GZIP,
            body=gzip.compress(chat(LARGE), mtime=turn),
        )
        for turn in range(6)
    ]
    assert [answer.status for answer in answers] == [200] * 5 + [429]
