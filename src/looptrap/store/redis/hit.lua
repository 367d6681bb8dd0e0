-- Count hits, remember marks and cooldowns.

-- A streak is: when it was touched, when its latest wave began, its waves, the calls of the latest
-- one, how many calls are under way, when the latest answer was complete, and the waves taken off.
local STREAK = '<ddI4I4I4dI4'

-- The last field is missing in what an earlier release wrote.
local function read_streak(payload)
  return unpack_at(STREAK, payload .. '\0\0\0\0')
end

-- How many times, sorted, lie at or before the edge.
local function stale(times, edge)
  local low, high = 0, #times / 8
  while low < high do
    local middle = math.floor((low + high) / 2)
    if edge < unpack_at('<d', times, middle * 8 + 1) then high = middle else low = middle + 1 end
  end
  return low
end

-- Drop the times at or before the edge from a list, but for the latest; say how many are left.
local function trim(key, edge)
  local size = redis.call('LLEN', key) - 1
  local function is_over(at)
    return size > HIT_LIMIT or (size > 1 and unpack_at('<d', redis.call('LINDEX', key, at)) <= edge)
  end
  if not is_over(1) then return size end
  local head = redis.call('LPOP', key)
  repeat
    redis.call('LPOP', key)
    size = size - 1
  until not is_over(0)
  redis.call('LPUSH', key, head)
  return size
end

local function peek(record, name, edge)
  if name == record.listed then
    local size = trim(record.key, edge)
    return unpack_at('<d', redis.call('LINDEX', record.key, -1)) > edge and size or 0
  end
  local payload = record.sections[name]
  if not payload then return 0 end
  if name:sub(1, 1) == 'r' then return #payload / 8 - stale(payload, edge) end
  if name:sub(1, 1) == 's' or name:sub(1, 1) == 'o' then
    local touched, _, count = unpack_at('<ddI4', payload)
    return touched > edge and count or 0
  end
  local since, hits = unpack_at('<dI4', payload)
  return since > edge and hits or 0
end

local function rolling(record, name, edge)
  local times = record.sections[name] or ''
  local known = name == record.listed and redis.call('LINDEX', record.key, -1) or times:sub(-8)
  local latest = pack('<d', known == '' and now or max(unpack_at('<d', known), now)) -- stay sorted
  if name == record.listed then
    redis.call('RPUSH', record.key, latest)
    return trim(record.key, edge)
  end
  times = times .. latest
  times = times:sub(stale(times, edge) * 8 + 1)
  record.sections[name] = times
  if #times > MANY_HITS * 8 and not record.listed then record.grown = name end
  return #times / 8
end

local function fixed(payload, edge, is_refreshed)
  local since, hits = now, 0
  if payload then
    local known, so_far = unpack_at('<dI4', payload)
    if known > edge then
      hits = so_far
      if not is_refreshed then since = known end
    end
  end
  hits = min(hits + 1, HIT_LIMIT)
  return pack('<dI4', since, hits), hits
end

local function new_streak()
  return pack(STREAK, now, now, 1, 1, 0, 0, 0), 1
end

local function streak(payload, seconds)
  if not payload then return new_streak() end
  local touched, began, waves, twins, open, ended, continued = read_streak(payload)
  if began <= now - STREAK_MEMORY_S then return new_streak() end
  if open > 0 then
    twins = twins + 1
    if twins > MAX_TWINS then waves = waves + 1 end
  elseif ended == 0 or now - ended <= unpack_at('<d', seconds) then
    waves, twins, began = waves + 1, 1, now
  else
    return new_streak()
  end
  waves = min(waves, HIT_LIMIT)
  if waves > 1 then open = open + 1 end
  return pack(STREAK, max(touched, now), began, waves, twins, open, ended, continued), waves
end

-- Note a call in a row that is no hit (1), or an answer (-1).
local function change_open(sections, name, change)
  local payload = sections[name]
  if not payload then return end
  if name:sub(1, 1) == 'o' then return serial().change_open(sections, name, change) end
  local touched, began, waves, twins, open, ended, continued = read_streak(payload)
  if waves == 1 then return end -- the end of the first is not known
  if change < 0 then touched, ended = max(touched, now), max(ended, now) end
  open = max(open + change, 0)
  sections[name] = pack(STREAK, touched, began, waves, twins, open, ended, continued)
end

