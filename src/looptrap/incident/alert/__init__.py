"""Alerts: delivery of events, at least once, over a network that may fail.

deliverer  AlertDeliverer: sends the deliveries of the outbox, each channel at its own pace
channel    AlertChannel: channels from settings, signatures, the test event; AppriseNotifier
webhook    one HTTP request: bounded, to a checked address only (against SSRF); DeliveryError
message    an event as webhook JSON, as Slack's Block Kit, and as plain text. Pure
"""
