"""Runs one loop detector of PyPI in an environment of its own, over standard input and output.

python -I bench/loops/package_worker.py NAME

Imports nothing of Looptrap. The first line that it writes is `{"ready": true}` or
`{"error": …}`. Then it answers each line `{"run": …, "agent": …, "turns": […]}` by a line
`{"verdict": …, "reason": …, "cpu": …}`. A new run ends the one before. Every package is used as its
own documentation says, with its defaults.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

Found = tuple[str, str]
"""A verdict, and its reason."""

OK: Found = ("allow", "")
RANKS = ("allow", "warn", "refuse")


class Adapter:
    """One package in one agent: says of each tool call, with its result, what it thinks of it."""

    is_timed = True
    """Whether the time that it takes is the package's own."""

    def turn(self, turn: dict[str, Any]) -> Iterator[Found]:
        """Yield what the package says of a turn."""
        for use in turn["uses"]:
            yield from self.use(use)

    def use(self, use: dict[str, Any]) -> Iterator[Found]:
        """Yield what it says of one tool call with its result."""
        raise NotImplementedError


def fields(use: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as a mapping."""
    arguments = use["arguments"]
    return arguments if isinstance(arguments, dict) else {"input": arguments}


class LoopguardRuntime(Adapter):
    """The callback handler of loopguard-runtime: README, Quickstart."""

    def __init__(self) -> None:
        from loopguard import LoopGuardCallbackHandler, LoopGuardInterrupt

        self._handler, self._interrupt = LoopGuardCallbackHandler(), LoopGuardInterrupt

    def use(self, use: dict[str, Any]) -> Iterator[Found]:
        """Tell the handler of a tool's start and end; it raises in order to stop."""
        before = len(self._handler.monitor.decisions)
        try:
            self._handler.on_tool_start({"name": use["tool"]}, inputs=fields(use))
            if use["is_error"]:
                self._handler.on_tool_error(RuntimeError(use["result"]))
            elif use["result"] is not None:
                self._handler.on_tool_end(use["result"])
        except self._interrupt as stop:
            yield "refuse", str(stop)
        for decision in self._handler.monitor.decisions[before:]:
            if decision.action.value != "continue":
                yield "warn", decision.action.value


class LongGuard(Adapter):
    """The circuit breaker of longguard: README, Standalone / Custom Agent Loop.

    It is not told of tokens, so that its cap on tokens has no effect.
    """

    def __init__(self) -> None:
        from longguard import AgentStep, CircuitBreaker, GuardConfig

        self._breaker, self._step = CircuitBreaker(GuardConfig()), AgentStep
        self._count = 0

    def turn(self, turn: dict[str, Any]) -> Iterator[Found]:
        """Check each tool call, or a turn without any, as a step."""
        for use in turn["uses"] or [None]:
            yield self._check(turn["text"], use)

    def _check(self, thought: str, use: dict[str, Any] | None) -> Found:
        """Check a step: `reflect` injects a prompt, `kill` ends the run."""
        self._count += 1
        called = (
            {"action": use["tool"], "action_input": fields(use), "observation": use["result"]}
            if use
            else {}
        )
        found = self._breaker.check(self._step(step_number=self._count, thought=thought, **called))
        actions = {"continue": "allow", "reflect": "warn", "kill": "refuse"}
        return actions[found.action], found.reason


class LoopGuardrail(Adapter):
    """The controller of loop-guardrail, with hard stops: README, Usage."""

    def __init__(self) -> None:
        from loop_guardrail import ToolCallGuardrailConfig, ToolCallGuardrailController

        config = ToolCallGuardrailConfig(hard_stop_enabled=True)
        self._controller = ToolCallGuardrailController(config)

    def use(self, use: dict[str, Any]) -> Iterator[Found]:
        """Check before and after the call."""
        arguments = fields(use)
        checks = [self._controller.before_call(use["tool"], arguments)]
        if use["result"] is not None:
            failed = True if use["is_error"] else None  # else it finds out itself
            checks.append(
                self._controller.after_call(use["tool"], arguments, use["result"], failed)
            )
        actions = {"allow": "allow", "warn": "warn", "block": "refuse", "halt": "refuse"}
        for check in checks:
            yield actions[check.action], check.message


class AgentLoopGuard(Adapter):
    """The guard of agent-loop-guard: README, API.

    It computes edit distances in Python, which takes long here. Another library computes the same
    ones for it, so its own time is not known.
    """

    is_timed = False

    def __init__(self) -> None:
        from loop_guard import LoopGuard, similarity
        from rapidfuzz.distance import Levenshtein

        similarity.normalized_edit_distance = Levenshtein.normalized_distance
        self._guard = LoopGuard()

    def use(self, use: dict[str, Any]) -> Iterator[Found]:
        """Check a call with its output."""
        found = self._guard.check(tool=use["tool"], args=fields(use), output=use["result"])
        yield "refuse" if found.is_loop else "warn" if found.should_warn else "allow", found.reason


class PraisonAgents(Adapter):
    """The loop detection of praisonaiagents, as its agent uses it with `loop_detection=True`."""

    def __init__(self) -> None:
        from praisonaiagents.agent import loop_detection

        self._rules, self._history = loop_detection, []
        self._config = loop_detection.LoopDetectionConfig(enabled=True)

    def use(self, use: dict[str, Any]) -> Iterator[Found]:
        """Record a call, look for loops, and record its result."""
        arguments = fields(use)
        about = (self._history, use["tool"], arguments)
        self._rules.record_tool_call(*about, self._config)
        found = self._rules.detect_tool_loop(*about, self._config)
        if use["result"] is not None:
            self._rules.record_tool_outcome(*about, use["result"], self._config)
        if found.get("stuck"):
            is_critical = found["level"] == "critical"
            yield "refuse" if is_critical else "warn", found["message"]


class AgentLoopDetector(Adapter):
    """The detector of agent-loop-detector on each output: README, Basic Loop Detection."""

    def __init__(self) -> None:
        from agent_loop_detector import LoopDetector

        self._detector = LoopDetector()

    def turn(self, turn: dict[str, Any]) -> Iterator[Found]:
        """Check an answer: its text and its calls."""
        calls = [json.dumps([use["tool"], use["arguments"]]) for use in turn["uses"]]
        if self._detector.check("\n".join([turn["text"], *calls])):
            yield "refuse", "similar outputs in a row"


class AgentCircuit(Adapter):
    """The decorator of agentcircuit around each tool, as a node: README, Quick Start."""

    def __init__(self) -> None:
        from agentcircuit import reliable
        from agentcircuit.fuse import LoopError
        from agentcircuit.storage import InMemoryStorage

        self._reliable, self._error, self._storage = reliable, LoopError, InMemoryStorage()

    def use(self, use: dict[str, Any]) -> Iterator[Found]:
        """Call a node that returns the result; the fuse raises in order to stop."""

        def node(state: dict[str, Any]) -> str:  # noqa: ARG001
            return use["result"] or ""

        try:
            self._reliable(node_name=use["tool"], storage=self._storage)(node)(fields(use))
        except self._error as stop:
            yield "refuse", str(stop)


ADAPTERS: dict[str, Callable[[], Adapter]] = {
    "loopguard-runtime": LoopguardRuntime,
    "longguard": LongGuard,
    "loop-guardrail": LoopGuardrail,
    "agent-loop-guard": AgentLoopGuard,
    "praisonaiagents": PraisonAgents,
    "agent-loop-detector": AgentLoopDetector,
    "agentcircuit": AgentCircuit,
}


def main() -> None:
    """Answer lines until there are no more."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what packages print is no answer
    logging.disable()
    make = ADAPTERS[sys.argv[1]]
    try:
        make()
    except Exception as error:  # noqa: BLE001 - whatever a package raises, it cannot be used
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=out)
        return
    print(json.dumps({"ready": True}), file=out)
    run, agents = None, {}
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["run"] != run:
            run, agents = asked["run"], {}
        begun = process_time()
        agent = agents.get(asked["agent"])
        if agent is None:
            agent = agents[asked["agent"]] = make()
        found = [one for turn in asked["turns"] for one in agent.turn(turn)]
        verdict, reason = max(found, key=lambda one: RANKS.index(one[0]), default=OK)
        spent = process_time() - begun if agent.is_timed else 0.0
        print(json.dumps({"verdict": verdict, "reason": reason, "cpu": spent}), file=out)


if __name__ == "__main__":
    main()
