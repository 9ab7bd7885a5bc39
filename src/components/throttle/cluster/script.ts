/** The script that the server executes; script-calls.ts calls it. */

/** In gcra, a lease may be spent for this part of a window. */
export const GCRA_LEASE_PART = 1 / 10
/** Maximum duration in a reply, in microseconds: about 30 years. Redis can keep keys that long. */
const LONGEST = 1e15

/**
 * Takes units from buckets, or gives units back. Times are on the server's clock, in microseconds. KEYS: the buckets.
 * ARGV[1]: sets of limits. ARGV[2]: a demand for each bucket. Both arguments are little-endian doubles.
 *
 * A set is the number of its limits, followed by these numbers for each limit:
 * - its mode (0: fixed, 1: aligned, 2: gcra, 3: quota)
 * - whether it counts bytes
 * - the limit
 * - the maximum part of the remaining units that may be taken ahead
 * - three more numbers: the window, the burst and 0; for a quota, the start and the end of the present period, and the
 *   end of the next period
 *
 * A demand is:
 * - the number of its set
 * - the units given back, wanted ahead and needed, each for costs and for bytes
 * - the ticket of the units given back
 * - the number of listed events, and the cost and the size of each. Without a list, the cost is the number of events,
 *   and each event costs 1.
 *
 * For each limit, a bucket has 16 bytes: the start of the window, and the units taken in this window. For gcra, these
 * are the time when the level was set, and the level, which sinks by one every window / limit. An event takes units of
 * all limits, or does not pass.
 *
 * Replies with the time, which is the ticket of the units taken, and for each key:
 * - the events that pass, as their number (-1: all) or as a text with 1 or 0 for each event
 * - the cost and the bytes taken ahead
 * - if all events passed, how long these units are valid; otherwise how long until the refusing limit has room
 * - if all events passed, the index of the fullest limit; otherwise the index of the refusing limit
 * - how much of this limit is used
 * - how long until the window of this limit ends
 *
 * Last comes the number of keys that held something other than a bucket. The content of these keys is ignored, and
 * replaced when units are taken.
 *
 * Units are given back only to windows that were open when the units were taken. If the server's clock was set back,
 * windows restart but keep their counts.
 */
export const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local sets, asked, at = {}, ARGV[2], 1
while at <= #ARGV[1] do
  local set, count = {}, 0
  count, at = struct.unpack('<d', ARGV[1], at)
  for n = 1, count do
    local l = {}
    l.mode, l.unit, l.most, l.part, l.window, l.burst, l.last, at = struct.unpack('<ddddddd', ARGV[1], at)
    l.unit = l.unit + 1
    l.interval = l.window / l.most
    set[n] = l
  end
  sets[#sets + 1] = set
end

local function open(l, state, n)
  local begin, start, used = now
  if l.mode == 1 then begin = now - now % l.window end
  if l.mode == 3 then begin = now < l.burst and l.window or l.burst end
  if not state then return begin, 0 end
  start, used = struct.unpack('<dd', state, n * 16 - 15)
  if l.mode == 2 then return now, math.max(0, used - math.max(0, now - start) / l.interval) end
  if l.mode == 3 then
    if begin > start then return begin, 0 end
    return start, used
  end
  if now - start >= l.window then return begin, 0 end
  return now < start and begin or start, used
end

local function ends(l, start, used)
  if l.mode == 2 then return math.min(${LONGEST}, used * l.interval) end
  if l.mode == 3 then return math.max(0, (start < l.burst and l.burst or l.last) - now) end
  return start + l.window - now
end

local out, foreign = {now}, 0
at = 1
for i, key in ipairs(KEYS) do
  local which, ticket, count
  local back, ahead, need = {}, {}, {}
  which, back[1], back[2], ahead[1], ahead[2], need[1], need[2], ticket, count, at = struct.unpack('<ddddddddd', asked, at)
  local set, state = sets[which + 1], redis.pcall('GET', key)
  if state and (type(state) == 'table' or #state ~= #set * 16) then
    if state.err and not string.find(state.err, 'WRONGTYPE', 1, true) then return state end
    state, foreign = false, foreign + 1
  end
  local start, used, smooth, full = {}, {}, false, 0
  for n, l in ipairs(set) do
    start[n], used[n] = open(l, state, n)
    local units = back[l.unit]
    if units > 0 then
      if l.mode == 2 then
        used[n] = math.max(0, used[n] - math.max(0, units - math.max(0, now - ticket) / l.interval))
      elseif start[n] <= ticket and ticket <= now then
        used[n] = math.max(0, used[n] - units)
      end
    end
    if l.mode == 2 then smooth = true
    elseif count > 0 and used[n] + need[l.unit] > l.most then full = n end
  end
  local passed, taken = -1, need
  if count == 0 then
    local most = need[1]
    for n, l in ipairs(set) do
      local fits = l.mode == 2 and math.floor(l.burst - used[n] + 1e-6) + 1 or l.most - used[n]
      if most > 0 and fits < most then most, full = math.max(0, fits), n end
    end
    passed, taken = most, {most, 0}
  elseif smooth or full > 0 then
    full, passed, taken = 0, {}, {0, 0}
    for e = 1, count do
      local cost = {struct.unpack('<dd', asked, at + (e - 1) * 16)}
      local refused = 0
      for n, l in ipairs(set) do
        local more = taken[l.unit]
        if l.mode == 2 then
          if used[n] + more > l.burst + 1e-6 then refused = n end
        elseif used[n] + more + cost[l.unit] > l.most then refused = n end
      end
      if refused == 0 then taken = {taken[1] + cost[1], taken[2] + cost[2]} else full = refused end
      passed[e] = refused == 0 and '1' or '0'
    end
    passed = full > 0 and table.concat(passed) or -1
  end
  at = at + count * 16
  local extra = full > 0 and {0, 0} or ahead
  for n, l in ipairs(set) do
    used[n] = used[n] + taken[l.unit]
    local left = (l.mode == 2 and l.burst or l.most) - used[n]
    extra[l.unit] = math.max(0, math.min(extra[l.unit], math.floor(left * l.part)))
  end
  local states, ttl, wait, nearest = {}, 0, math.huge, full
  for n, l in ipairs(set) do
    used[n] = used[n] + extra[l.unit]
    states[n] = struct.pack('<dd', start[n], used[n])
    local left = ends(l, start[n], used[n])
    ttl = math.max(ttl, left)
    wait = math.min(wait, l.mode == 2 and l.window * ${GCRA_LEASE_PART} or left)
    if full == 0 and (nearest == 0 or used[n] / l.most > used[nearest] / set[nearest].most) then nearest = n end
  end
  local l = set[nearest]
  local left = ends(l, start[nearest], used[nearest])
  if full > 0 then wait = l.mode == 2 and math.min(${LONGEST}, math.max(0, (used[full] - l.burst) * l.interval)) or left end
  if taken[1] + taken[2] + extra[1] + extra[2] + back[1] + back[2] > 0 then
    redis.call('SET', key, table.concat(states), 'PX', string.format('%.0f', math.ceil(ttl / 1000) + 1))
  end
  for _, value in ipairs({passed, extra[1], extra[2], math.ceil(wait), nearest - 1, math.ceil(used[nearest]), math.ceil(left)}) do
    out[#out + 1] = value
  end
end
out[#out + 1] = foreign
return out
`
