-- What is leased of a queue, in order of id: ARGV has the prefix, the queue's place, the beginning and the limit.
-- Returns for each {id, content, instance, ends}.
local prefix, answer = ARGV[1], {}
local ids = redis.call('ZRANGE', prefix .. 'parts:leased:' .. ARGV[2], ARGV[3], '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
for number, id in ipairs(ids) do
  local part = redis.call('HMGET', prefix .. 'part:' .. id, 'content', 'instance', 'ends')
  answer[number] = { id, part[1], part[2], part[3] }
end
return answer
