-- The least that a loop guard in nginx does: it reads a chat completion, counts its last messages
-- for each caller and model, and refuses the sixth equal one within a minute. All else is forwarded.
-- It knows no tools, sessions, near repeats or answers; it is here to be compared with.

local cjson = require "cjson.safe"

local LAST, THRESHOLD, WINDOW = 3, 6, 60

ngx.req.read_body()
local body = ngx.req.get_body_data()
local call = body and cjson.decode(body)
if type(call) ~= "table" or type(call.messages) ~= "table" then
  return
end

local messages, last = call.messages, {}
for at = math.max(1, #messages - LAST + 1), #messages do
  last[#last + 1] = messages[at]
end
local parts = { ngx.var.http_authorization or "", tostring(call.model), cjson.encode(last) }
-- The window begins with the first of them. A full dictionary drops its oldest entries.
local count = ngx.shared.calls:incr(ngx.sha1_bin(table.concat(parts, "\0")), 1, 0, WINDOW)

if count and count >= THRESHOLD then
  ngx.status = ngx.HTTP_TOO_MANY_REQUESTS
  ngx.header["Content-Type"] = "application/json"
  ngx.header["Retry-After"] = WINDOW
  ngx.print('{"error":{"type":"loop_detected","message":"the same messages again and again"}}')
  return ngx.exit(ngx.HTTP_OK)
end
