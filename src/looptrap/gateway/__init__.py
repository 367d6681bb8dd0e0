"""The gateway: judges what passes through, and answers what must not.

app          App: a configuration becomes a running gateway; everything meets here
garbage      spare: the collector looks seldom, once all is up
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
hearing      what a passing answer says, one module a dialect; cut: how its stream is ended
bill         Bill: what an answer used
usage        UsageReader: tokens, read from an answer's passing bytes; tokens: how dialects count
decision     another proxy asks, and forwards by itself
access_log   one line a request; decision_log: one a decision that is not `allow`
incident     Desk: sightings come in, people are told
trace        Tracer: a span a request
capture      Capture: judged calls, written down to be replayed

answer       Answer: what the gateway sends of its own
wording      what clients and models are told, in one place
refuse       refusal, failure: errors in the shape of each dialect
stop         final_message: the last message of a run, one module a dialect
nudge        nudged: one message spliced in at the end of a body
splice       insertion into JSON that leaves every other byte as it was sent
"""
