-- The parts of queues: what is in them, which instance has it, and how it ended (see sqlite/queue_parts.py).
--
-- A moment is 16 digits, so that texts sort like moments; '' is none. `expires` is the end of the queue timeout of
-- a part that nobody has claimed yet; `changes` are those of its leases that its job has not accepted. A part's state
-- is free, leased, ended, or cancelled: leased, but withdrawn by its job.
local FIELDS = {
  'state', 'free_at', 'instance', 'lease', 'ends', 'retries', 'total', 'step', 'attempt', 'owner', 'place',
  'mark', 'specific', 'length', 'most', 'delay', 'patience', 'options', 'content', 'finish',
  'published', 'expires', 'serial', 'changes', 'claimed',
}
local OPTIONS = { 'mark', 'specific', 'length', 'most', 'delay', 'patience', 'options' }
local FREE = { state = 'free', instance = '', lease = '', ends = '', free_at = '' }
local AT_ONCE = 500
-- Words and numbers of domain/leases.py (see connection.py).
local CLAIMED, LOST, GRACE = '@CLAIMED@', '@LOST@', @DOWNTIME_GRACE_MS@

local function moment(number) return string.format('%016d', number) end

local function read_part(id)
  local values = redis.call('HMGET', key('part:' .. id), unpack(FIELDS))
  if not values[1] then return nil end
  local part = { id = id }
  for number, name in ipairs(FIELDS) do part[name] = values[number] or '' end
  return part
end

-- The part of a member of an index by moments; a member whose part is gone leaves the index.
local function read_member(index, member)
  local part = read_part(string.sub(member, 17))
  if not part then redis.call('ZREM', key(index), member) end
  return part
end

-- The index of the parts of one queue that are leased to an instance.
local function held(place, instance) return 'parts:held:' .. place .. '\0' .. instance end

-- Calls `visit` for each index that has the part, with what precedes its id there.
local function each_place(part, visit)
  if part.state == 'free' then
    visit('parts:free:' .. part.place, part.mark)
    visit('parts:aged:' .. part.place, string.sub(part.mark, -8))
    if part.free_at ~= '' then visit('parts:delayed', part.free_at) end
  end
  if part.expires ~= '' then visit('parts:expires', part.expires) end
  if part.changes ~= '' and part.state ~= 'ended' then visit('parts:changed', '') end
  if part.ends ~= '' then visit('parts:until', part.ends) end
  if part.state == 'ended' then visit('parts:ended', '') end
  if part.state == 'leased' then
    visit(held(part.place, part.instance), part.ends)
    visit('parts:leased:' .. part.place, '')
  end
end

local function leave(part)
  each_place(part, function(name, value) redis.call('ZREM', key(name), value .. part.id) end)
  if part.lease ~= '' then redis.call('HDEL', key('parts:leases'), part.lease) end
end

-- A queue is listed while parts of it wait or are leased.
local function list_queue(place)
  local is_used = redis.call('ZCARD', key('parts:free:' .. place)) + redis.call('ZCARD', key('parts:leased:' .. place))
  if is_used > 0 then
    redis.call('ZADD', key('parts:queues'), 0, place)
  else
    redis.call('ZREM', key('parts:queues'), place)
  end
end

local function enter(part)
  each_place(part, function(name, value) redis.call('ZADD', key(name), 0, value .. part.id) end)
  if part.lease ~= '' then redis.call('HSET', key('parts:leases'), part.lease, part.id) end
  list_queue(part.place)
end

