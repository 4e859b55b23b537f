-- Parts that are over, in order of id: ARGV has the prefix, the beginning and the limit. Returns for each
-- {id, content, instance, retries, finish, options, changes}.
local answer = {}
local ids = redis.call('ZRANGE', ARGV[1] .. 'parts:ended', ARGV[2], '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
for number, id in ipairs(ids) do
  local fields = { 'content', 'instance', 'retries', 'finish', 'options', 'changes' }
  local part = redis.call('HMGET', ARGV[1] .. 'part:' .. id, unpack(fields))
  answer[number] = { id, part[1], part[2], part[3], part[4], part[5], part[6] or '' }
end
return answer
