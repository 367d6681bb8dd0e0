"""Agents that go in circles, as a gateway meets them; and what operators see of them."""

import msgspec
from tests.admin.operating import told
from tests.gateway.serving import JSON, chat, until

PATH = "/api/v1/incidents"


def history(*rounds, task="Make the tests pass."):
    """Return the body of a request whose history has these rounds: names, arguments, results."""
    messages = [{"role": "user", "content": task}]
    for number, (name, arguments, result) in enumerate(rounds):
        function = {"name": name, "arguments": msgspec.json.encode(arguments).decode()}
        called = [{"id": f"c{number}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": called})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return msgspec.json.encode({"model": "gpt-5.3", "messages": messages})


def reading(times, tool="read_file", **more):
    """Return a history in which one file was read so many times, and never another."""
    return history(*[(tool, {"path": "a.py"}, "import b\n" * 9)] * times, **more)


async def loop(here, times=7, text="Again?", **headers):
    """Send the same so many times; return the statuses."""
    asked = [await here.ask(headers=JSON | headers, body=chat(text)) for _ in range(times)]
    return [answer.status for answer in asked]


async def incident(operator, is_so=lambda one: True, **wanted):
    """Wait for an incident that is so; return all that is known of it."""
    found = []

    async def is_there():
        page = await told(operator, "GET", PATH, params={"state": "all", **wanted})
        for one in page["incidents"]:
            shown = await told(operator, "GET", f"{PATH}/{one['id']}")
            if is_so(shown):
                found.append(shown)
        return bool(found)

    await until(is_there)
    return found[0]
