"""A small agent on LlamaIndex; a refusal of the gateway ends its run."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from openai import APIStatusError


def find_part(number: int) -> str:
    """Say whether a part is in stock."""
    return "ERROR: the catalogue is offline" if number == 5 else f"part {number}: in stock"


model = OpenAILike(
    model="gpt-5.4-mini",
    api_base=os.environ["OPENAI_BASE_URL"],  # the gateway
    is_chat_model=True,
    is_function_calling_model=True,
)


async def main() -> None:
    agent = FunctionAgent(tools=[find_part], llm=model)
    try:
        print(f"answer: {await agent.run('Are all parts in stock?')}")
    except APIStatusError as error:
        if error.code != "recursive_loop_detected":
            raise
        print(f"stopped: {error.body['message']}")


asyncio.run(main())
