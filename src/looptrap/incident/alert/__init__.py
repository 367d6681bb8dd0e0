"""Alerts: events on their way to people, at least once, over a network that fails.

deliverer   takes letters from the outbox and sends them, each channel at its own pace
lane        the letters of one channel, and when the next may go
backoff     how long to wait after a failure, and when to give up. Pure
channel     channels made ready from settings; who wants to hear of what
failure     what went wrong with a delivery
post        one HTTP request: pinned, bounded, without redirects
address     which addresses an outgoing request may go to
sign        the headers of Standard Webhooks. Pure
message     an event as webhook JSON, and as a title with a text. Pure
slack       an event as Block Kit. Pure
apprise     everything else, through Apprise
trial       the event that says a channel works
"""