local function change(part, changes)
  leave(part)
  local flat = {}
  for name, value in pairs(changes) do
    part[name] = value
    flat[#flat + 1] = name
    flat[#flat + 1] = value
  end
  redis.call('HSET', key('part:' .. part.id), unpack(flat))
  enter(part)
end

local function delete(part)
  leave(part)
  list_queue(part.place)
  redis.call('SREM', key('parts:step:' .. part.step), part.id)
  redis.call('SREM', key('parts:of:' .. part.owner), part.id)
  redis.call('DEL', key('part:' .. part.id))
end

local function publish(id, part)
  if redis.call('EXISTS', key('part:' .. id)) == 1 then return end
  part.id, part.state, part.retries, part.finish = id, 'free', '0', ''
  part.free_at, part.instance, part.lease, part.ends = '', '', '', ''
  part.serial, part.changes, part.expires, part.claimed = '0', '', '', ''
  if part.published ~= '' then part.expires = moment(part.published + part.patience) end
  local flat = {}
  for _, name in ipairs(FIELDS) do
    flat[#flat + 1] = name
    flat[#flat + 1] = part[name]
  end
  redis.call('HSET', key('part:' .. id), unpack(flat))
  redis.call('SADD', key('parts:step:' .. part.step), id)
  redis.call('SADD', key('parts:of:' .. part.owner), id)
  enter(part)
end

local function withdraw(owner, attempt)
  for _, id in ipairs(redis.call('SMEMBERS', key('parts:of:' .. owner))) do
    local part = read_part(id)
    if attempt == '0' or part.attempt == attempt then
      if part.state == 'leased' then
        change(part, { state = 'cancelled' })
      elseif part.state ~= 'cancelled' then
        delete(part)
      end
    end
  end
end

-- No instance is named: each may have it.
local function is_named(specific, instance)
  if specific == '' then return true end
  for _, name in ipairs(cjson.decode(specific)) do
    if name == instance then return true end
  end
  return false
end

local function reconfigure(step, options)
  for _, id in ipairs(redis.call('SMEMBERS', key('parts:step:' .. step))) do
    local part = read_part(id)
    local created = string.sub(part.mark, -8)
    local changes = {}
    for _, name in ipairs(OPTIONS) do changes[name] = options[name] end
    changes.mark = options.mark .. created
    if part.expires ~= '' then changes.expires = moment(part.published + options.patience) end
    if part.state == 'leased' and not is_named(options.specific, part.instance) then
      for name, value in pairs(FREE) do changes[name] = value end
    end
    change(part, changes)
  end
end

local function accept(id, serial)
  local part = read_part(id)
  if part and part.serial == serial then change(part, { changes = '' }) end
end

-- What becomes of the changes of a part with one more (see common/writes.py).
local function add_change(part, changes, what, now, instance)
  changes.serial = string.format('%d', (tonumber(part.serial) or 0) + 1)
  changes.changes = part.changes .. changes.serial .. ' ' .. what .. ' ' .. string.format('%d', now) .. ' ' .. instance .. '\n'
end

local take_queued = {}

function take_queued.publish()
  local id = take()
  local part = take_some({ 'total', 'step', 'attempt', 'owner', 'place', 'content', 'published', unpack(OPTIONS) })
  return function() publish(id, part) end
end

function take_queued.withdraw()
  local owner, attempt = take(), take()
  return function() withdraw(owner, attempt) end
end

function take_queued.reconfigure()
  local step, options = take(), take_some(OPTIONS)
  return function() reconfigure(step, options) end
end

function take_queued.accept()
  local id, serial = take(), take()
  return function() accept(id, serial) end
end

-- Whether an instance has a part of this step, or had one: of a spread step it gets one.
local function has_handled(step, instance)
  for _, id in ipairs(redis.call('SMEMBERS', key('parts:step:' .. step))) do
    local found = redis.call('HMGET', key('part:' .. id), 'instance', 'state')
    if found[1] == instance and (found[2] == 'leased' or found[2] == 'ended') then return true end
  end
  return false
end

local function may_have(part, instance, now, handled)
  if part.free_at ~= '' and tonumber(part.free_at) > now then return false end
  if part.expires ~= '' and tonumber(part.expires) <= now then return false end
  if not is_named(part.specific, instance) then return false end
  if part.total == '1' then return true end
  if handled[part.step] == nil then handled[part.step] = has_handled(part.step, instance) end
  return not handled[part.step]
end

-- How many more parts the instance may have; withdrawn ones do not count. No `capacity`: `most`.
local function room(place, instance, now, capacity, most)
  if capacity == '' then return most end
  local after = '(' .. moment(now) .. '\255'
  return math.min(most, capacity - redis.call('ZLEXCOUNT', key(held(place, instance)), after, '+'))
end

-- The first claim of any part of a step that has one.
local function first_claim(part)
  local first = part.claimed
  if part.total == '1' then return first end
  for _, id in ipairs(redis.call('SMEMBERS', key('parts:step:' .. part.step))) do
    local other = redis.call('HGET', key('part:' .. id), 'claimed')
    if other and other ~= '' and other < first then first = other end
  end
  return first
end

function writes.claim()
  local place, instance, now, capacity, left = take(), take(), tonumber(take()), take(), tonumber(take())
  local leases, after, found, handled = take_list(tonumber(take())), '-', {}, {}
  local name, most = 'parts:free:' .. place, room(place, instance, now, capacity, #leases)
  if most <= 0 then return frames({}) end
  repeat
    local members = redis.call('ZRANGE', key(name), after, '+', 'BYLEX', 'LIMIT', 0, AT_ONCE)
    for _, member in ipairs(members) do
      if #found == most then break end
      local part = read_part(string.sub(member, 18))
      if may_have(part, instance, now, handled) then
        left = left - #part.content
        if #found > 0 and left < 0 then return frames(found) end
        handled[part.step] = true
        local lease, ends = leases[#found + 1], moment(now + part.length)
        local changes = { state = 'leased', instance = instance, lease = lease, ends = ends, free_at = '', expires = '' }
        add_change(part, changes, CLAIMED, now, instance)
        if part.claimed == '' then changes.claimed = moment(now) end
        change(part, changes)
        found[#found + 1] = frames({ lease, ends, part.options, part.content, part.changes, first_claim(part) })
      end
    end
    after = '(' .. (members[#members] or '')
  until #found == most or #members < AT_ONCE
  return frames(found)
end

local function find_lease(lease)
  local id = redis.call('HGET', key('parts:leases'), lease)
  return id and read_part(id)
end

function writes.renew()
  local part, now = find_lease(take()), tonumber(take())
  if not part or part.ends == '' or tonumber(part.ends) <= now then return '' end
  change(part, { ends = moment(now + part.length) })
  return frames({ part.ends, part.state, part.options, part.content })
end

-- Which leases were completed, and how: by lease, and in order of their moments. With each new one a few of the
-- oldest are deleted (see sqlite/queue_parts.py).
local function keep_completion(lease, asked)
  redis.call('HSET', key('parts:completed'), lease, asked.digest)
  redis.call('RPUSH', key('parts:completions'), asked.at .. lease)
  for _ = 1, 10 do
    local first = redis.call('LINDEX', key('parts:completions'), 0)
    local is_old = string.sub(first, 1, 16) < asked.oldest
    if not is_old and redis.call('LLEN', key('parts:completions')) <= tonumber(asked.keeps) then break end
    redis.call('LPOP', key('parts:completions'))
    redis.call('HDEL', key('parts:completed'), string.sub(first, 17))
  end
end

local function ended_frames(part, finish)
  return frames({ part.id, part.content, part.instance, part.retries, finish, part.options, part.changes })
end

function writes.complete()
  local lease, now, finish = take(), tonumber(take()), take()
  local asked, part = take_some({ 'digest', 'at', 'oldest', 'keeps' }), find_lease(lease)
  if not part then
    return redis.call('HGET', key('parts:completed'), lease) == asked.digest and 'known' or 'lost'
  end
  if part.state == 'ended' then
    if redis.call('HGET', key('parts:completed'), lease) ~= asked.digest then return 'before' .. part.finish end
    change(part, { lease = '' }) -- without it the part cannot take along what was accepted again
    return 'known'
  end
  if tonumber(part.ends) <= now then return 'lost' end
  if part.state == 'cancelled' then
    delete(part)
    return 'withdrawn' .. ended_frames(part, finish)
  end
  keep_completion(lease, asked)
  change(part, { state = 'ended', ends = '', finish = finish })
  return 'ended' .. ended_frames(part, finish)
end

-- The first moments of an index, up to `now`.
local function due(index, now)
  return redis.call('ZRANGE', key(index), '-', '(' .. moment(now) .. '\255', 'BYLEX', 'LIMIT', 0, AT_ONCE)
end

-- When to look again: the end of the first lease or queue timeout, or when the first delayed part is free.
local function next_look(now)
  local range = { '(' .. moment(now) .. '\255', '+', 'BYLEX', 'LIMIT', 0, 1 }
  local first = redis.call('ZRANGE', key('parts:delayed'), unpack(range))[1]
  for _, index in ipairs({ 'parts:until', 'parts:expires' }) do
    local other = redis.call('ZRANGE', key(index), 0, 0)[1]
    if not first or (other and other < first) then first = other end
  end
  return first and string.sub(first, 1, 16) or ''
end

-- Ends a lease: its part is among `freed` then, or among `found` where that was its last one. One that is not
-- used is no retry.
local function release(part, now, is_unused, found, freed)
  local changes = { state = 'ended', ends = '' }
  add_change(part, changes, LOST, now, part.instance)
  if not is_unused and tonumber(part.retries) >= tonumber(part.most) then
    change(part, changes)
    found[#found + 1] = ended_frames(part, '')
    return
  end
  for name, value in pairs(FREE) do changes[name] = value end
  if not is_unused then
    changes.retries = tostring(part.retries + 1)
    changes.free_at = moment(now + part.delay)
  end
  change(part, changes)
  freed[#freed + 1] = frames({ part.id, part.content, part.changes })
end

function writes.free()
  local part, place, now, lease = read_part(take()), take(), tonumber(take()), take()
  if not part or part.place ~= place or part.state ~= 'leased' or tonumber(part.ends) <= now then return '' end
  if lease ~= '' and part.lease ~= lease then return '' end
  local found, freed = {}, {}
  release(part, now, lease ~= '', found, freed)
  return frames({ next_look(now), frames(found), frames(freed) })
end

function writes.sweep()
  local now = tonumber(take())
  local found, freed = {}, {}
  for _, member in ipairs(due('parts:until', now)) do
    local part = read_member('parts:until', member)
    if part and part.state == 'cancelled' then
      delete(part)
    elseif part then
      release(part, now, false, found, freed)
    end
  end
  for _, member in ipairs(due('parts:expires', now)) do
    local part = read_member('parts:expires', member)
    if part then
      change(part, { state = 'ended', expires = '' })
      found[#found + 1] = ended_frames(part, '')
    end
  end
  return frames({ next_look(now), frames(found), frames(freed) })
end

-- Indexes that programs of format 1 do not all know.
local NEWER = { 'parts:aged:*', 'parts:leased:*', 'parts:queues', 'parts:changed', 'parts:expires' }

-- A program of format 1 that claims a part leaves its queue timeout, which has ended with the claim.
local function list_again(id)
  local part = read_part(id)
  if not part then return end
  if part.expires ~= '' and (part.state ~= 'free' or part.retries ~= '0') then
    part.expires = ''
    redis.call('HSET', key('part:' .. id), 'expires', '')
  end
  enter(part)
end

-- Makes the newer indexes anew, once after each program of format 1: each part is in one of the older ones.
local function list_older()
  if redis.call('HSETNX', key('meta'), 'queues_listed', '1') == 0 then return end
  for _, pattern in ipairs(NEWER) do
    for _, name in ipairs(redis.call('KEYS', key(pattern))) do redis.call('DEL', name) end
  end
  local function list_all(name, start)
    for _, member in ipairs(redis.call('ZRANGE', name, 0, -1)) do list_again(string.sub(member, start)) end
  end
  for _, name in ipairs(redis.call('KEYS', key('parts:free:*'))) do list_all(name, 18) end
  list_all(key('parts:until'), 17)
  list_all(key('parts:ended'), 1)
end

-- Where the clock was set back: what has happened has not happened later than now.
local function follow_clock(now)
  for _, member in ipairs(redis.call('ZRANGE', key('parts:expires'), 0, -1)) do
    local published = redis.call('HGET', key('part:' .. string.sub(member, 17)), 'published')
    if published and published > moment(now) then
      local part = read_member('parts:expires', member)
      local expires = moment(part.expires - part.published + now)
      change(part, { expires = expires, published = moment(now) })
    end
  end
  for _, member in ipairs(redis.call('ZRANGE', key('parts:delayed'), '(' .. moment(now) .. '\255', '+', 'BYLEX')) do
    local part = read_member('parts:delayed', member)
    local changes = part and { free_at = moment(math.min(part.free_at, now + part.delay)) }
    if part and part.claimed > moment(now) then changes.claimed = moment(now) end
    if part then change(part, changes) end
  end
end

function writes.extend()
  local now = tonumber(take())
  list_older()
  for _, member in ipairs(redis.call('ZRANGE', key('parts:until'), 0, -1)) do
    local part = read_member('parts:until', member)
    if part then change(part, { ends = moment(now + part.length) }) end
    if part and part.claimed > moment(now) then change(part, { claimed = moment(now) }) end
  end
  follow_clock(now)
  -- A minute, or the whole queue timeout where that is less (SPEC section 8).
  for _, member in ipairs(redis.call('ZRANGE', key('parts:expires'), '-', '(' .. moment(now + GRACE), 'BYLEX')) do
    local part = read_member('parts:expires', member)
    local expires = part and moment(now + math.min(part.patience, GRACE))
    if part and expires > part.expires then change(part, { expires = expires }) end
  end
  return ''
end

function writes.hold()
  local place, last = take(), '(' .. moment(tonumber(take())) .. '\255'
  for _, member in ipairs(redis.call('ZRANGE', key('parts:expires'), '-', last, 'BYLEX')) do
    local part = read_member('parts:expires', member)
    if part and part.place == place then change(part, { expires = '' }) end
  end
  return ''
end

function writes.go_on()
  local place, since, now = take(), tonumber(take()), tonumber(take())
  for _, member in ipairs(redis.call('ZRANGE', key('parts:free:' .. place), 0, -1)) do
    local part = read_part(string.sub(member, 18))
    if part and part.published ~= '' and part.claimed == '' then
      local began = now - math.max(since - part.published, 0)
      change(part, { published = moment(began), expires = moment(began + part.patience) })
    end
  end
  return ''
end

function writes.drop()
  local part = read_part(take())
  if part and part.state == 'ended' then
    redis.call('HDEL', key('parts:completed'), part.lease)
    delete(part)
  end
  return ''
end
