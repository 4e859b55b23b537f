-- Parts with lease changes that their jobs have not accepted, in order of id: ARGV has the prefix, the beginning and
-- the limit. Returns for each {id, content, changes}.
local answer = {}
local ids = redis.call('ZRANGE', ARGV[1] .. 'parts:changed', ARGV[2], '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
for number, id in ipairs(ids) do
  local part = redis.call('HMGET', ARGV[1] .. 'part:' .. id, 'content', 'changes')
  answer[number] = { id, part[1], part[2] }
end
return answer
