-- Turns, deliveries, records, kept answers.

-- The indexes that have a job: name -> value (encoding.pack_pairs).
local function places(packed)
  local found, at = {}, 1
  while at <= #packed do
    local name, value
    name, value, at = struct.unpack('>I4c0I4c0', packed, at)
    found[name] = value
  end
  return found
end

local function reindex(job, before, after)
  if before == after then return end
  local left = places(before)
  for name, value in pairs(places(after)) do
    if left[name] ~= value then
      if left[name] then redis.call('ZREM', key(name), left[name] .. job) end
      redis.call('ZADD', key(name), 0, value .. job)
    end
    left[name] = nil
  end
  for name, value in pairs(left) do redis.call('ZREM', key(name), value .. job) end
end

local function count(tenant, name, by)
  if by ~= 0 then redis.call('HINCRBY', key('sums'), name .. ':' .. tenant, by) end
end

-- What is kept of a job but was not written by us: an error here would end the script, and with it the writes of
-- other jobs behind it. So its own writes are refused, and nothing is guessed.
local DAMAGED = 'damaged'

local function is_whole(head)
  if type(head) ~= 'table' or #head ~= 8 then return false end
  for _, place in ipairs({ 1, 2, 4, 7, 8 }) do
    if type(head[place]) ~= 'string' then return false end
  end
  return tonumber(head[5]) ~= nil and tonumber(head[6]) ~= nil and pcall(places, head[7]) and pcall(places, head[8])
end

local function read_head(job)
  local packed = redis.call('HGET', key('heads'), job)
  if not packed then return nil end
  local is_read, head = pcall(cmsgpack.unpack, packed)
  if not is_read or not is_whole(head) then return DAMAGED end
  return {
    uid = head[1], sequence = head[2], gone = head[3], tenant = head[4], live = head[5],
    waiting = head[6], face = head[7], turn = head[8],
  }
end

local NO_HEAD = { live = '0', waiting = '0', face = '', turn = '' }

local function replace_head(job, old, new)
  old = old or NO_HEAD
  reindex(job, old.face, new.face)
  reindex(job, old.turn, new.turn)
  if old.tenant and old.tenant ~= new.tenant then
    count(old.tenant, 'live', -old.live)
    count(old.tenant, 'waiting', -old.waiting)
    old = { live = '0', waiting = '0' }
  end
  if not old.tenant then redis.call('SADD', key('tenants'), new.tenant) end
  count(new.tenant, 'live', new.live - old.live)
  count(new.tenant, 'waiting', new.waiting - old.waiting)
  redis.call('HSET', key('heads'), job, cmsgpack.pack({
    new.uid, new.sequence, new.gone, new.tenant, new.live, new.waiting, new.face, new.turn,
  }))
end

-- A kept answer begins with its moment (8 bytes) and its job's id.
local function drop_answer(field)
  local old = redis.call('HGET', key('answers'), field)
  if not old then return end
  local moment, job = struct.unpack('>c8I2c0', old)
  redis.call('ZREM', key('answers:created'), moment .. field)
  redis.call('SREM', key('answers:of:' .. job), field)
  redis.call('HDEL', key('answers'), field)
end

local function drop_answers_of(job)
  for _, field in ipairs(redis.call('SMEMBERS', key('answers:of:' .. job))) do drop_answer(field) end
end

local function keep_answer(field, value, oldest)
  drop_answer(field)
  local moment, job = struct.unpack('>c8I2c0', value)
  redis.call('HSET', key('answers'), field, value)
  redis.call('ZADD', key('answers:created'), 0, moment .. field)
  if job ~= '' then redis.call('SADD', key('answers:of:' .. job), field) end
  local old = redis.call('ZRANGE', key('answers:created'), '-', '(' .. oldest, 'BYLEX', 'LIMIT', 0, 1000)
  for _, member in ipairs(old) do drop_answer(string.sub(member, 9)) end
end

local function keep_batch(batch)
  if not batch then return end
  redis.call('HSET', key('unwritten'), batch.field, batch.value)
  redis.call('ZADD', key('unwritten:keys'), 0, batch.field)
