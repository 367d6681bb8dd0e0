"""HTTP/1.1 in and out, on uvloop. Knows nothing of loops, dialects or policies.

In:  `server` listens and sweeps; `server_connection` is one accepted connection and `ending` how it
     ends; `head` and `body` read a request strictly; `exchange` is a request with its one answer;
     `refusal` says no; `limits` bounds it all; `fields` is what there is to know of header fields.
     `remembered` keeps answers to what is asked over and over.
Out: `pools` has a `pool` of connections for each `origin`; `dial` opens them, through a `proxy`
     where there is one; `client` is one of them, reading with httptools; `flight` is a request on
     its way; `retry_after` is when a server wants to be asked again.
"""
