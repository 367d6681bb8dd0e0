"""A small agent on LiteLLM; a refusal of the gateway ends its run."""

import json

import litellm
from openai import APIStatusError

parameters = {"type": "object", "properties": {"number": {"type": "integer"}}}
tool = {"type": "function", "function": {"name": "find_part", "parameters": parameters}}
messages: list = [{"role": "user", "content": "Are all parts in stock?"}]


def find_part(number: int) -> str:
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


for _ in range(50):
    try:
        answer = litellm.completion("openai/gpt-5.4-mini", messages, tools=[tool])
    except APIStatusError as error:
        refusal = error.body or {}
        if refusal.get("code") != "recursive_loop_detected":
            raise
        print(f"stopped: {refusal['message']}")
        break
    message = answer.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls or ():
        text = find_part(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    if not message.tool_calls:
        print(f"answer: {message.content}")
        break
