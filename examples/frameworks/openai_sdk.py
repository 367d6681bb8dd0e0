"""A small agent on the OpenAI SDK; a refusal of the gateway ends its run."""

import json

from openai import APIStatusError, OpenAI

client = OpenAI()  # OPENAI_BASE_URL is the gateway
parameters = {"type": "object", "properties": {"number": {"type": "integer"}}}
tool = {"type": "function", "function": {"name": "find_part", "parameters": parameters}}
messages: list = [{"role": "user", "content": "Are all parts in stock?"}]


def find_part(number: int) -> str:
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


for _ in range(50):
    try:
        answer = client.chat.completions.create(
            model="gpt-5.4-mini", messages=messages, tools=[tool]
        )
    except APIStatusError as error:
        if error.code != "recursive_loop_detected":
            raise
        print(f"stopped: {error.body['message']}")
        break
    message = answer.choices[0].message
    messages.append(message)
    for call in message.tool_calls or ():
        text = find_part(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    if not message.tool_calls:
        print(f"answer: {message.content}")
        break
