"""Calls of every dialect, written once, with a canary wherever a client can write something."""

from typing import Any

CANARY = "kanarienvogel"
MODEL = "a-model"
TOOL = "look_up"
PNG = f"data:image/png;base64,{CANARY}"
ARGUMENTS = {"what": CANARY, CANARY: 1}

Body = dict[str, Any]


def chat(rounds: int) -> Body:
    messages: list[Body] = [
        {"role": "system", "content": f"Mind {CANARY}."},
        {
            "role": "user",
            "name": CANARY,
            "content": [
                {"type": "text", "text": f"Where is {CANARY}?"},
                {"type": "image_url", "image_url": {"url": PNG}},
            ],
        },
    ]
    for number in range(rounds):
        id = f"{CANARY}_{number}"
        function = {"name": TOOL, "arguments": f'{{"what": "{CANARY}"}}'}
        call = {"id": id, "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": f"{CANARY}!", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": id, "content": f"error: {CANARY} not found"},
        ]
    tool = {"name": TOOL, "description": CANARY, "parameters": {"type": CANARY}}
    return {
        "model": MODEL,
        "user": CANARY,
        "messages": messages,
        "tools": [{"type": "function", "function": tool}],
        "metadata": {CANARY: CANARY},
    }


def responses(rounds: int) -> Body:
    items: list[Body] = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": f"Where is {CANARY}?"},
                {"type": "input_image", "image_url": PNG},
            ],
        }
    ]
    for number in range(rounds):
        id = f"{CANARY}_{number}"
        items += [
            {"type": "reasoning", "id": id, "summary": [{"type": "summary_text", "text": CANARY}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": f"{CANARY}!"}]},
            {
                "type": "function_call",
                "call_id": id,
                "name": TOOL,
                "arguments": f'{{"what": "{CANARY}"}}',
            },
            {"type": "function_call_output", "call_id": id, "output": f"error: no {CANARY} found"},
        ]
    return {
        "model": MODEL,
        "user": CANARY,
        "instructions": f"Mind {CANARY}.",
        "input": items,
        "tools": [{"type": "function", "name": TOOL, "description": CANARY}],
    }


def completions(rounds: int) -> Body:
    said = "".join(f"\n{number}: look up {CANARY}: error" for number in range(rounds))
    return {"model": MODEL, "user": CANARY, "prompt": f"Where is {CANARY}?{said}"}


def anthropic(rounds: int) -> Body:
    image = {"type": "base64", "media_type": "image/png", "data": CANARY}
    asked = [
        {"type": "text", "text": f"Where is {CANARY}?"},
        {"type": "image", "source": image},
    ]
    messages: list[Body] = [{"role": "user", "content": asked}]
    for number in range(rounds):
        id = f"{CANARY}_{number}"
        result = {
            "type": "tool_result",
            "tool_use_id": id,
            "is_error": True,
            "content": [{"type": "text", "text": f"{CANARY} not found"}],
        }
        messages += [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": CANARY, "signature": CANARY},
                    {"type": "text", "text": f"{CANARY}!"},
                    {"type": "tool_use", "id": id, "name": TOOL, "input": ARGUMENTS},
                ],
            },
            {"role": "user", "content": [result, {"type": "text", "text": f"Mind {CANARY}."}]},
        ]
    return {
        "model": MODEL,
        "max_tokens": 64,
        "metadata": {"user_id": CANARY},
        "system": [{"type": "text", "text": f"Mind {CANARY}."}],
        "messages": messages,
        "tools": [{"name": TOOL, "description": CANARY, "input_schema": {"type": "object"}}],
    }


def gemini(rounds: int) -> Body:
    image = {"inlineData": {"mimeType": "image/png", "data": CANARY}}
    contents: list[Body] = [
        {"role": "user", "parts": [{"text": f"Where is {CANARY}?"}, image]},
    ]
    for _ in range(rounds):
        response = {"name": TOOL, "response": {"error": f"{CANARY} not found"}}
        contents += [
            {
                "role": "model",
                "parts": [
                    {"text": f"{CANARY}!"},
                    {"functionCall": {"name": TOOL, "args": ARGUMENTS}},
                ],
            },
            {"role": "user", "parts": [{"functionResponse": response}]},
        ]
    return {
        "systemInstruction": {"parts": [{"text": f"Mind {CANARY}."}]},
        "contents": contents,
        "tools": [{"functionDeclarations": [{"name": TOOL, "description": CANARY}]}],
    }


DIALECTS = {
    "openai_chat": ("/v1/chat/completions", chat),
    "openai_responses": ("/v1/responses", responses),
    "openai_completions": ("/v1/completions", completions),
    "anthropic": ("/v1/messages", anthropic),
    "gemini": (f"/v1beta/models/{MODEL}:generateContent", gemini),
}
"""Where each dialect is spoken, and a request in it that carries so many rounds of a loop."""
