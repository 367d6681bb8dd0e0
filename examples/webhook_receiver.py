"""Receive alerts by webhook: verify the signature, and handle each event once.

Set WEBHOOK_SECRET as for the gateway, run this file, and point a channel at it.
"""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"].split()[0])
heard: set[str] = set()  # keep yours across restarts


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            alert = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            self.answer(401)
            return
        if self.headers["webhook-id"] not in heard:  # unacknowledged events are sent again
            heard.add(self.headers["webhook-id"])
            print(alert["timestamp"], alert["event"], alert["data"].get("rule", ""), flush=True)
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print alerts only."""


server = HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver)
print(f"waiting for alerts at http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
