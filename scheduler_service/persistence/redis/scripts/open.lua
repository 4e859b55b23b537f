-- Takes the store: ARGV has the prefix, the newest format known, the lease and its length in ms, a lease whose
-- holder is dead for certain, the name given to the node and one for a node that has none.
-- Returns {'open', boot, node, writes}, {'held', lease, ms left} or {'newer', format}.
local prefix = ARGV[1]
local meta, lease = prefix .. 'meta', prefix .. 'lease'
local held = redis.call('GET', lease)
if held and held ~= ARGV[5] then return { 'held', held, redis.call('PTTL', lease) } end
local format = redis.call('HGET', meta, 'format')
if format and tonumber(format) > tonumber(ARGV[2]) then return { 'newer', format } end
redis.call('SET', lease, ARGV[3], 'PX', ARGV[4])
redis.call('HSET', meta, 'format', ARGV[2], 'epoch', 1)
-- Format 1: a program that does not know all indexes of the queues may have written; they are made anew (parts.lua).
if format and tonumber(format) < 2 then redis.call('HDEL', meta, 'queues_listed') end
if ARGV[6] ~= '' then
  redis.call('HSET', meta, 'node', ARGV[6])
else
  redis.call('HSETNX', meta, 'node', ARGV[7])
end
local boot = redis.call('HINCRBY', meta, 'boot', 1)
local rest = redis.call('HMGET', meta, 'node', 'writes')
return { 'open', tostring(boot), rest[1], rest[2] or '0' }
