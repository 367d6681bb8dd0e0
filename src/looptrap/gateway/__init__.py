"""The gateway: judges what passes through, and answers what must not.

app          App: a configuration becomes a running gateway; everything meets here
garbage      spare: the collector looks seldom, once all is up, and when memory grows
runtime      Runtime: what the configuration means to a request; a reload makes another
handler      Gateway: from a request on the wire to a verdict, and to the provider or back
judge        Judge: asks the store, at once or later, and lets the guard judge
agreement    what instances agree on: digest key, kill switches, project settings, gateway keys
inbound      what a request's headers say, and which of them go on
auth         who is calling; keys and state: the gateway's own keys and the file they rest in
claims       Claims: what a client's token says, if somebody vouches for it
encoding     encoded bodies, decoded for judging only
route        which provider a call goes to; provider: under which path and key; forward: it goes
attempt      several attempts, at several providers, until one is good
relay        Relay: one call on its way through
decision     another proxy asks, and forwards by itself
access_log   one line a request; decision_log: one a decision that is not `allow`; scribe: how
repeats      Repeats: one traceback a minute for each fault, then a count
incident     Desk: sightings come in, people are told
trace        Tracer: a span a request
capture      Capture: judged calls, written down to be replayed
"""
