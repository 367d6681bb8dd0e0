"""A collector of spans, and what tests of traces share."""

import gzip
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Condition, Event, Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags
from tests.gateway.serving import CHAT, chat
from tests.store.serving import PATIENCE

from looptrap.detect.signals.signal import Evidence
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.engine import PolicyEngine, Ticket, Transaction
from looptrap.gateway.trace import start_span
from looptrap.policy.action import Action
from looptrap.policy.verdict import Verdict

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
LOOP = Verdict(
    action=Action.BLOCK,
    reason="loop_detected",
    policy="agents",
    rule="identical-conversation",
    message="Blocked: SECRET sent 6 times.",
    count=6,
    fingerprint="c1-abc",
    evidence=(Evidence(signal="conversation", what="SECRET", count=6),),
)
SPAN = ReadableSpan("one", SpanContext(1, 1, False, TraceFlags(1)), start_time=1, end_time=2)
LOOP_TOLD = {
    "looptrap.reason": "loop_detected",
    "looptrap.policy": "agents",
    "looptrap.rule": "identical-conversation",
    "looptrap.count": 6,
    "looptrap.fingerprint": "c1-abc",
}
WARNED = Verdict(action=Action.WARN, reason="loop_detected", policy="agents", rule="r", count=3)


class Collector:
    """Receives spans as a collector does, or fails to."""

    def __init__(self):
        self.status = 200
        self.lets_answer = Event()
        self.lets_answer.set()
        self.requests = []
        self.bodies = []
        self.arrived = Condition()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.arrived:
                    collector.requests.append((self.path, self.headers))
                    collector.bodies.append(
                        gzip.decompress(body) if self.headers["Content-Encoding"] else body
                    )
                    collector.arrived.notify_all()
                collector.lets_answer.wait(PATIENCE)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def spans(self):
        return [span for scope in self.scopes for span in scope.spans]

    @property
    def scopes(self):
        return [scope for one in self.resources for scope in one.scope_spans]

    @property
    def resources(self):
        found = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [resource for one in found for resource in one.resource_spans]

    def wait(self):
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.bodies, PATIENCE)


@contextmanager
def listening():
    collector = Collector()
    thread = Thread(target=collector.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        collector.lets_answer.set()
        collector.server.shutdown()
        collector.server.server_close()
        thread.join()


def relayed(call=None, *, provider="openai", request_id=b"", **ticket):
    """Return a transaction as it is when its call is settled."""
    call = call or called()
    transaction = Transaction(PolicyEngine([]), call, provider=provider, request_id=request_id)
    transaction.ticket = Ticket(call, **ticket)
    return transaction


def called(path=CHAT, body=None, method="POST", **more):
    body = chat("SECRET") if body is None else body
    return read(Request(method, path, headers=(), body=body, caller="ci", **more))


def told(attributes):
    """Return attributes as plain values."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def started(fields=b"", sample=1.0, seed=0):
    return start_span(fields, 0.0, sample, Random(seed))


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


# Whether there is anything to pay
