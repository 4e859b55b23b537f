-- Queues in order of their names: ARGV has the prefix, the ends of the range and the limit. Returns for each
-- {place, how many parts wait, the oldest of them or '', how many are leased}.
local prefix, answer = ARGV[1], {}
local places = redis.call('ZRANGE', prefix .. 'parts:queues', ARGV[2], ARGV[3], 'BYLEX', 'LIMIT', 0, ARGV[4])
for number, place in ipairs(places) do
  local depth = redis.call('ZCARD', prefix .. 'parts:free:' .. place)
  local oldest = redis.call('ZRANGE', prefix .. 'parts:aged:' .. place, 0, 0)[1] or ''
  answer[number] = { place, depth, oldest, redis.call('ZCARD', prefix .. 'parts:leased:' .. place) }
end
return answer
