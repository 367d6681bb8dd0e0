"""A small agent on the Anthropic SDK; a refusal of the gateway ends its run."""

from anthropic import Anthropic, APIStatusError

client = Anthropic()  # ANTHROPIC_BASE_URL is the gateway
parameters = {"type": "object", "properties": {"number": {"type": "integer"}}}
tool = {"name": "find_part", "input_schema": parameters}
messages: list = [{"role": "user", "content": "Are all parts in stock?"}]


def find_part(number: int) -> str:
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


for _ in range(50):
    try:
        answer = client.messages.create(
            model="claude-sonnet-4-6", max_tokens=1000, messages=messages, tools=[tool]
        )
    except APIStatusError as error:
        if error.response.headers.get("x-looptrap-reason") != "loop_detected":
            raise
        print(f"stopped: {error.body['error']['message']}")
        break
    messages.append({"role": "assistant", "content": answer.content})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": find_part(**block.input)}
        for block in answer.content
        if block.type == "tool_use"
    ]
    if not results:
        print(f"answer: {answer.content[0].text}")
        break
    messages.append({"role": "user", "content": results})
