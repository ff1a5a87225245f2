local function is_fence(text)
  return #text <= 20 and text:find('^[1-9]%d*$') ~= nil
end
local function is_less(a, b)  -- Digit by digit: numbers of Lua are exact up to 2^53 only.
  if #a ~= #b then return #a < #b end
  for i = 1, #a do
    if a:byte(i) ~= b:byte(i) then return a:byte(i) < b:byte(i) end
  end
  return false
end
local mine, seen = ARGV[1] or '', redis.call('GET', KEYS[1])
if not is_fence(mine) then
  return redis.error_reply("holdfast_fence_is_no_integer: ARGV[1] is '" .. mine .. "'")
end
if seen and not is_fence(seen) then
  return redis.error_reply("holdfast_fence_is_no_integer: " .. KEYS[1] .. " has '" .. seen .. "'")
end
if seen and is_less(mine, seen) then
  return redis.error_reply('holdfast_stale_fence: ' .. mine .. ' came after ' .. seen)
end
redis.call('SET', KEYS[1], mine)  -- Even if it has it: a replica, which may lag, refuses that.
if #ARGV == 1 then return redis.status_reply('OK') end
return redis.pcall(unpack(ARGV, 2))
