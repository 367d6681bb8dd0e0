-- Change one entry that all instances share, if it still is what the changer saw; tell them.
--
-- KEYS[1]  all settings: a hash, whose field without a name counts the changes
-- ARGV     the channel for the news, the entry's name, what it was, and what it shall be;
--          an empty text stands for no entry
-- Returns what the entry is now.

local there = redis.call('HGET', KEYS[1], ARGV[2]) or ''
if there ~= ARGV[3] or there == ARGV[4] then
  return there
end
if ARGV[4] == '' then
  redis.call('HDEL', KEYS[1], ARGV[2])
else
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[4])
end
redis.call('HINCRBY', KEYS[1], '', 1)
redis.call('PUBLISH', ARGV[1], ARGV[2])
return ARGV[4]
