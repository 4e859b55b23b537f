-- Rows of a hash, in the order of their fields: ARGV has the prefix, the hash, how many bytes they take at most, and the
-- fields. Returns the rows of the first fields, of one at least, as many as fit; nil of a row that is gone.
local key, most, size, answer = ARGV[1] .. ARGV[2], tonumber(ARGV[3]), 0, {}
for at = 4, #ARGV do
  size = size + redis.call('HSTRLEN', key, ARGV[at])
  if size > most and at > 4 then return answer end
  answer[#answer + 1] = redis.call('HGET', key, ARGV[at])
end
return answer
