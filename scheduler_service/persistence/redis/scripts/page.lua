-- A page of an index with its rows, at one moment: ARGV has the prefix, the index, the ends of the
-- range, '1' for descending, the most members, how much of a member precedes its row's field ('text': up to its
-- end), the rows' hash, and after how many bytes of rows the page ends early. Returns {1 where there may be more, the
-- last member, row, row, …}; a row that is gone is nil.
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

local answer = { #members == tonumber(ARGV[6]) and 1 or 0, members[#members] or '' }
local most, size, taken, found = tonumber(ARGV[9]), 0, 0, 0
for start = 1, #members, 8 do
  local fields = {}
  for at = start, math.min(start + 7, #members) do fields[#fields + 1] = field(members[at]) end
  for _, row in ipairs(redis.call('HMGET', prefix .. ARGV[8], unpack(fields))) do
    size = size + (row and #row or 0)
    if size > most and found > 0 then
      answer[1], answer[2] = 1, members[taken]
      return answer
    end
    if row then found = found + 1 end
    taken = taken + 1
    answer[taken + 2] = row
  end
end
return answer
