"""Forms in which calls are no tool calls: plain text, one long message, rounds merged in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from bench.loops.form import (
    CHAT,
    MESSAGES,
    Done,
    Entry,
    Frame,
    Json,
    Say,
    Use,
    anthropic_body,
    chat_body,
    image_url,
    text_of,
)

PAGE = "\n### Page state\n"
"""Stands between what an action said and the page that is seen after it."""
DETAILS = "<environment_details>"


# how a model writes a call


def xml_of(done: Done) -> str:
    """Return a call as an element per tool, with one per argument (Cline, Roo)."""
    said = [done.text] if done.text else []
    for use in done.uses:
        fields = "\n".join(f"<{key}>{_plain(value)}</{key}>" for key, value in use.args.items())
        said.append(f"<{use.name}>\n{fields}\n</{use.name}>")
    return "\n\n".join(said)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def react_of(done: Done) -> str:
    """Return a call as thought, action and action input (CrewAI, LlamaIndex)."""
    calls = [f"Action: {use.name}\nAction Input: {use.arguments}" for use in done.uses]
    return "\n".join([f"Thought: {done.text or 'I should go on.'}", *calls])


def dspy_of(done: Done) -> str:
    """Return a call as fields between markers (DSPy)."""
    name, arguments = _first(done)
    return (
        f"[[ ## next_thought ## ]]\n{done.text}\n\n[[ ## next_tool_name ## ]]\n{name}\n\n"
        f"[[ ## next_tool_args ## ]]\n{arguments}\n\n[[ ## completed ## ]]"
    )


def browser_of(done: Done) -> str:
    """Return a call as the JSON that a browser agent answers with (browser-use)."""
    name, arguments = _first(done)
    return json.dumps(
        {
            "evaluation_previous_goal": "Success" if done.uses else "Done",
            "memory": done.text,
            "next_goal": done.text,
            "action": [{name: json.loads(arguments)}],
        }
    )


def _first(done: Done) -> tuple[str, str]:
    return (done.uses[0].name, done.uses[0].arguments) if done.uses else ("finish", "{}")


# requests


def xml_chat_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    body = chat_body(frame, [])
    for entry in entries:
        body["messages"] += _xml_messages(entry)
    return body


def xml_anthropic_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    body = anthropic_body(frame, [])
    for entry in entries:
        body["messages"] += _xml_messages(entry)
    return body


def _xml_messages(entry: Entry) -> list[Json]:
    if isinstance(entry, Done):
        said = {"role": "assistant", "content": [{"type": "text", "text": xml_of(entry)}]}
        parts = [part for use in entry.uses for part in _xml_parts(use)]
        return [said, {"role": "user", "content": parts}] if parts else [said]
    assert isinstance(entry, Say)
    return [{"role": entry.role, "content": [{"type": "text", "text": entry.text}]}]


def _xml_parts(use: Use) -> list[Json]:
    """Return head, output and what the harness adds as a part each."""
    told, mark, details = use.result.partition(DETAILS)
    head, _, output = told.partition("\n")
    texts = [head, output.rstrip("\n"), mark + details]
    return [{"type": "text", "text": text} for text in texts if text]


def crew_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    """Return a body in which each answer goes on with what was observed."""
    flat = [
        Say("assistant", "\n".join([react_of(entry), *(f"Observation: {u.result}" for u in uses)]))
        if isinstance(entry, Done) and (uses := entry.uses)
        else entry
        for entry in entries
    ]
    return chat_body(frame, flat)


def react_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    """Return a body in which a user's message says what was observed."""
    flat: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Done):
            flat.append(Say("assistant", react_of(entry)))
            flat += [Say("user", f"Observation: {use.result}") for use in entry.uses]
        else:
            flat.append(entry)
    return chat_body(frame, flat)


def dspy_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    """Return a body whose one user message has the task and all rounds."""
    task, rounds = _split(entries)
    told = []
    for number, (done, use) in enumerate(rounds):
        fields = {
            "thought": done.text,
            "tool_name": use.name,
            "tool_args": use.arguments,
            "observation": use.result,
        }
        told += [f"[[ ## {key}_{number} ## ]]\n{value}" for key, value in fields.items()]
    asked = (
        f"[[ ## question ## ]]\n{task}\n\n[[ ## trajectory ## ]]\n"
        + "\n\n".join(told)
        + "\n\nAnswer with the fields `[[ ## next_thought ## ]]`, `[[ ## next_tool_name ## ]]` and "
        "`[[ ## next_tool_args ## ]]`, then the marker `[[ ## completed ## ]]`."
    )
    return chat_body(frame, [Say("user", asked)])


def _split(entries: Iterable[Entry]) -> tuple[str, list[tuple[Done, Use]]]:
    """Return the task, and each call with its round."""
    told = list(entries)
    task = "\n\n".join(entry.text for entry in told if isinstance(entry, Say))
    return task, [(one, use) for one in told if isinstance(one, Done) for use in one.uses]


def browser_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    """Return a body whose one user message has what was done, and the page as it is now."""
    task, rounds = _split(entries)
    steps, page, image = [], "about:blank", ""
    for number, (done, use) in enumerate(rounds, 1):
        told, _, page = use.result.partition(PAGE)
        image = use.image
        steps.append(
            f"<step_{number}>\nEvaluation of Previous Step: Done.\nNext Goal: {done.text}\n"
            f"Action Results:\nAction 1/1: {told}\n</step_{number}>"
        )
    history = "\n".join(steps) or "Agent initialized"
    text = (
        f"<agent_history>\n{history}\n</agent_history>\n\n<agent_state>\n"
        f"<user_request>\n{task}\n</user_request>\n"
        f"<step_info>Step {len(rounds) + 1} of 100</step_info>\n</agent_state>\n"
        f"<browser_state>\n{page}\n</browser_state>"
    )
    parts: list[Json] = [{"type": "text", "text": text}]
    if image:
        parts.append({"type": "image_url", "image_url": {"url": image_url(image)}})
    body = chat_body(frame, [])
    body["messages"].append({"role": "user", "content": parts})
    return body


def merged_chat_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    return chat_body(frame, _merged(entries))


def merged_anthropic_body(frame: Frame, entries: Iterable[Entry]) -> Json:
    return anthropic_body(frame, _merged(entries))


def _merged(entries: Iterable[Entry]) -> list[Entry]:
    """Return a history in which rounds in a row are one, with all their calls (Mastra)."""
    told: list[Entry] = []
    for entry in entries:
        match told[-1:], entry:
            case [Done(text, uses, id)], Done(text=more, uses=later):
                both = "\n\n".join(part for part in (text, more) if part)
                told[-1] = Done(both, [*uses, *later], id)
            case _:
                told.append(entry)
    return told


WRITTEN: dict[str, tuple[str, Callable[[Done], str]]] = {
    "text": ("chat", text_of),
    "xml": ("chat", xml_of),
    "xml-anthropic": ("anthropic", xml_of),
    "crew": ("chat", react_of),
    "react": ("chat", react_of),
    "dspy": ("chat", dspy_of),
    "browser": ("chat", browser_of),
}
"""Forms of plain text: in which API's form an answer is, and how the model writes a round."""
MERGED = {"merged": "chat", "merged-anthropic": "anthropic"}
BODIES = {
    "xml": xml_chat_body,
    "xml-anthropic": xml_anthropic_body,
    "crew": crew_body,
    "react": react_body,
    "dspy": dspy_body,
    "browser": browser_body,
    "merged": merged_chat_body,
    "merged-anthropic": merged_anthropic_body,
}
PATHS = {form: MESSAGES if form.endswith("anthropic") else CHAT for form in BODIES}
