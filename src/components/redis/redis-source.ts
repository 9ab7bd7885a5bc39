import type { ComponentContext, Output, Source, SourceContext } from '../../core/component.js'
import { errorText } from '../../core/errors.js'
import { EventBatch } from '../../core/event/batch.js'
import { namedPlaces } from '../../core/event/event-id.js'
import type { Origin } from '../../core/event/origin.js'
import { PIECES } from '../../core/options/multiline-options.js'
import { Redelivery } from '../../engine/flow/redelivery.js'
import { everyOf, orAborted } from '../../lib/time.js'
import type { RedisConnection } from '../../net/redis/connection.js'
import { RedisConnector } from '../../net/redis/connector.js'
import { connectInTime, inTime } from '../../net/redis/in-time.js'
import { redisProblem } from '../../net/redis/redis-error.js'
import { OctetSplitter } from '../tcp/octet-splitter.js'
import type { RedisSourceOptions } from './options.js'

/** How long the server waits for entries before it replies without entries. */
const BLOCK_MS = 1000
const MIB = 1024 * 1024
/** Approximate bytes to read in one request. A request can only limit the number of entries. */
const READ_BYTES = MIB / 2
const MOST_ENTRIES = 1000
/** Maximum bytes of one reply. The client keeps whole replies in memory. */
const MOST_REPLY_BYTES = 256 * MIB
const LAG_MS = 10_000
/** Before the first id. XAUTOCLAIM returns it as its cursor if no entries are left. */
const START = '0-0'

/** An entry of a stream. `fields` is null if the server trimmed the entry after this consumer had received it. */
type Entry = readonly [id: Buffer, fields: readonly Buffer[] | null]

export class RedisSource implements Source {
  readonly redelivers = true
  readonly #options: RedisSourceOptions
  readonly #context: SourceContext
  readonly #connector: RedisConnector
  readonly #origin: Origin
  readonly #redelivery = new Redelivery(ids => this.#acknowledge(ids))
  readonly #splitter: OctetSplitter
  readonly #pieces: { value: number }
  readonly #trimmed: { value: number }
  readonly #stream: Buffer
  readonly #consumer: string
  /** The group with its stream and server. */
  readonly #group: string
  /** Whether the group has existed, in this process or an earlier one. */
  #isKnown: boolean
  /** The connection for all commands except reading. Reading blocks the connection that it uses. */
  #asking: RedisConnection | undefined
  /** Ends the run that made this connection. */
  #lost: (error: unknown) => void = () => {}
  /** Where XAUTOCLAIM continues. */
  #claimFrom = START
  /** How many entries to read next. */
  #count = 1
  /** Undefined while it is unknown. */
  #lag: number | undefined

