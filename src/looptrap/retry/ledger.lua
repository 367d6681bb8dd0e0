-- What became of one mutating call.
--
-- KEYS[1]  the call, by a digest of its key: a hash of
--            d  the digest of its arguments
--            t  the token of who makes it
--            r  its result, once there is one
-- ARGV     what to do, the token, then
--            begin    digest, milliseconds of the lease
--            finish   digest, milliseconds to keep the result, the result
--            abandon

local key, act, token = KEYS[1], ARGV[1], ARGV[2]
local known = redis.call('HMGET', key, 'd', 't', 'r')

if act == 'begin' then
  if not known[1] then
    redis.call('HSET', key, 'd', ARGV[3], 't', token)
    redis.call('PEXPIRE', key, ARGV[4])
    return {'begun'}
  end
  if known[1] ~= ARGV[3] then return {'other'} end
  if known[3] then return {'done', known[3]} end
  return {'busy', redis.call('PTTL', key)}
end

-- Somebody else may have taken over when the lease had ended: then it is their call.
if known[2] and known[2] ~= token then return {'lost'} end

if act == 'finish' then
  redis.call('HSET', key, 'd', ARGV[3], 't', token, 'r', ARGV[5])
  redis.call('PEXPIRE', key, ARGV[4])
elseif not known[3] then
  redis.call('DEL', key)
end
return {'noted'}
