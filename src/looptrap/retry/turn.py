"""Turns: one answer to a user, on one budget, however many steps, tools and agents it takes."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

import msgspec

from looptrap.detect.signals import ROUNDS, SignalOptions
from looptrap.detect.signals.repeat import Repeat
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.content import UNREADABLE, canonical_arguments, flatten
from looptrap.dialect.model import Call, Message, Request, ToolCall, ToolResult
from looptrap.errors import ConfigError, GiveUp
from looptrap.retry.breaker import Breakers
from looptrap.retry.decorator import function_name
from looptrap.retry.failure import Headers
from looptrap.retry.hook import Hook
from looptrap.retry.idempotency import idempotent
from looptrap.retry.policy import Chain, Link, RetryPolicy
from looptrap.retry.run import (
    Attempt,
    AttemptCall,
    RetryOptions,
    RetryRun,
    current_attempt,
    drive,
    drive_async,
    final_error,
    run_like,
)
from looptrap.retry.schedule import FinalFailure
from looptrap.retry.timing import Timing, current_timing
from looptrap.retry.turn_budget import (
    BAGGAGE_HEADER,
    TURN_HEADER,
    Marker,
    TurnAccount,
    TurnLimits,
    TurnState,
    TurnUsage,
    is_turn_id,
    read_turn_headers,
    write_turn_headers,
)

__all__ = [
    "BAGGAGE_HEADER",
    "INTERRUPTION",
    "TURN_HEADER",
    "Marker",
    "Turn",
    "TurnLimits",
    "TurnUsage",
    "current_turn",
]

MAX_REPEATS = 3
INTERRUPTION = (
    f"You have called the same tool {MAX_REPEATS} times with the same arguments."
    " The approach is not working. Try a different strategy."
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


class LoopCheck:
    """Remembers the latest tool calls of an agent, and checks them as the gateway does."""

    def __init__(self) -> None:
        # Polls are counted over more rounds than anything else.
        options = SignalOptions(ROUNDS["repeat"], first=MAX_REPEATS)
        self._messages: deque[msgspec.Raw] = deque(
            maxlen=2 * options.rounds * options.polls_per_repeat
        )
        self._with_results = Repeat(options)
        self._without = Repeat(options._replace(with_results=False))

    def message(self, name: str, call_arguments: object, result: object) -> str | None:
        """Record a call; return a message for the model when it repeats itself."""
        call = ToolCall("1", name, _readable(canonical_arguments, call_arguments))
        self._add(Message("assistant", calls=(call,)))
        repeat = self._without
        if result is not None:
            self._add(Message("tool", results=(ToolResult("1", _readable(flatten, result)),)))
            repeat = self._with_results
        found = repeat(Trajectory(self._history()))
        return INTERRUPTION if found is not None and found.count >= MAX_REPEATS else None

    def _add(self, message: Message) -> None:
        self._messages.append(msgspec.Raw(_encode(message)))

    def _history(self) -> Call:
        return Call(Request(), "openai_chat", raws=list(self._messages), read=_decode)


def _readable(read: Any, value: object) -> str:
    """Return a value as text, in canonical form where it has one."""
    try:
        text: str = read(value)
    except (*UNREADABLE, TypeError):
        return repr(value)
    return text


# Steps

MAX_ERROR_CHARS = 500
"""Characters of an error in a corrective prompt; more would only cost."""


def corrective_prompt(prompt: Any, answer: Any, error: Exception) -> Any:
    """Return the prompt, a text or a list of chat messages, with the answer and its error added."""
    shortened = str(error)[:MAX_ERROR_CHARS]
    correction = (
        f"Your answer could not be read: {shortened}\nAnswer again, in the format asked for."
    )
    if isinstance(prompt, str):
        return f"{prompt}\n\nYou answered:\n{answer}\n\n{correction}"
    if isinstance(prompt, list):
        answered = [{"role": "assistant", "content": answer}] if isinstance(answer, str) else []
        return [*prompt, *answered, {"role": "user", "content": correction}]
    raise TypeError(
        f"a prompt of type {type(prompt).__name__} cannot be corrected by itself: give `correct`"
    )


class TurnStep:
    """Claims one step of a turn when it is first run, however many attempts it takes."""

    def __init__(self, turn: TurnState) -> None:
        self._turn = turn
        self._number = 0
        self._is_owner = False
        self._retry_runs: list[RetryRun] = []

    def call(self, fn: Callable[..., Any], make: AttemptCall, chain: Chain | None = None) -> Any:
        """Call a function of any kind with the turn's policy."""
        options = replace(self._turn.options, chain=chain, timing=self._turn.timing)

        def begin() -> RetryRun:
            if not self._number:
                self._number = self._turn.begin_step()
                self._is_owner = current_attempt() is None
            now = self._turn.timing.clock()
            retry_run = RetryRun(
                options,
                function_name(fn),
                deadline=now + self._turn.account.left(now).deadline,
                turn=self._turn.id,
                error_factory=self._final_error,
            )
            self._retry_runs.append(retry_run)
            return retry_run

        return run_like(fn, begin, make)

    def ask(
        self,
        ask: Callable[[Any], Any],
        prompt: Any,
        parse: Callable[[Any], Any],
        correct: Callable[[Any, Any, Exception], Any],
    ) -> Any:
        """Ask and parse the answer, with one correction where the turn has one left."""
        first = self._ask(ask, prompt)

        def steps() -> Generator[Any, Any, Any]:
            """Yield answers, to be awaited; return the parsed one."""
            answer = yield first
            with self._giving_up():
                try:
                    return parse(answer)
                except Exception as error:
                    if not self._is_bad(error) or not self._turn.account.may_correct():
                        raise
                    better = correct(prompt, answer, error)
                    if better == prompt:  # the same prompt is never sent again
                        error.add_note(
                            "looptrap: not corrected, since the corrective prompt was the same"
                        )
                        raise
            answer = yield self._ask(ask, better)
            with self._giving_up():
                return parse(answer)

        return drive_async(steps()) if isawaitable(first) else drive(steps())

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Give the turn up where an answer cannot be parsed."""
        try:
            yield
        except Exception as error:
            if not self._is_owner or not self._is_bad(error):
                raise
            raise self._turn.give_up(self._number, "bad_output", self._attempts) from error

    def _ask(self, ask: Callable[[Any], Any], question: Any) -> Any:
        return self.call(ask, lambda _attempt: ask(question))

    def _is_bad(self, error: Exception) -> bool:
        """Return whether an error means that an answer could not be parsed."""
        classifiers = self._turn.options.policy.classifiers
        return isinstance(error, ValueError) or classifiers.classify(error).reason == "bad_output"

    @property
    def _attempts(self) -> int:
        return sum(retry_run.attempts for retry_run in self._retry_runs)

    def _final_error(self, failed: FinalFailure, error: BaseException | None) -> BaseException:
        """Return the final error: GiveUp, unless an outer attempt or the model decides."""
        if isinstance(error, GiveUp):
            return error  # an inner turn says more exactly where it ended
        cause = final_error(failed, error)
        if not self._is_owner or failed.failure.bucket == "tool":
            return cause
        now = self._turn.timing.clock()
        is_late = self._turn.account.left(now).deadline <= 0
        reason = "deadline" if is_late else failed.failure.reason
        given_up = self._turn.give_up(self._number, reason, self._attempts)
        given_up.__cause__ = cause
        if cause is not error:
            cause.__cause__ = error
        return given_up


# Turns

P = ParamSpec("P")
T = TypeVar("T")
M = TypeVar("M")
A = TypeVar("A")
R = TypeVar("R")

_CURRENT: ContextVar[Turn | None] = ContextVar("looptrap_retry_turn", default=None)
_DECISION: ContextVar[str] = ContextVar("looptrap_retry_decision", default="")


class TurnOptions(TypedDict, total=False):
    """The keyword arguments of a turn."""

    steps: int
    attempts: int
    deadline: float
    tool_calls: int
    tokens: int | None
    usd: float | None
    corrections: int
    policy: RetryPolicy
    breakers: Breakers | None
    hooks: Sequence[Hook]
    timing: Timing | None
    id: str


def current_turn() -> Turn | None:
    """Return the turn that this code runs in."""
    return _CURRENT.get()


class Turn:
    """One answer to a user: `with Turn() as turn`, or `async with Turn() as turn`.

    Inside another turn it is a part of that one: its usage counts for both.
    """

    def __init__(
        self,
        *,
        steps: int = 8,
        attempts: int = 3,
        deadline: float = 90.0,
        tool_calls: int = 15,
        tokens: int | None = None,
        usd: float | None = None,
        corrections: int = 1,
        policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        breakers: Breakers | None = None,
        hooks: Sequence[Hook] = (),
        timing: Timing | None = None,
        id: str = "",
    ) -> None:
        """Set the limits of the turn; `attempts` is for each step, and each link of a chain."""
        if id and not is_turn_id(id):
            raise ConfigError(f"turn: id is {id!r}, must be letters, digits, '-' or '_', up to 64")
        self._limits = TurnLimits(
            steps=steps,
            deadline=deadline,
            tool_calls=tool_calls,
            tokens=tokens,
            usd=usd,
            corrections=corrections,
        )
        policy = msgspec.structs.replace(policy, attempts=min(policy.attempts, attempts))
        self._options = RetryOptions(
            policy=policy, breakers=breakers, hooks=tuple(hooks), timing=timing
        )
        self._id = self._scope = id or secrets.token_hex(8)
        self._remote_attempt: Attempt | None = None
        self._state: TurnState | None = None
        self._outer: Turn | None = None
        self._check = LoopCheck()

    @classmethod
    def from_headers(cls, headers: Headers, **options: Unpack[TurnOptions]) -> Self:
        """Return the turn that a request belongs to; a new one where its headers have none.

        What its sender has left can only lower the limits given here. The sender retries: here
        every call is attempted once.
        """
        propagated = read_turn_headers(headers)
        if propagated is None:
            return cls(**options)
        options["id"] = propagated.turn
        turn = cls(**options)
        turn._limits = turn._limits.lower_to(propagated.left)
        # A guessed id must not give access to the idempotency keys of others.
        turn._scope = f"{turn._id}.{secrets.token_hex(8)}"
        turn._remote_attempt = Attempt(None, 0, None)
        return turn

    @property
    def id(self) -> str:
        """The id, shared with inner turns and other processes."""
        return self._id if self._state is None else self._state.id

    @property
    def step(self) -> int:
        """The number of the latest step; 0 before the first."""
        return self._run.step

    @property
    def left(self) -> TurnLimits:
        """What may still be used; `left.deadline` is a time-out for a client."""
        return self._run.account.left(self._run.timing.clock())

    @property
    def spent(self) -> TurnUsage:
        """What was used so far."""
        return self._run.account.spent(self._run.timing.clock())

    def headers(self, baggage: str = "") -> dict[str, str]:
        """Return the headers for another process to join, with the `baggage` of others added."""
        return write_turn_headers(self.id, self.left, baggage)

    # Steps

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Make one step: call a function with retries; raises GiveUp when it finally fails.

        A tool's failure is raised unchanged, for the model to change its plan. So is every failure
        inside another attempt, whose owner decides.
        """
        result: T = TurnStep(self._run).call(fn, lambda _attempt: fn(*args, **kwargs))
        return result

    def failover(
        self,
        chain: Chain,
        fn: Callable[Concatenate[Link, P], T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Make one step over a chain: the function gets the link to use as its first argument."""
        make = lambda attempt: fn(attempt.link or chain.links[0], *args, **kwargs)  # noqa: E731
        result: T = TurnStep(self._run).call(fn, make, chain)
        return result

    @overload
    def parsed(
        self,
        ask: Callable[[M], Awaitable[A]],
        prompt: M,
        parse: Callable[[A], R],
        correct: Callable[[M, A, Exception], M] = ...,
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def parsed(
        self,
        ask: Callable[[M], A],
        prompt: M,
        parse: Callable[[A], R],
        correct: Callable[[M, A, Exception], M] = ...,
    ) -> R: ...
    def parsed(
        self,
        ask: Callable[[Any], Any],
        prompt: Any,
        parse: Callable[[Any], Any],
        correct: Callable[[Any, Any, Exception], Any] = corrective_prompt,
    ) -> Any:
        """Make one step: ask, and parse the answer; one that cannot be parsed is asked for again.

        That happens once a turn, with another prompt, which `correct` makes from the prompt, the
        answer and the error.
        """
        return TurnStep(self._run).ask(ask, prompt, parse, correct)

    # Tools and money

    def tool(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a tool once, under its own idempotency key; its errors are raised unchanged."""
        number = self._run.begin_tool_call()
        key = self.key(_DECISION.get() or f"#{number}")
        with _as_decision(""), idempotent(key):
            result = fn(*args, **kwargs)
        return _awaited(key, result) if isawaitable(result) else result  # type: ignore[return-value]

    def decision(self, id: str) -> AbstractContextManager[None]:
        """Set the model's decision, its tool call's id, for the tool that is called inside."""
        return _as_decision(id)

    def key(self, decision: str) -> str:
        """Return the idempotency key of a decision in this step: `turn:step:decision`."""
        return f"{self._run.scope}:{self._run.step}:{decision}"

    def tool_message(self, name: str, arguments: object, result: object = None) -> str | None:
        """Record a tool call; return a message for the model when it repeats itself.

        That is from the third equal call with an equal result on; without results the arguments
        alone are compared.
        """
        return self._check.message(name, arguments, result)

    def spend(self, *, tokens: int = 0, usd: float = 0.0) -> None:
        """Record what was paid; a spent budget refuses the next step or tool."""
        if tokens < 0 or usd < 0:
            raise ValueError(f"tokens is {tokens} and usd {usd}, must be 0 or more")
        self._run.account.spend(tokens, usd)

    # Beginning and end

    def __enter__(self) -> Self:
        if self._state is not None:
            raise RuntimeError("a turn can be entered once only: create another one")
        outer = self._outer = _CURRENT.get()
        timing = self._options.timing
        if timing is None:
            timing = current_timing() if outer is None else outer._run.timing
        account = TurnAccount(
            self._limits, timing.clock(), None if outer is None else outer._run.account
        )
        id, scope = (self._id, self._scope) if outer is None else (outer.id, outer._run.scope)
        self._state = TurnState(id, scope, account, self._options, timing)
        _CURRENT.set(self)
        if self._remote_attempt is not None:
            self._remote_attempt.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        if self._remote_attempt is not None:
            self._remote_attempt.__exit__(*raised)
        _CURRENT.set(self._outer)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)

    @property
    def _run(self) -> TurnState:
        if self._state is None:
            raise RuntimeError("the turn was not entered: write `with Turn(…) as turn:`")
        return self._state


@contextmanager
def _as_decision(id: str) -> Iterator[None]:
    token = _DECISION.set(id)
    try:
        yield
    finally:
        _DECISION.reset(token)


async def _awaited(key: str, result: Awaitable[T]) -> T:
    with _as_decision(""), idempotent(key):
        return await result
