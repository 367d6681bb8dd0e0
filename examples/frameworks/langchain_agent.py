"""A small agent on LangChain; a refusal of the gateway is the last message of its run."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from looptrap.langchain import LooptrapMiddleware


def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


agent = create_agent(
    ChatOpenAI(model="gpt-5.4-mini"),  # OPENAI_BASE_URL is the gateway
    tools=[find_part],
    middleware=[LooptrapMiddleware()],
)

result = agent.invoke({"messages": [{"role": "user", "content": "Are all parts in stock?"}]})
last = result["messages"][-1]
refused = last.response_metadata.get("looptrap")
print(f"{'stopped' if refused else 'answer'}: {last.text}")
