-- wrk -s post.lua URL -- BODY_FILE RUN MARK [Name=Value ...]
-- Every request has a body unlike any other, made by a number in place of MARK, and comes from one
-- of 100 callers, unless an Authorization is given. RUN keeps the numbers of two runs apart.

local CALLERS = 100
local before, after, head, number

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local body = file:read("*a")
  file:close()
  local first, last = body:find(args[3], 1, true)
  before, after = body:sub(1, first - 1), body:sub(last + 1)
  number = tonumber(args[2]) * 1e9
  local lines = {
    "POST " .. wrk.path .. " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Content-Type: application/json",
    "Accept: application/json",
    "User-Agent: OpenAI/Python 3.49.0",
    "X-Stainless-Retry-Count: 0",
    "Content-Length: " .. (#before + 16 + #after),
  }
  local caller = "Authorization: Bearer sk-caller-"
  for at = 4, #args do
    lines[#lines + 1] = args[at]:gsub("=", ": ", 1)
    if args[at]:find("^Authorization=") then
      caller = "X-Caller: "
    end
  end
  head = table.concat(lines, "\r\n") .. "\r\n" .. caller
end

function request()
  number = number + 1
  return string.format("%s%03d\r\n\r\n%s%016.0f%s", head, number % CALLERS, before, number, after)
end

function done(summary, latency)
  local failed = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"seconds":%.6f,"refused":%d,"broken":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration / 1e6, failed.status,
    failed.connect + failed.read + failed.write + failed.timeout,
    latency:percentile(50), latency:percentile(99)
  ))
end
