"""Alerts: events on their way to people, at least once, over a network that fails.

deliverer       takes deliveries from the outbox and sends them, each channel at its own pace
channel         channels made ready from settings, their signatures, and the event that tests one
webhook_client  one HTTP request: pinned, bounded, without redirects
address         which addresses a request may go to (against SSRF), and what went wrong with one
message         an event as webhook JSON, as Slack's Block Kit, and as plain text. Pure
apprise         everything else, through Apprise
"""
