-- Writes a group. Returns {'done', verdicts}, or {'lost', lease} or {'late'}: then nothing was written.
local writer = redis.call('HMGET', key('meta'), 'boot', 'epoch', 'writes')
if writer[1] ~= ARGV[2] then return { 'lost', redis.call('GET', key('lease')) or '' } end
if writer[2] ~= ARGV[3] then return { 'late' } end
-- The first write: a server that refuses writes does so here, when nothing was written.
redis.call('HSET', key('meta'), 'writes', string.format('%d', (writer[3] or 0) + 1), 'said', '')
local verdicts = {}
while next_argument <= #ARGV do verdicts[#verdicts + 1] = writes[take()]() end
local said = frames(verdicts)
redis.call('HSET', key('meta'), 'said', said)
return { 'done', said }
