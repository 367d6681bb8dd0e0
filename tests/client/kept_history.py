"""An agent of OpenAI's Responses API whose history the provider keeps: each call names the last."""

from collections.abc import Awaitable

import openai

from looptrap.testing import Reply

MODEL = "gpt-5.4-mini"
READ = Reply.tool_call("read_file", {"path": "a.py"})
TOOLS = [{"type": "function", "name": "read_file", "parameters": {"type": "object"}}]
NO_FILE = "No such file: a.py"


async def run(client, *, stream=False, rounds=12, result=lambda number: NO_FILE):
    """Have an agent do what the model says; return the number of answers it got, and the error."""
    new, before = "Fix a.py.", None
    for number in range(rounds):
        try:
            answer = await ask(client, stream, input=new, previous_response_id=before)
        except openai.RateLimitError as error:
            return number, error
        before = answer.id
        called = [item.call_id for item in answer.output if item.type == "function_call"]
        new = [
            {"type": "function_call_output", "call_id": id, "output": result(number)}
            for id in called
        ]
    return rounds, None


async def ask(client, stream, **sent):
    """Return a response, in one piece or when its stream has ended."""
    asked = client.responses.create(model=MODEL, tools=TOOLS, stream=stream, **sent)
    if isinstance(asked, Awaitable):
        asked = await asked
    if not stream:
        return asked
    is_async = hasattr(asked, "__aiter__")
    events = [event async for event in asked] if is_async else list(asked)
    return events[-1].response
