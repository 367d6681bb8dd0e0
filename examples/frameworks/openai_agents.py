"""A small agent on the OpenAI Agents SDK; a refusal of the gateway ends its run."""

from agents import Agent, Runner, function_tool, set_tracing_disabled
from openai import APIStatusError

set_tracing_disabled(True)  # traces go to OpenAI, whatever the base URL is


@function_tool
def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


agent = Agent(name="Stock", model="gpt-5.4-mini", tools=[find_part])

try:  # OPENAI_BASE_URL is the gateway
    result = Runner.run_sync(agent, "Are all parts in stock?", max_turns=50)
except APIStatusError as error:
    if error.code != "recursive_loop_detected":
        raise
    print(f"stopped: {error.body['message']}")
else:
    print(f"answer: {result.final_output}")
