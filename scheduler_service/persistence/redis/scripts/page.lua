-- A page of an index with its rows, at one moment: ARGV has the prefix, the index, the ends of the
-- range, '1' for descending, the most members, how much of a member precedes its row's field ('text': up to its
-- end), and the rows' hash. Returns {how many members, the last one, row, row, …}; a row that is gone is nil.
local prefix, index, first, last = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local members
if ARGV[5] == '1' then
  members = redis.call('ZRANGE', prefix .. index, first, last, 'BYLEX', 'REV', 'LIMIT', 0, ARGV[6])
else
  members = redis.call('ZRANGE', prefix .. index, first, last, 'BYLEX', 'LIMIT', 0, ARGV[6])
end

local function field(member)
  if ARGV[7] ~= 'text' then return string.sub(member, tonumber(ARGV[7]) + 1) end
  local at = string.find(member, '\0', 1, true)
  while string.byte(member, at + 1) == 255 do at = string.find(member, '\0', at + 2, true) end
  return string.sub(member, at + 1)
end

local answer = { #members, members[#members] or '' }
for start = 1, #members, 1000 do
  local fields = {}
  for at = start, math.min(start + 999, #members) do fields[#fields + 1] = field(members[at]) end
  for _, row in ipairs(redis.call('HMGET', prefix .. ARGV[8], unpack(fields))) do
    answer[#answer + 1] = row
  end
end
return answer
