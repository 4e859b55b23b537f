-- Used by every write: ARGV has the prefix, the writer's boot and epoch, then the writes one after the other
-- (in the order of arguments.py). A write is a function of `writes` that takes its arguments and returns a verdict.
local prefix, next_argument = ARGV[1], 4
local writes = {}

local function key(name) return prefix .. name end

local function take()
  local value = ARGV[next_argument]
  next_argument = next_argument + 1
  return value
end

local function take_some(names)
  local found = {}
  for _, name in ipairs(names) do found[name] = take() end
  return found
end

local function take_if(names)
  if take() == '1' then return take_some(names) end
  return nil
end

local function take_list(count)
  local found = {}
  for number = 1, count do found[number] = take() end
  return found
end

-- Texts one after the other, each after its length.
local function frames(texts)
  local parts = {}
  for number, text in ipairs(texts) do parts[number] = struct.pack('>I4c0', #text, text) end
  return table.concat(parts)
end
