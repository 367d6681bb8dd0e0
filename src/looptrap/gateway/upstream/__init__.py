"""How a call gets an answer when providers fail.

failover_plan      FailoverPlan: the targets, attempts and time of a route; Candidate: a target
routed_request     RoutedRequest: one call, attempt by attempt
attempt            UpstreamAttempt: one attempt, whose answer is held until it is known to be good
outbound_request   RequestBuilder: what is sent to each candidate
upstream_state     UpstreamState: the circuits and counts of all calls; which providers fail now;
                   CircuitWatch: circuits of routes without a plan
circuit_sharing    CircuitSharing: circuits of instances with a shared store

Routes without attempts, a deadline or a second link have no plan: of this, they use only the watch.
"""

from looptrap.gateway.upstream.failover_plan import FailoverPlan, UpstreamTarget
from looptrap.gateway.upstream.routed_request import RoutedRequest
from looptrap.gateway.upstream.upstream_state import UpstreamState

__all__ = ["FailoverPlan", "RoutedRequest", "UpstreamState", "UpstreamTarget"]
