-- Only reads: of the jobs in ARGV, behind the prefix and two arguments that are not used, those whose head was not
-- written by us, and those that have a row without a head, or a head without a row.
local found = {}
while next_argument <= #ARGV do
  local job = take()
  local head = read_head(job)
  if head == DAMAGED or (head ~= nil) ~= (redis.call('HEXISTS', key('jobs'), job) == 1) then
    found[#found + 1] = job
  end
end
return found