  constructor(options: RedisSourceOptions, context: SourceContext) {
    const { metrics, id, checkpoints } = context
    this.#options = options
    this.#context = context
    this.#connector = connectorTo(options, context)
    this.#origin = context.origin(options.decode)
    this.#stream = Buffer.from(options.stream)
    this.#consumer = options.consumer ?? `${this.#origin.host}-${id}`
    this.#group = `${options.url} ${options.stream} ${options.group}`
    this.#isKnown = (checkpoints.read() as { group?: unknown } | null | undefined)?.group === this.#group
    checkpoints.provide(() => ({ version: 1, group: this.#isKnown ? this.#group : null }))
    this.#splitter = new OctetSplitter(options.max_line_bytes)
    this.#pieces = metrics.counter(...PIECES)
    const trimmed = 'Entries that were trimmed from the stream after they had been given to this consumer.'
    this.#trimmed = metrics.counter('sluice_redis_trimmed_entries_total', trimmed)
    const lag = 'Entries that the group has not read yet, as reported by the server.'
    metrics.gauges('sluice_redis_lag_entries', lag, () =>
      this.#lag === undefined ? [] : [{ labels: {}, value: this.#lag }],
    )
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    this.#asking?.destroy()
    // The first read asks for one entry, because the last reply may have been too large.
    this.#count = 1
    let failure: unknown
    const lost = (error: unknown) => {
      failure ??= error
      reading?.destroy()
    }
    let reading: RedisConnection | undefined
    const abort = () => reading?.destroy()
    signal.addEventListener('abort', abort)
    const timers: (() => void)[] = []
    try {
      this.#asking = await this.#connect(lost, signal)
      this.#lost = lost
      reading = await this.#connect(lost, signal)
      await this.#createGroup()
      await this.#redelivery.confirm()
      const { clock } = this.#context
      const repeat = (ms: number, task: () => Promise<void>) =>
        timers.push(everyOf(clock, ms, () => void task().catch(lost)))
      repeat(LAG_MS, () => this.#measure())
      let isClaimed = false
      const claim = async () => void (isClaimed = (await this.#claim()) || isClaimed)
      repeat(this.#options.claim_after / 3, async () => {
        await this.#renew()
        await claim()
      })
      // Reads new entries only after the entries that this consumer already holds.
      let from = '0'
      while (!signal.aborted) {
        // All entries that were taken over have been read, and more may be left.
        if (from === '>' && this.#claimFrom !== START) await claim()
        if (this.#redelivery.takeBack() || isClaimed) from = '0'
        isClaimed = false
        const entries = await this.#read(reading, from)
        if (from !== '>') from = entries.at(-1)?.[0].toString() ?? '>'
        await this.#send(entries, out)
      }
    } catch (error) {
      if (!signal.aborted) throw new Error(textOf(failure ?? error, this.#options, this.#connector))
    } finally {
      signal.removeEventListener('abort', abort)
      for (const cancel of timers) cancel()
      reading?.destroy()
    }
  }

  async stop(deadline: AbortSignal): Promise<void> {
    await orAborted(this.#redelivery.confirm(), deadline)
    this.#asking?.destroy()
    this.#splitter.drop()
  }

  #connect(lost: (error: unknown) => void, signal: AbortSignal): Promise<RedisConnection> {
    return connectInTime((...args) => this.#connector.connect(...args), lost, this.#context.clock, signal)
  }

  #ask(args: readonly string[]): Promise<unknown> {
    if (!this.#asking) return Promise.reject(new Error('not connected'))
    return inTime(this.#asking.command(this.#stream, args), this.#options.timeout, this.#context.clock)
  }

  /** If this fails, the run must end, because unacknowledged entries come again after a restart, and pile up. */
  async #acknowledge(ids: readonly string[]): Promise<void> {
    const lost = this.#lost
    try {
      await this.#ask(['XACK', this.#options.stream, this.#options.group, ...ids])
    } catch (error) {
      lost(error)
      throw error
    }
  }

  /** Creates the group if it does not exist. If it was lost, with or without its stream, the entries there are new. */
  async #createGroup(): Promise<void> {
    const { stream, group, read_from } = this.#options
    const from = read_from === 'end' && !this.#isKnown ? '$' : '0'
    try {
      await this.#ask(['XGROUP', 'CREATE', stream, group, from, 'MKSTREAM'])
      const text = 'the group no longer existed; created it again, and reading the stream from its beginning'
      if (this.#isKnown) this.#context.log.warn({ stream, group }, text)
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('BUSYGROUP'))) throw error
    }
    if (this.#isKnown) return
    this.#isKnown = true
    this.#context.checkpoints.changed()
  }

  /** If `from` is `>`, reads new entries. If it is an id, reads later entries that the consumer already holds. */
  async #read(connection: RedisConnection, from: string): Promise<readonly Entry[]> {
    const { stream, group, timeout } = this.#options
    const [count, block] = [String(this.#count), String(BLOCK_MS)]
    const args = ['XREADGROUP', 'GROUP', group, this.#consumer, 'COUNT', count, 'BLOCK', block, 'STREAMS', stream, from]
    const reply = connection.command(this.#stream, args, true)
    const streams = (await inTime(reply, BLOCK_MS + timeout, this.#context.clock)) as [[Buffer, Entry[]]] | null
    return streams?.[0][1] ?? []
  }

  async #send(entries: readonly Entry[], out: Output): Promise<void> {
    const ids: string[] = []
    const ends: number[] = []
    const counted: Buffer[] = []
    const trimmed: string[] = []
    let bytes = 0
    for (const [id, fields] of entries) {
      const name = id.toString()
      if (this.#redelivery.has(name)) continue
      if (!fields) {
        trimmed.push(name)
        continue
      }
      const line = lineOf(fields, this.#options.field)
      counted.push(Buffer.from(`${line.length} `), line)
      ids.push(name)
      ends.push((bytes += line.length + (line.at(-1) === LF ? 0 : 1)))
    }
    if (trimmed.length > 0) {
      this.#trimmed.value += trimmed.length
      await this.#acknowledge(trimmed)
    }
    const frame = this.#splitter.push(Buffer.concat(counted))
    if (!frame) return
    this.#count = Math.max(1, Math.min(this.#count * 2, MOST_ENTRIES, Math.ceil((READ_BYTES * ids.length) / bytes)))
    this.#pieces.value += this.#splitter.pieces
    this.#splitter.pieces = 0
    const ack = this.#redelivery.ack(out, ids, ends)
    const batch = new EventBatch(frame, this.#origin, this.#context.clock.wall(), ack)
    if (this.#origin.wanted.areIdsUsed && frame.length === ids.length)
      batch.places = namedPlaces(`${this.#options.url} ${this.#options.stream}`, ids)
    await out.send(batch)
  }

  /** Renews the claim on open entries. */
  async #renew(): Promise<void> {
    const { stream, group } = this.#options
    const held = [...this.#redelivery.open]
    for (let n = 0; n < held.length; n += MOST_ENTRIES)
      await this.#ask(['XCLAIM', stream, group, this.#consumer, '0', ...held.slice(n, n + MOST_ENTRIES), 'JUSTID'])
  }

  /** Takes over entries of inactive consumers. Returns whether there were any. */
  async #claim(): Promise<boolean> {
    const { stream, group, claim_after } = this.#options
    const [idle, count] = [String(claim_after), String(MOST_ENTRIES)]
    const args = ['XAUTOCLAIM', stream, group, this.#consumer, idle, this.#claimFrom, 'COUNT', count, 'JUSTID']
    const [next, claimed] = (await this.#ask(args)) as [string, string[]]
    this.#claimFrom = next
    return claimed.length > 0
  }

  async #measure(): Promise<void> {
    const { stream, group } = this.#options
    this.#lag = lagIn((await this.#ask(['XINFO', 'GROUPS', stream])) as Group[], group)
  }
}

/** A group in the reply to XINFO GROUPS: name, value, name, value … */
type Group = readonly (string | number | null)[]

/** The lag of a group. Undefined if it is unknown, as in versions before Redis 7, or after entries were deleted. */
export function lagIn(groups: readonly Group[], name: string): number | undefined {
  const valueIn = (group: Group, key: string) => group.find((_, n) => n % 2 === 1 && group[n - 1] === key)
  const own = groups.find(group => valueIn(group, 'name') === name)
  const lag = own && valueIn(own, 'lag')
  return typeof lag === 'number' ? lag : undefined
}

function connectorTo(options: RedisSourceOptions, { log, clock, reach }: ComponentContext): RedisConnector {
  return new RedisConnector(options, { log, clock, reach, mostReplyBytes: MOST_REPLY_BYTES })
}

function textOf(error: unknown, { stream }: RedisSourceOptions, { passwords }: RedisConnector): string {
  const permissions = `~${stream} +xreadgroup +xack +xgroup +xclaim +xautoclaim +xinfo`
  return redisProblem(error, passwords, permissions).text
}

/** Asks for the groups of the stream. Works even if the stream does not exist yet. */
export async function checkStream(
  options: RedisSourceOptions,
  context: ComponentContext,
  signal: AbortSignal,
): Promise<string> {
  const { stream, timeout } = options
  const { clock } = context
  const connector = connectorTo(options, context)
  let connection: RedisConnection | undefined
  try {
    connection = await connectInTime(
      (...args) => connector.connect(...args),
      () => {},
      clock,
      signal,
    )
    const args = ['XINFO', 'GROUPS', stream]
    await inTime(connection.command(Buffer.from(stream), args), timeout, clock)
    return 'the stream can be read'
  } catch (error) {
    if (/^ERR no such key/.test(errorText(error))) return 'the stream does not exist yet'
    throw new Error(textOf(error, options, connector))
  } finally {
    connection?.destroy()
  }
}

const LF = 0x0a
const EMPTY_LINE = Buffer.from('\n')

function lineOf(fields: readonly Buffer[], name: string): Buffer {
  const all: Record<string, string> = {}
  for (let n = 0; n < fields.length; n += 2) {
    const [field, value] = [fields[n]!.toString(), fields[n + 1]!]
    // OctetSplitter does not accept a message without bytes.
    if (field === name) return value.length > 0 ? value : EMPTY_LINE
    all[field] = value.toString()
  }
  return Buffer.from(JSON.stringify(all))
}
