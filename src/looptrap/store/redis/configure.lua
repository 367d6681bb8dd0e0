-- Change one setting that all instances share, and tell them.
--
-- KEYS[1]  all settings: a hash, whose field without a name counts the changes
-- ARGV     the channel for the news, the setting's name, and its value; without one it is dropped

if ARGV[3] then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
else
  redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('HINCRBY', KEYS[1], '', 1)
redis.call('PUBLISH', ARGV[1], ARGV[2])
return 1