end

local function keep_delivery(id, value)
  redis.call('HSET', key('deliveries'), id, value)
  redis.call('ZADD', key('deliveries:ids'), 0, id)
end

local function drop_delivery(id)
  redis.call('HDEL', key('deliveries'), id)
  redis.call('ZREM', key('deliveries:ids'), id)
end

-- Whether a turn was decided over the stored version (see sqlite/row_versions.py).
local function follows(head, turn)
  if not head then return turn.expected == '0' or turn.expected == '-1' end
  if head.gone then return turn.expected == '0' or turn.expected == head.sequence end
  return turn.expected == head.sequence and turn.uid == head.uid
end

local function take_turn()
  local turn = { job = take(), uid = take(), expected = take(), sequence = take() }
  turn.gone = take() == '1'
  turn.row, turn.face, turn.turn = take(), take(), take()
  turn.tenant, turn.live, turn.waiting = take(), take(), take()
  turn.definition = take_if({ 'revision', 'value' })
  turn.batch = take_if({ 'field', 'value' })
  turn.deliveries = take_list(2 * take())
  turn.queued = {}
  for number = 1, tonumber(take()) do turn.queued[number] = take_queued[take()]() end
  turn.answer = take_if({ 'field', 'value', 'oldest' })
  return turn
end

function writes.commit()
  local turn = take_turn()
  local head = read_head(turn.job)
  if head == DAMAGED then return DAMAGED end
  if not follows(head, turn) then
    return head and 'conflict:' .. head.sequence .. ':' .. head.uid or 'absent'
  end
  replace_head(turn.job, head, turn)
  redis.call('HSET', key('jobs'), turn.job, turn.row)
  if turn.definition then
    redis.call('HSET', key('definitions:' .. turn.uid), turn.definition.revision, turn.definition.value)
    redis.call('SADD', key('lives:' .. turn.job), turn.uid)
  end
  keep_batch(turn.batch)
  for at = 1, #turn.deliveries, 2 do keep_delivery(turn.deliveries[at], turn.deliveries[at + 1]) end
  for _, write in ipairs(turn.queued) do write() end
  if turn.gone then drop_answers_of(turn.job) end
  if turn.answer then keep_answer(turn.answer.field, turn.answer.value, turn.answer.oldest) end
  return ''
end

function writes.settle()
  for _ = 1, tonumber(take()) do
    local id, done, value = take(), take() == '1', take()
    if done then drop_delivery(id) else keep_delivery(id, value) end
    keep_batch(take_if({ 'field', 'value' }))
  end
  return ''
end

function writes.written()
  for _ = 1, tonumber(take()) do
    local field = take()
    redis.call('HDEL', key('unwritten'), field)
    redis.call('ZREM', key('unwritten:keys'), field)
  end
  return ''
end

function writes.remember()
  keep_answer(take(), take(), take())
  return ''
end

function writes.remember_first()
  local field, value, oldest, since = take(), take(), take(), take()
  local known = redis.call('HGET', key('answers'), field)
  if known and string.sub(known, 1, #since) >= since then return 'no' end
  keep_answer(field, value, oldest)
  return 'yes'
end

function writes.forget()
  local job = take()
  local head = read_head(job)
  if head == DAMAGED then return DAMAGED end
  if not head or not head.gone then return 'no' end
  reindex(job, head.face, '')
  reindex(job, head.turn, '')
  count(head.tenant, 'live', -head.live)
  count(head.tenant, 'waiting', -head.waiting)
  redis.call('HDEL', key('heads'), job)
  redis.call('HDEL', key('jobs'), job)
  for _, uid in ipairs(redis.call('SMEMBERS', key('lives:' .. job))) do
    redis.call('DEL', key('definitions:' .. uid))
  end
  redis.call('DEL', key('lives:' .. job))
  return 'yes'
end

function writes.keep()
  redis.call('HSET', key('meta'), take(), take())
  return ''
end
