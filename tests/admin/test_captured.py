"""What a client sent, beside its incident: only where content is captured."""

import msgspec
import pytest
from tests.admin.operating import operating, told
from tests.gateway.serving import CHAT, JSON, until

ERROR = "Error: no such file: pumps/state.py"


def body(rounds, path="pumps/state.py", task="Fix the pump."):
    """Return a request whose latest rounds are all equal."""
    messages = [{"role": "user", "content": task}]
    for number in range(rounds):
        arguments = msgspec.json.encode({"path": path}).decode()
        function = {"name": "read_file", "arguments": arguments}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "content": ERROR},
        ]
    return msgspec.json.encode({"model": "gpt-5.3", "messages": messages})


async def looped(here, session=None, **more):
    """Have an agent loop until it is refused; return how many calls were sent."""
    headers = JSON | ({"X-Looptrap-Session": session} if session else {})
    for rounds in range(1, 7):
        await here.ask(target=CHAT, headers=headers, body=body(rounds, **more))
    return 6


async def captured(operator, here, number):
    found = []

    async def is_known():
        found[:] = (await told(operator, "GET", "/api/v1/incidents"))["incidents"]
        return found and found[0]["refused"] and here.app.capture.written == number

    await until(is_known)
    return await told(operator, "GET", f"/api/v1/incidents/{found[0]['id']}/captured")


@pytest.mark.parametrize("session", ["run-42", None], ids=["a named session", "a derived one"])
async def test_arguments_and_error_are_shown_and_can_be_tried(tmp_path, session):
    options = {"capture_dir": str(tmp_path / "calls"), "capture": "content"}
    async with operating(tmp_path, **options) as (here, operator):
        await here.ask(target=CHAT, headers=JSON, body=body(2, "other.py", "Another task."))
        number = await looped(here, session)
        found = await captured(operator, here, number + 1)
        assert found["calls"] == number
        [round_] = found["rounds"]
        assert round_["calls"] == 'read_file({"path":"pumps/state.py"})'
        assert (round_["result"], round_["is_error"]) == (ERROR, True)
        tried = await told(operator, "POST", "/api/v1/try", json={"text": found["text"]})
        assert tried["verdict"]["action"] == "block"
        assert len(tried["steps"]) == number


@pytest.mark.parametrize("form", ["digests", "off"])
async def test_without_content_there_is_nothing(tmp_path, form):
    folder = {} if form == "off" else {"capture_dir": str(tmp_path / "calls")}
    async with operating(tmp_path, capture=form, **folder) as (here, operator):
        await looped(here)
        [incident] = await incidents(operator)
        found = await told(operator, "GET", f"/api/v1/incidents/{incident['id']}/captured")
        assert found == {"calls": 0, "rounds": [], "text": ""}


async def incidents(operator):
    found = []

    async def are_there():
        found[:] = (await told(operator, "GET", "/api/v1/incidents"))["incidents"]
        return bool(found)

    await until(are_there)
    return found


async def test_an_unknown_incident_is_a_mistake(tmp_path):
    async with operating(tmp_path) as (_, operator):
        await told(operator, "GET", "/api/v1/incidents/inc_none/captured", status=404)
