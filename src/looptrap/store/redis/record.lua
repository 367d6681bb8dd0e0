-- What is kept under a key, and until when: the first part of the script; dispatch.lua is the last.
--
-- A record is a string of sections, in most cases one. A section is its name (a letter and the
-- window's seconds), the length of what follows, and that. The times in it decide; that the key
-- expires, a while after the last of them, is for the server's memory and for nothing else.
--
-- When a rolling window has many hits, the record becomes a list: the name of that window and all
-- other sections first, then the times. So one hit more costs the same however many there are.

local pack, unpack_at, max, min = struct.pack, struct.unpack, math.max, math.min
local COOLDOWN = 'c' .. pack('<d', 0)

local now
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1000000
else
  now = unpack_at('<d', ARGV[1])
end

local function parse(value, at)
  local sections = {}
  while at <= #value do
    local from = at + 12
    local to = from + unpack_at('<I3', value, at + 9)
    sections[value:sub(at, at + 8)] = value:sub(from, to - 1)
    at = to
  end
  return sections
end

local function read(key)
  local value = redis.pcall('GET', key)
  if type(value) == 'string' then
    return { key = key, is_known = true, sections = parse(value, 1) }
  elseif value then -- not a string
    local head = redis.pcall('LINDEX', key, 0)
    if type(head) == 'string' then
      return { key = key, is_known = true, sections = parse(head, 10), listed = head:sub(1, 9) }
    end
  end
  return { key = key, is_known = false, sections = {} }
end

local function milliseconds(seconds)
  return string.format('%.0f', math.ceil((seconds + KEY_SLACK_S) * 1000))
end

-- How long a window's latest hit is remembered; that of a row for longer than its pauses.
local function memory_of(letter, seconds)
  if letter == 's' or letter == 'o' then return STREAK_MEMORY_S end
  return unpack_at('<d', seconds)
end

-- How many seconds of a section are left, and how many it lasts.
local function left_of(name, payload)
  local letter = name:sub(1, 1)
  if letter == 'c' or letter == 'p' or letter == 'l' then
    local deadline, seconds = unpack_at('<dd', payload)
    return deadline - now, seconds
  end
  local seconds = memory_of(letter, name:sub(2))
  local since = unpack_at('<d', payload, letter == 'r' and #payload - 7 or 1)
  return since - (now - seconds), seconds
end

-- Whether much is used of the account that was charged or settled last.
local is_used_up = false

-- How many seconds longer than it lasts a section is kept, so that others are dropped before it.
local function stay_of(name)
  if name:sub(1, 1) ~= 'p' then return 0 end
  return is_used_up and 2 * ACCOUNT_SLACK_S or ACCOUNT_SLACK_S
end

local function keep_in_list(record, others)
  local key, grown = record.key, record.grown
  if record.listed then
    redis.call('LSET', key, 0, record.listed .. others)
    return
  end
  local times, all = record.sections[grown], { grown .. others }
  for at = 1, #times, 8 do all[#all + 1] = times:sub(at, at + 7) end
  redis.call('DEL', key)
  redis.call('RPUSH', key, unpack(all))
end

-- No clock can make a key stay for longer than its longest section, its stay and the slack.
local function write(record)
  local key, parts, longest = record.key, {}, 0
  if record.listed then
    local left, seconds = left_of(record.listed, redis.call('LINDEX', key, -1))
    longest = max(longest, min(left, seconds))
  end
  for name, payload in pairs(record.sections) do
    local left, seconds = left_of(name, payload)
    if left > 0 then
      longest = max(longest, min(left, seconds) + stay_of(name))
      if name ~= record.grown then
        parts[#parts + 1] = name .. pack('<I3', #payload) .. payload
      end
    end
  end
  local ttl_ms = milliseconds(longest)
  if record.listed or record.grown then
    keep_in_list(record, table.concat(parts))
    redis.call('PEXPIRE', key, ttl_ms)
  elseif #parts > 0 then
    redis.call('SET', key, table.concat(parts), 'PX', ttl_ms)
  else
    redis.call('DEL', key)
  end
end
