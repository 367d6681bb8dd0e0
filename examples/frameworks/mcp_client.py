"""A small agent whose tools are on an MCP server; a refusal of the gateway ends its run."""

import asyncio
import json
import os

from mcp import Client, MCPError
from openai import AsyncOpenAI


async def run(server: Client) -> str:
    offered = (await server.list_tools()).tools
    functions = [{"name": one.name, "parameters": one.input_schema} for one in offered]
    tools = [{"type": "function", "function": one} for one in functions]
    ask = AsyncOpenAI().chat.completions.create
    messages: list = [{"role": "user", "content": "Are all parts in stock?"}]
    while True:
        answer = await ask(model="gpt-5.4-mini", messages=messages, tools=tools)
        message = answer.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return f"answer: {message.content}"
        for call in message.tool_calls:
            try:
                arguments = json.loads(call.function.arguments)
                result = await server.call_tool(call.function.name, arguments)
            except MCPError as error:
                if error.code != -32029:  # the gateway's code for a refusal
                    raise
                return f"stopped: {error.message}"
            text = result.content[0].text
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


async def main() -> None:
    async with Client(os.environ["LOOPTRAP_URL"] + "/mcp") as server:  # the gateway
        print(await run(server))


asyncio.run(main())
