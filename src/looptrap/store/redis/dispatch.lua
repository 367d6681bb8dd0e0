-- Carry out operations, each on a key of its own, and reply to each: all of a batch, or none.
--
-- KEYS     the keys' records, or, of keys in several slots of a cluster, the first one
-- ARGV[1]  the time of all of them as a double; empty: the server's own clock
-- ARGV     then what to do with each (see request.py), then the records that are not in KEYS

local of_accounts

local function carry_out(key, operation)
  local record = read(key)
  local letter = operation:sub(1, 1)
  if is_first(record, letter, operation) then return 1 end
  local reply, seconds = 0, operation:sub(2, 9)
  if letter == 'x' then
    redis.call('DEL', key)
    return record.is_known and 1 or 0
  elseif letter == 'q' then
    return cooldown_left(record.sections)
  elseif letter == 'g' then
    return recall_note(record.sections)
  elseif letter == 'c' then
    trip(record.sections, unpack_at('<dI4', operation, 2))
  elseif letter == 'a' then
    change_open(record.sections, operation:sub(10) .. seconds, -1)
  elseif letter == 'k' then
    take_off(record.sections, 's' .. seconds)
  elseif letter == 'm' then
    reply = recall(record.sections, seconds, operation:sub(10))
  elseif letter == 'w' then
    write_note(record.sections, unpack_at('<I4', operation, 2), operation:sub(6))
  elseif letter == 'p' or letter == 'P' or letter == 'l' or letter == 'L' then
    of_accounts = of_accounts or accounts()
    reply = of_accounts[letter](record.sections, letter:lower() .. seconds, operation)
  else
    local lower = letter:lower()
    reply = hit(record, lower, seconds, lower ~= letter)
  end
  write(record)
  return reply
end

local count, records = (#ARGV - 1 + #KEYS) / 2, KEYS
if #KEYS < count then
  records = { KEYS[1] }
  for i = 2, count do
    records[i] = ARGV[count + i]
    -- One that this server does not have, or no longer: nothing was done yet.
    local known = redis.pcall('EXISTS', records[i])
    if type(known) == 'table' then
      return redis.error_reply('LTSPLIT ' .. tostring(known.err))
    end
  end
end

local replies = {}
for i, key in ipairs(records) do
  replies[i] = carry_out(key, ARGV[i + 1])
end
return replies
