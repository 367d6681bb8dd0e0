"""A small agent on Pydantic AI; a refusal of the gateway ends its run."""

from pydantic_ai import Agent, ModelHTTPError

agent = Agent("openai:gpt-5.4-mini")  # OPENAI_BASE_URL is the gateway


@agent.tool_plain
def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


try:
    result = agent.run_sync("Are all parts in stock?")
except ModelHTTPError as error:
    if error.provider_error_code != "recursive_loop_detected":
        raise
    print(f"stopped: {error.body['message']}")
else:
    print(f"answer: {result.output}")
