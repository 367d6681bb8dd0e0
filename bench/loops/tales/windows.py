"""Tales of other modules in requests that show only a part of the run."""

from __future__ import annotations

from bench.loops.tales import acting, coding, repairs, searching, setbacks, talking, waiting
from bench.loops.tales.tale import Case, Teller

Told = tuple[str, Teller, str, dict[str, int]]

TRIMMED_LOOPS: list[Told] = [
    ("failure", setbacks.same_failure, "openhands", {"last": 5}),
    ("red", repairs.same_red, "cline", {"last": 6}),
    ("job", waiting.stuck_job, "langgraph", {"last": 3}),
    ("ring", repairs.cycle_of(5), "deepagents", {"last": 4}),
    ("hits", searching.same_hits, "langgraph-anthropic", {"last": 4}),
]
TRIMMED_HONEST: list[Told] = [
    ("recovery", setbacks.failures_then_recovery, "openhands", {"last": 5}),
    ("fewer", repairs.fewer_red, "cline", {"last": 6}),
    ("moving", waiting.moving_job, "langgraph", {"last": 3}),
    ("routine", repairs.routine_of(5), "deepagents", {"last": 4}),
    ("hits", searching.new_hits, "langgraph-anthropic", {"last": 4}),
]
ELIDED_LOOPS: list[Told] = [
    ("read", coding.same_read, "claude-code", {"whole": 3}),
    ("edits", setbacks.failing_edits, "opencode", {"whole": 4}),
    ("red", repairs.same_red, "swe-agent-text", {"whole": 5}),
    ("rows", searching.no_rows, "pydantic-ai", {"whole": 2}),
    ("pod", waiting.pending_pod, "claude-code", {"whole": 3}),
]
ELIDED_HONEST: list[Told] = [
    ("reread", coding.reread_after_edit, "claude-code", {"whole": 3}),
    ("late", setbacks.edits_that_match_late, "opencode", {"whole": 4}),
    ("green", repairs.late_green, "swe-agent-text", {"whole": 5}),
    ("rows", searching.new_rows, "pydantic-ai", {"whole": 2}),
    ("rollout", waiting.slow_rollout, "claude-code", {"whole": 3}),
]
COMPACTED_LOOPS: list[Told] = [
    ("red", repairs.same_red, "claude-code", {"every": 9}),
    ("failure", setbacks.same_failure, "codex", {"every": 7}),
    ("pong", repairs.there_and_back, "opencode", {"every": 8}),
    ("lock", waiting.state_lock, "gemini-cli", {"every": 10}),
    ("hits", searching.same_hits, "mcp-desktop", {"every": 6}),
]
COMPACTED_HONEST: list[Told] = [
    ("fewer", repairs.fewer_red, "claude-code", {"every": 9}),
    ("recovery", setbacks.failures_then_recovery, "codex", {"every": 7}),
    ("tuning", repairs.tuning, "opencode", {"every": 8}),
    ("workspaces", waiting.modules_applied, "gemini-cli", {"every": 10}),
    ("hits", searching.new_hits, "mcp-desktop", {"every": 6}),
]
KEPT_LOOPS: list[Told] = [
    ("job", waiting.stuck_job, "openai-agents", {}),
    ("hits", searching.same_hits, "openai-agents", {}),
    ("pong", talking.hand_off_ping_pong, "openai-agents", {}),
    ("posts", acting.again("post_message", rewords=False), "openai-agents", {}),
    ("cells", searching.same_key_error, "openai-agents", {}),
]
KEPT_HONEST: list[Told] = [
    ("moving", waiting.moving_job, "openai-agents", {}),
    ("hits", searching.new_hits, "openai-agents", {}),
    ("answers", talking.hand_offs_with_answers, "openai-agents", {}),
    ("posts", acting.to_all("post_message"), "openai-agents", {}),
    ("pages", searching.paging, "openai-agents", {}),
    ("quiet", waiting.quiet_then_done, "openai-agents", {}),
]


def cases() -> list[Case]:
    """Return all cases of this module; the kind is the way in which runs are shown."""
    found = []
    for shows, loops, honest in (
        ("trimmed", TRIMMED_LOOPS, TRIMMED_HONEST),
        ("elided", ELIDED_LOOPS, ELIDED_HONEST),
        ("compacted", COMPACTED_LOOPS, COMPACTED_HONEST),
        ("kept", KEPT_LOOPS, KEPT_HONEST),
    ):
        for is_loop, told in ((True, loops), (False, honest)):
            found += [
                Case(shows, story, is_loop, tell, harness, shows, "hard", options)
                for story, tell, harness, options in told
            ]
    return found
