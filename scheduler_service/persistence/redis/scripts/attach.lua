-- A new connection of the writer: ARGV has the prefix and the boot. A write that an older
-- connection sent and the server has not run yet is late from now on. Returns {'attached', epoch, writes, said} or {'lost', lease}.
local meta = ARGV[1] .. 'meta'
if redis.call('HGET', meta, 'boot') ~= ARGV[2] then
  return { 'lost', redis.call('GET', ARGV[1] .. 'lease') or '' }
end
local epoch = redis.call('HINCRBY', meta, 'epoch', 1)
local rest = redis.call('HMGET', meta, 'writes', 'said')
return { 'attached', tostring(epoch), rest[1] or '0', rest[2] or '' }
