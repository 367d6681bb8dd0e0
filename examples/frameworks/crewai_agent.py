"""A small crew on CrewAI; a refusal of the gateway ends its run."""

from crewai import Agent, Crew, Task
from crewai.tools import tool
from openai import APIStatusError


@tool
def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


keeper = Agent(
    role="storekeeper",
    goal="know what is in stock",
    backstory="You keep the store.",
    llm="openai/gpt-5.4-mini",  # OPENAI_BASE_URL is the gateway
    max_retry_limit=0,  # otherwise CrewAI restarts the whole task, twice
    tools=[find_part],
)
task = Task(description="Are all parts in stock?", expected_output="yes or no", agent=keeper)
try:
    print(f"answer: {Crew(agents=[keeper], tasks=[task]).kickoff().raw}")
except APIStatusError as error:
    if error.code != "recursive_loop_detected":
        raise
    print(f"stopped: {error.body['message']}")
