"""A small agent on smolagents; a refusal of the gateway ends its run."""

from smolagents import AgentGenerationError, OpenAIModel, ToolCallingAgent, tool


@tool
def find_part(number: int) -> str:
    """Say whether a part is in stock.

    Args:
        number: The part's number.
    """
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


model = OpenAIModel("gpt-5.4-mini", retry=False)  # OPENAI_BASE_URL is the gateway
agent = ToolCallingAgent(tools=[find_part], model=model, verbosity_level=-1)
try:
    print(f"answer: {agent.run('Are all parts in stock?')}")
except AgentGenerationError as error:
    refusal = error.__cause__
    if getattr(refusal, "code", "") != "recursive_loop_detected":
        raise
    print(f"stopped: {refusal.body['message']}")
