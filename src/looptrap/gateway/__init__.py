"""The gateway: judges what passes through, and answers what must not.

app               App: makes a running gateway of a configuration; Runtime: what requests need of it
handler           Gateway: takes requests, judges them, and forwards or answers them
request_context   RequestContext: what the head of a request says; slow_body: compressed ones
auth              who is calling
keys              gateway keys; state_file: the file that holds them
jwt_claims        the claims of a caller's token; jwt_verifier: whether it is signed
browser           which web pages may send requests
judge             Judge: judges by the counts of a store, at once or later
decision          another proxy asks for a verdict, and forwards by itself
router            which provider a call goes to; provider: its URL, key and connections
upstream          attempts at several providers, until one is good
relay             Relay: one call to its provider and back; settler: records what became of it
shared_settings   what was set at run time, on all instances
logs              the access log, the decision log, and tracebacks
trace             Tracer: a span for each request; trace_export: sends them
capture           Capture: judged calls, written to be replayed
"""
