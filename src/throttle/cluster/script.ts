import type { SharedLimit } from './shared-limit.js'

/** What the server executes, and how it is asked. */

/** The first unit of time of the script is the microsecond, that of the server's clock. */
const MICROS = 1000

/**
 * Takes units of buckets, or gives some back, on the server's clock. KEYS: the buckets. ARGV: the mode (f: fixed, a:
 * aligned, g: gcra), the limit, the window in microseconds, the burst, the greatest part of what is left that may be
 * taken ahead, and three little-endian doubles for each key: the units needed (negative: given back), those wanted
 * besides, and for units given back the ticket they came with.
 *
 * A bucket is 16 bytes: when its window began (gcra: when its level was set) and the units taken in it (gcra: its level,
 * which sinks by one every window / limit). Replies with three integers for each key: the units granted, the microseconds
 * until its window ends (gcra: until a unit is free), and the ticket: what belongs to a window, or to a time in gcra.
 * A server's clock that was set back restarts the windows with what they have counted.
 */
export const SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local mode, limit, window = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local burst, part, asked = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local interval = window / limit
local out = {}
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 24 + 1
  local need = struct.unpack('<d', asked, at)
  local ahead = struct.unpack('<d', asked, at + 8)
  local ticket = struct.unpack('<d', asked, at + 16)
  local state = redis.call('GET', key)
  local start, used = now, 0
  if state then
    start = struct.unpack('<d', state, 1)
    used = struct.unpack('<d', state, 9)
  end
  local room, wait, valid, mine
  if mode == 'g' then
    used = math.max(0, used - math.max(0, now - start) / interval)
    start = now
    room = math.floor(burst - used + 1e-9) + 1
    wait = math.max(0, (used - burst) * interval)
    mine = now
  else
    if not state or now - start >= window or now < start then
      if not state or now >= start then used = 0 end
      start = now
      if mode == 'a' then start = now - now % window end
    end
    room = limit - used
    wait = start + window - now
    mine = start
  end
  local granted = 0
  if need < 0 then
    if mode == 'g' then
      used = math.max(0, used - math.max(0, -need - (now - ticket) / interval))
    elseif start == ticket then
      used = math.max(0, used + need)
    end
  else
    granted = math.max(0, math.min(need, room))
    if granted == need then
      granted = granted + math.min(ahead, math.floor((room - need) * part))
    end
    used = used + granted
  end
  if granted > 0 or need < 0 then
    local ttl = mode == 'g' and used * interval or start + window - now
    redis.call('SET', key, struct.pack('<dd', start, used), 'PX', string.format('%.0f', math.ceil(ttl / 1000) + 1))
  end
  local n = 3 * (i - 1)
  out[n + 1] = granted
  out[n + 2] = math.ceil(wait)
  out[n + 3] = mine
end
return out
`

/** What a daemon asks about one bucket. */
export interface Demand {
  /** The bucket's key; empty: the default bucket. */
  readonly key: Buffer
  /** Units needed now; negative: given back. */
  need: number
  /** Units wanted besides, for later. */
  ahead: number
  /** The ticket of the units given back. */
  readonly ticket: number
}

/** The server's reply about one bucket. */
export interface Grant {
  readonly granted: number
  /** Milliseconds until the window ends; gcra: until a unit is free. */
  readonly waitMs: number
  readonly ticket: number
}

/** Number of hash tags that the buckets of a group have in a Redis Cluster, and so of the calls for one batch. */
const TAGS = 16
/** Number of buckets in one call: a script blocks its server, so that each runs for a few milliseconds at most. */
const MOST_KEYS = 500

/** One call of the script. */
export interface ScriptCall {
  readonly keys: readonly Buffer[]
  readonly args: readonly (string | Buffer)[]
  /** Which demands it is about. */
  readonly demands: readonly number[]
}

const LETTERS: Readonly<Record<SharedLimit['mode'], string>> = { fixed: 'f', aligned: 'a', gcra: 'g' }

/** Makes the calls for the demands of a group about one limit. */
export class ScriptCalls {
  readonly #head: readonly string[]
  /** What keys begin with, by tag. */
  readonly #prefixes: readonly Buffer[]

  constructor({ mode, limit, windowMs, burst, part }: SharedLimit, group: string) {
    const window = Math.max(1, Math.round(windowMs * MICROS))
    this.#head = [LETTERS[mode], `${limit}`, `${window}`, `${burst}`, `${part}`]
    this.#prefixes = Array.from({ length: TAGS }, (_, tag) => Buffer.from(`sluice:${LETTERS[mode]}:{${group}.${tag}}:`))
  }

  /** The calls for a batch's demands, to be sent together. `byTag`: the keys of a call are in one slot. */
  for(demands: readonly Demand[], byTag: boolean): ScriptCall[] {
    const tags = demands.map(({ key }) => tagOf(key))
    const lists: number[][] = Array.from({ length: byTag ? TAGS : 1 }, () => [])
    for (let i = 0; i < demands.length; i++) lists[byTag ? tags[i]! : 0]!.push(i)
    const calls: ScriptCall[] = []
    for (const list of lists) {
      for (let from = 0; from < list.length; from += MOST_KEYS) {
        const some = list.slice(from, from + MOST_KEYS)
        const asked = Buffer.alloc(some.length * 24)
        const keys = some.map((index, i) => {
          const { key, need, ahead, ticket } = demands[index]!
          asked.writeDoubleLE(need, i * 24)
          asked.writeDoubleLE(ahead, i * 24 + 8)
          asked.writeDoubleLE(ticket, i * 24 + 16)
          return Buffer.concat([this.#prefixes[tags[index]!]!, key])
        })
        calls.push({ keys, args: [...this.#head, asked], demands: some })
      }
    }
    return calls
  }
}

/** Puts what a call replied into the grants, by demand. Throws if it is not a reply of the script. */
export function readReply({ demands }: ScriptCall, reply: unknown, grants: Grant[]): void {
  if (!Array.isArray(reply) || reply.length !== demands.length * 3 || !reply.every(Number.isFinite))
    throw new Error('the server replied with something else than the script')
  for (const [i, index] of demands.entries()) {
    const [granted, wait, ticket] = reply.slice(i * 3, i * 3 + 3) as [number, number, number]
    grants[index] = { granted, waitMs: wait / MICROS, ticket }
  }
}

/** The same in every daemon. */
function tagOf(key: Buffer): number {
  let hash = 0
  for (const byte of key) hash = (Math.imul(hash, 31) + byte) | 0
  return (hash ^ (hash >>> 16)) & (TAGS - 1)
}