-- Take off a wave, since its answer was continued; the first two stay.
local function take_off(sections, name)
  local payload = sections[name]
  if not payload then return end
  local touched, began, waves, twins, open, ended, continued = read_streak(payload)
  if waves <= 2 or continued >= MAX_CONTINUED then return end
  sections[name] = pack(STREAK, touched, began, waves - 1, twins, open, ended, continued + 1)
end

local function is_spared(sections, seconds, edge)
  local name = 't' .. seconds
  local hits
  sections[name], hits = fixed(sections[name], edge, false)
  return hits <= RETRY_ALLOWANCE
end

local function hit(record, letter, seconds, is_retry)
  local sections = record.sections
  local cooldown = sections[COOLDOWN]
  if cooldown then
    local deadline, lasts, hits = unpack_at('<ddI4', cooldown)
    if deadline > now then
      sections[COOLDOWN] = pack('<ddI4', deadline, lasts, hits + 1)
      return pack('<dI4', deadline - now, hits + 1)
    end
  end
  local memory = memory_of(letter, seconds)
  local name, edge = letter .. seconds, now - memory
  if is_retry and is_spared(sections, pack('<d', memory), edge) then
    if letter == 's' or letter == 'o' then change_open(sections, name, 1) end
    return peek(record, name, edge)
  end
  if letter == 'r' then return rolling(record, name, edge) end
  local hits
  if letter == 's' then
    sections[name], hits = streak(sections[name], seconds)
  elseif letter == 'o' then
    sections[name], hits = serial().hit(sections[name])
  else
    sections[name], hits = fixed(sections[name], edge, letter == 'e')
  end
  return hits
end

local function recall(sections, seconds, mark)
  local name, others = 'm' .. seconds, {}
  local payload = sections[name]
  if payload and unpack_at('<d', payload) > now - unpack_at('<d', seconds) then
    local at = 9
    while at <= #payload do
      local to = at + 4 + unpack_at('<I4', payload, at)
      local other = payload:sub(at + 4, to - 1)
      if other ~= mark then others[#others + 1] = other end
      at = to
    end
  end
  local kept = { pack('<d', now) }
  for i = max(1, #others - MAX_MARKS + 2), #others do
    kept[#kept + 1] = pack('<I4', #others[i]) .. others[i]
  end
  kept[#kept + 1] = pack('<I4', #mark) .. mark
  sections[name] = table.concat(kept)
  return others
end

-- As a hit is answered, without being one.
local function cooldown_left(sections)
  local cooldown = sections[COOLDOWN]
  if not cooldown then return 0 end
  local deadline, _, hits = unpack_at('<ddI4', cooldown)
  return deadline > now and pack('<dI4', deadline - now, hits) or 0
end

local function trip(sections, seconds, hits)
  local deadline = now + seconds
  local cooldown = sections[COOLDOWN]
  if cooldown then
    local known, lasts, refused = unpack_at('<ddI4', cooldown)
    if known > now then
      hits = refused
      if known > deadline then deadline, seconds = known, lasts end
    end
  end
  sections[COOLDOWN] = pack('<ddI4', deadline, seconds, hits)
  -- A client that waits out its cooldown continues its row.
  for name, payload in pairs(sections) do
    if name:sub(1, 1) == 's' then
      local touched, began, waves, twins, open, ended, continued = read_streak(payload)
      touched, began, ended = max(touched, deadline), max(began, deadline), max(ended, deadline)
      if waves > 1 then
        sections[name] = pack(STREAK, touched, began, waves, twins, open, ended, continued)
      end
    elseif name:sub(1, 1) == 'o' then
      serial().refuse(sections, name, seconds, deadline)
    end
  end
end

-- Most hits are the first of their key: these take this shorter way to the same record.
local first_ttl_ms, first_payload = {}, { r = pack('<d', now), f = pack('<dI4', now, 1) }
first_payload.e = first_payload.f
first_payload.s = new_streak()

local function is_first(record, letter, operation)
  local payload = first_payload[letter] or letter == 'o' and serial().first
  if record.is_known or not payload then return false end
  local ttl_ms = first_ttl_ms[operation]
  if not ttl_ms then
    ttl_ms = milliseconds(memory_of(letter, operation:sub(2, 9)))
    first_ttl_ms[operation] = ttl_ms
  end
  redis.call('SET', record.key, operation .. pack('<I3', #payload) .. payload, 'PX', ttl_ms)
  return true
end
