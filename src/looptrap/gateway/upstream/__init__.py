"""Attempts: how a call gets an answer when providers fail.

plan       Plan: what a route allows: places, attempts, time. Legs: its places for one caller
rewrite    the model's name, set in the bytes of a request
abroad     what of a request goes to another provider than the caller's own
journey    Journey: one call over its legs; the wire's sink until an answer is known to be good
held       Held: the beginning of an answer until then, and the look at its first events
dispatch   Dispatch: what all journeys share: circuits, tallies, time and chance
sharing    what instances with one store tell each other of circuits
event      what people are told when a circuit opens. Pure

Routes without attempts, a deadline or a second link have no plan, and none of this is touched.
"""

from looptrap.gateway.upstream.failover_plan import FailoverPlan, UpstreamTarget
from looptrap.gateway.upstream.routed_request import RoutedRequest
from looptrap.gateway.upstream.upstream_state import UpstreamState

__all__ = ["FailoverPlan", "RoutedRequest", "UpstreamState", "UpstreamTarget"]
