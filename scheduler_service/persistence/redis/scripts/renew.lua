-- Keeps the lease: ARGV has the prefix, the boot, the lease and its length in ms; 0 gives it back.
-- Returns {'kept'} or {'lost', lease}.
local lease = ARGV[1] .. 'lease'
if redis.call('HGET', ARGV[1] .. 'meta', 'boot') ~= ARGV[2] then
  return { 'lost', redis.call('GET', lease) or '' }
end
if ARGV[4] == '0' then
  redis.call('DEL', lease)
else
  redis.call('SET', lease, ARGV[3], 'PX', ARGV[4])
end
return { 'kept' }
