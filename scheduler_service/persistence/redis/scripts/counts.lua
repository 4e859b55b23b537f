-- Numbers of jobs and executions at one moment: ARGV has the prefix, the end of what is due, the states' names,
-- and the tenants; none: all. Returns {due, waiting, live, jobs of the first state, …}.
local prefix, due_end = ARGV[1], ARGV[2]
local states, tenants = cmsgpack.unpack(ARGV[3]), cmsgpack.unpack(ARGV[4])
if #tenants == 0 then tenants = redis.call('SMEMBERS', prefix .. 'tenants') end
local answer = { 0, 0, 0 }
for number = 1, #states do answer[3 + number] = 0 end
for _, tenant in ipairs(tenants) do
  local sums = redis.call('HMGET', prefix .. 'sums', 'waiting:' .. tenant, 'live:' .. tenant)
  answer[2] = answer[2] + (sums[1] or 0)
  answer[3] = answer[3] + (sums[2] or 0)
  for number, state in ipairs(states) do
    local partition = prefix .. 'order:' .. tenant .. ':' .. state .. ':'
    answer[1] = answer[1] + redis.call('ZLEXCOUNT', partition .. 'next', '-', due_end)
    answer[3 + number] = answer[3 + number] + redis.call('ZCARD', partition .. 'id')
  end
end
return answer
