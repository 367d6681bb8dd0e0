"""The gateway refuses an agent that names a new session with every call."""

from tests.gateway.serving import JSON, chat

from looptrap.testing import Reply


async def test_the_twelfth_equal_call_right_after_the_answer_before_is_refused(serve, monkeypatch):
    now = [1_800_000_000.0]

    def reply(_received):
        now[0] += 4  # what an answer takes
        return Reply.text("Done.")

    here = await serve(script=reply)
    gateway = here.app.gateway
    monkeypatch.setattr(gateway, "clock", lambda: now[0])
    monkeypatch.setattr(gateway._settler, "clock", lambda: now[0])
    statuses = []
    for number in range(13):
        answer = await here.ask(headers={**JSON, "X-Session-Id": f"s-{number}"}, body=chat())
        statuses.append(answer.status)
        now[0] += 1
    assert statuses == [200] * 11 + [429] * 2
    assert b"sent 13 times in a row, under other sessions or users" in answer.body
