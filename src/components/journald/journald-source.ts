import { JSON_OBJECTS } from '../../core/codecs/json.js'
import type { Output, Source, SourceContext } from '../../core/component.js'
import { GivenBackError } from '../../core/errors.js'
import { EventBatch } from '../../core/event/batch.js'
import { namedPlaces } from '../../core/event/event-id.js'
import type { Origin } from '../../core/event/origin.js'
import { LowWaterMark } from '../../engine/flow/low-water-mark.js'
import { Backoff, systemRandom } from '../../lib/backoff.js'
import { fileSystems } from '../../lib/files/disk/file-systems.js'
import { untilReadable } from '../../lib/files/until-readable.js'
import { splitLines } from '../../lib/lines/line-splitter.js'
import { orAborted, sleep } from '../../lib/time.js'
import { EntryReader, type Taken } from './entries.js'
import { cursorOf, type EventOptions, eventOptions, lineOf } from './fields.js'
import { firstCursor, Journalctl } from './journalctl.js'
import { JournalctlProblems } from './journalctl-problems.js'
import { CatchUp, Lag } from './lag.js'
import { filterArgs, type JournaldOptions, ownMachine, placeArgs } from './options.js'
import { type JournalPlace, PLACE_VERSION, placeIn } from './place.js'

const RESTART_FIRST_MS = 1000
const RESTART_MAX_MS = 30_000
/**
 * How long to wait before reporting that journalctl ended. If a signal to the process group also ends journalctl,
 * journalctl may end before this source is stopped.
 */
const END_TOGETHER_MS = 250
const GIVEN_BACK = 'a batch was not delivered; reading the journal again from the last checkpoint'

export class Journald implements Source {
  readonly #options: JournaldOptions
  readonly #context: SourceContext
  readonly #origin: Origin
  readonly #event: EventOptions
  readonly #problems: JournalctlProblems
  readonly #lag: Lag
  readonly #catchUp: CatchUp
  readonly #lost: { value: number }
  readonly #cut: { value: number }
  readonly #backoff = new Backoff(RESTART_FIRST_MS, RESTART_MAX_MS, systemRandom)
  /** The positions of sent batches; undefined: the source has never run. */
  #positions: LowWaterMark<JournalPlace> | undefined
  #read: JournalPlace = { cursor: undefined, at: false }
  /** Aborts when the run ends, or when sent entries must be read again. */
  #leaving = new AbortController()

