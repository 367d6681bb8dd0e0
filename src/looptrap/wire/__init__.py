"""HTTP/1.1 in and out, on uvloop. Knows nothing of loops, dialects or policies.

In:  `server` listens and times out; `server_connection` is one accepted connection; `head` and
     `body` parse a request strictly; `exchange` is a request with its one answer; `refusal` has the
     server's own errors; `limits` bounds it all; `header_fields` has what both sides know of them.
Out: `pool` keeps the connections to each `origin`; `dial` opens them, through a proxy if there is
     one; `upstream_connection` parses answers with httptools; `upstream_exchange` is one request.
"""
