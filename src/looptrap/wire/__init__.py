"""HTTP/1.1 in and out, on uvloop. Knows nothing of loops, dialects or policies.

In:  `server` listens and times out; `server_connection` is one accepted connection; `request`
     parses requests strictly, and has the server's own refusals.
Out: `pool` keeps the connections to each `origin`; `dial` opens them, through a proxy if there is
     one; `upstream_connection` parses answers with httptools.
Both: `exchange` is a request with its one answer; `limits` bounds it all; `header_fields` has what
     both sides know of them; `write_queue` sends what one turn of the loop brought.
"""