  constructor(options: JournaldOptions, context: SourceContext) {
    const { checkpoints, metrics } = context
    // Read first, because this throws if the position cannot be read now.
    const saved = checkpoints.read()
    const place = saved === undefined ? undefined : placeIn(saved)
    this.#options = options
    this.#context = context
    this.#origin = context.origin(JSON_OBJECTS)
    this.#event = eventOptions(options, this.#origin.host)
    this.#problems = new JournalctlProblems(context)
    this.#lag = new Lag(context)
    this.#catchUp = new CatchUp(context.clock)
    this.#lost = metrics.counter(
      'sluice_journal_lost_positions_total',
      'How often the last entry that was read had been removed from the journal. Entries after it may be lost.',
    )
    this.#cut = metrics.counter(
      'sluice_journal_truncated_fields_total',
      'Fields of over-long entries that were truncated.',
    )
    if (place) this.#positions = this.#positionsFrom(place)
    checkpoints.provide(() => {
      const { cursor = null, at = false } = this.#positions?.mark ?? {}
      return { version: PLACE_VERSION, cursor, ...(at ? { at } : {}) }
    })
  }

  #positionsFrom(start: JournalPlace): LowWaterMark<JournalPlace> {
    return new LowWaterMark(start, () => this.#context.checkpoints.changed())
  }

  async run(out: Output, signal: AbortSignal): Promise<void> {
    await this.#untilStartable(signal)
    this.#catchUp.begin()
    this.#positions ??= await this.#begin(signal)
    this.#leaving = new AbortController()
    // Entries of an earlier run are either committed or read again.
    this.#positions = this.#positionsFrom(this.#positions.mark)
    this.#read = this.#positions.mark
    const leaving = this.#leaving
    const end = () => leaving.abort()
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
    try {
      while (!signal.aborted) {
        const why = await this.#follow(out, leaving.signal)
        if (signal.aborted) return
        if (why === undefined) throw new GivenBackError(GIVEN_BACK)
        await sleep(END_TOGETHER_MS, leaving.signal)
        if (signal.aborted) return
        this.#problems.ended(why)
        await sleep(this.#backoff.next(), leaving.signal)
        await this.#untilStartable(leaving.signal)
        this.#catchUp.begin()
      }
    } finally {
      signal.removeEventListener('abort', end)
    }
  }

  /**
   * Waits until all file systems respond. If journalctl were started earlier, its start could block Sluice, because a
   * new process first closes inherited files. Meanwhile, the journal keeps the entries.
   */
  async #untilStartable(signal: AbortSignal): Promise<void> {
    const systems = this.#context.fileSystems ?? fileSystems
    let warned = ''
    for (let mount = await systems.anySilent(); mount && !signal.aborted; mount = await systems.anySilent()) {
      if (mount !== warned) {
        const text = 'file system does not answer; journalctl is started when it answers again'
        this.#context.log.error({ code: 'SLUICE_FILE_SYSTEM_SILENT', folder: mount }, text)
      }
      warned = mount
      await Promise.race([systems.answered(mount), sleep(RESTART_FIRST_MS, signal)])
    }
  }

  /** Determines and saves the first position. Later starts must use the same position even if nothing is delivered. */
  async #begin(signal: AbortSignal): Promise<LowWaterMark<JournalPlace>> {
    const start = await this.#firstPlace(signal)
    this.#positions = this.#positionsFrom(start)
    const { checkpoints } = this.#context
    checkpoints.changed()
    // The writer logs failures and retries.
    await checkpoints.flush().catch(() => {})
    return this.#positions
  }

  async #firstPlace(signal: AbortSignal): Promise<JournalPlace> {
    const { read_from } = this.#options
    const where = placeArgs(this.#options)
    if (read_from === 'boot') {
      // If this boot has no entries yet, journalctl fails with an error about the boot. Reading then begins after the
      // last entry of the journal.
      const cursor = await firstCursor([...where, '--boot'], signal).catch((error: Error) => {
        if (/\bboot\b/i.test(error.message)) return undefined
        throw error
      })
      if (cursor !== undefined) return { cursor, at: true }
    }
    if (read_from === 'beginning') return { cursor: undefined, at: false }
    return { cursor: await firstCursor([...where, '--lines=1'], signal), at: false }
  }

  /** Reads until journalctl ends, and returns why journalctl ended. Returns undefined if `leave` was aborted. */
  async #follow(out: Output, leave: AbortSignal): Promise<string | undefined> {
    const { cursor } = this.#read
    // `--after-cursor` is not used, because it skips the next entry if the entry at the cursor is gone.
    const from = cursor === undefined ? [] : [`--cursor=${cursor}`]
    // Without --merge, journalctl follows this boot only, and skips unread entries of earlier boots.
    const args = [...placeArgs(this.#options), '--follow', '--no-tail', '--merge', ...from]
    args.push(...filterArgs(this.#options), ...(await ownMachine(this.#options)))
    const child = new Journalctl(args, line => this.#problems.line(line))
    const reader = new EntryReader(this.#options.max_entry_bytes)
    let first = true
    this.#lag.moreWaits = () => child.stdout.readableLength > 0
    try {
      while (!leave.aborted) {
        const chunk = child.stdout.read() as Buffer | null
        if (chunk) {
          let taken = reader.push(chunk)
          this.#problems.invalidLines(reader.invalidLines)
          if (taken.length === 0) continue
          if (first) taken = await this.#withoutRead(taken, leave)
          first = false
          if (taken.length > 0) {
            this.#backoff.reset()
            this.#problems.works()
          }
          while (taken.length > 0 && !leave.aborted) {
            const { count, isBacklog } = this.#catchUp.same(taken)
            await this.#send(taken.slice(0, count), isBacklog, out, leave)
            taken = taken.slice(count)
          }
        } else if (child.stdout.readableEnded || child.stdout.destroyed) return (await child.ended).why
        else {
          if (!this.#catchUp.isBehind) out.caughtUp?.()
          await untilReadable(child.stdout, leave)
        }
      }
      return undefined
    } finally {
      this.#lag.moreWaits = () => true
      reader.drop()
      await child.end()
    }
  }

  /** If the entry at the cursor was read before, removes it from the first entries that journalctl wrote. */
  async #withoutRead(taken: Taken[], signal: AbortSignal): Promise<Taken[]> {
    const { cursor, at } = this.#read
    if (cursor === undefined) return taken
    if (cursorOf(taken[0]!.entry) === cursor) return at ? taken : taken.slice(1)
    // The entry at the cursor is gone or no longer matches the filter.
    const args = [...placeArgs(this.#options), `--cursor=${cursor}`, '--lines=1']
    // If journalctl fails, it is unknown whether the entry is gone.
    const there = await firstCursor(args, signal).catch(() => cursor)
    if (there !== cursor) {
      this.#lost.value++
      this.#context.log.warn(
        { code: 'SLUICE_JOURNAL_POSITION_LOST' },
        'the last journal entry that was read has been removed; continuing with the oldest entry after it',
      )
    }
    return taken
  }

  async #send(taken: readonly Taken[], isBacklog: boolean, out: Output, leave: AbortSignal): Promise<void> {
    const { clock, log } = this.#context
    let text = ''
    let { cursor } = this.#read
    for (const { entry, cut } of taken) {
      text += `${lineOf(entry, this.#event, cut)}\n`
      this.#cut.value += cut.length
      if (cut.length > 0) log.debug({ fields: cut }, 'an entry is too long; fields were truncated')
      cursor = cursorOf(entry) ?? cursor
      this.#lag.at(entry)
    }
    const frame = splitLines(Buffer.from(text))
    if (!frame) return
    const read: JournalPlace = { cursor, at: false }
    this.#read = read
    const settled = this.#positions!.add(read)
    const leaving = this.#leaving
    const ack = out.ack(status => (status === 'errored' ? leaving.abort() : settled()))
    const batch = new EventBatch(frame, this.#origin, clock.wall(), ack, isBacklog)
    if (this.#origin.wanted.areIdsUsed) {
      const cursors = taken.map(({ entry }) => cursorOf(entry) ?? '')
      batch.places = namedPlaces(`journal ${this.#origin.source}`, cursors)
    }
    await this.#catchUp.during(orAborted(out.send(batch), leave))
  }
}
