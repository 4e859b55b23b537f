-- Which documents of some jobs have marks in them: ARGV has the prefix, the rows' hash, how many marks, the marks, and
-- the rows' fields. Returns for each field {bytes of its row, 1 where one of the marks is anywhere in its document};
-- 0 of a row that is gone, or damaged.
local key, marks, answer = ARGV[1] .. ARGV[2], tonumber(ARGV[3]), {}

local function has_mark(text)
  for at = 4, marks + 3 do
    if string.find(text, ARGV[at], 1, true) then return true end
  end
  return false
end

-- The document is what a row ends with, in MessagePack: 196, 197 or 198, its length in 1, 2 or 4 bytes, and its bytes.
local function document_of(row)
  local at = string.find(row, '[\196-\198]')
  while at do
    local width, size = 2 ^ (string.byte(row, at) - 196), 0
    for next = at + 1, at + width do size = size * 256 + (string.byte(row, next) or 0) end
    if at + width + size == #row then return string.sub(row, at + width + 1) end
    at = string.find(row, '[\196-\198]', at + 1)
  end
  return ''
end

local function is_marked(row)
  return has_mark(row) and has_mark(document_of(row)) and 1 or 0
end

for at = marks + 4, #ARGV do
  local row = redis.call('HGET', key, ARGV[at]) or ''
  answer[#answer + 1] = { #row, is_marked(row) }
end
return answer
