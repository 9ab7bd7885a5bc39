import { UsageError } from '../daemon/process/command-line.js'
import type { Frame } from '../lib/lines/line-splitter.js'
import { type FramesReader, Replay, type Visitor } from './replay.js'
import { routeFrom } from './subject.js'

type TimePath = ConstructorParameters<typeof Replay>[0]

/** Maximum number of inputs that are open at once. Each holds a few pieces of its bytes. */
const MOST_OPEN = 256
const SOURCE = 'times'

/** Notes the time of each event, as a replay sees it. */
class Times implements Visitor {
  readonly found: number[] = []

  enter(): void {}

  /** Events before the first time get that time. Without any time, an input comes last. */
  visit(_batch: unknown, _i: number, now: number, slot: number): void {
    const { found } = this
    if (slot >= 0 && found.at(-1) === Number.POSITIVE_INFINITY) found.fill(now)
    found.push(slot < 0 ? Number.POSITIVE_INFINITY : now)
  }
}

/** One of several inputs. Its reader waits until all events of a frame have been replayed. */
class Lane implements FramesReader {
  readonly #replay: Replay<Times>
  readonly #pieces: AsyncGenerator<void>
  #step: Promise<IteratorResult<void>> | undefined
  #origin: Parameters<FramesReader['enter']> | undefined
  #frame: Frame | undefined
  #next = 0
  #arrived = () => {}
  #done = () => {}

  /** `read`: reads the input into a reader of frames. */
  constructor(time: TimePath, read: (lane: FramesReader) => AsyncGenerator<void>) {
    this.#replay = new Replay(time, routeFrom(SOURCE, SOURCE), () => new Times())
    this.#pieces = read(this)
  }

  async start(): Promise<void> {}

  async stop(): Promise<void> {
    this.#done()
    this.#step?.catch(() => {})
    await this.#pieces.return(undefined)
  }

  enter(...origin: Parameters<FramesReader['enter']>): void {
    this.#origin = origin
    this.#replay.enter({ ...origin[0], source: SOURCE }, origin[1])
  }

  replay(frame: Frame): Promise<void> {
    this.#frame = frame
    this.#next = 0
    this.#times.length = 0
    void this.#replay.replay({ ...frame, flags: frame.flags.slice() })
    this.#arrived()
    return new Promise(resolve => {
      this.#done = resolve
    })
  }

  get #times(): number[] {
    return this.#replay.visitor.found
  }

  /** The time of the next event. Undefined at the end of the input. */
  async time(): Promise<number | undefined> {
    while (!this.#frame) {
      const arrived = new Promise<undefined>(resolve => {
        this.#arrived = () => resolve(undefined)
      })
      this.#step ??= this.#pieces.next()
      const step = this.#frame ? undefined : await Promise.race([this.#step, arrived])
      if (step) this.#step = undefined
      if (step?.done) return undefined
    }
    return this.known
  }

  /** The time of the next event; undefined: not read yet. */
  get known(): number | undefined {
    return this.#frame && this.#times[this.#next]
  }

  /** Replays the next event, and the events behind it up to the time `until`. */
  replayUntil(until: number, to: FramesReader): Promise<void> | void {
    const [frame, first, times] = [this.#frame!, this.#next, this.#times]
    let end = first + 1
    while (end < frame.length && times[end]! <= until) end++
    const part = <T extends Int32Array | Uint8Array>(column: T) => column.subarray(first, end) as T
    const [starts, ends, flags] = [part(frame.starts), part(frame.ends), part(frame.flags)]
    const { read: _, release: __, ...rest } = frame
    to.enter(...this.#origin!)
    const replayed = to.replay({ ...rest, starts, ends, flags, length: end - first })
    const over = () => {
      this.#next = end
      if (end < frame.length) return
      this.#frame = undefined
      this.#done()
    }
    return replayed ? replayed.then(over) : over()
  }
}

export interface InputOpener {
  /** Whether the input can be opened more than once. */
  readonly isFile: boolean
  /** `isAhead`: only for the time of its first event. */
  read(to: FramesReader, isAhead: boolean): AsyncGenerator<void>
}

interface OpenLane {
  readonly lane: Lane
  time: number
}

/**
 * Replays several inputs in the order of their times. Each input keeps its own order. A file is open from the time of
 * its first event on, so rotated files are open one after the other. Yields now and then.
 */
export async function* mergedByTime(
  time: TimePath,
  inputs: readonly InputOpener[],
  to: FramesReader,
): AsyncGenerator<void> {
  const waiting: { readonly from: number; readonly open: () => Lane }[] = []
  const lanes: OpenLane[] = []
  try {
    for (const input of inputs) {
      const lane = new Lane(time, lane => input.read(lane, input.isFile))
      const from = await lane.time()
      if (from === undefined || input.isFile) await lane.stop()
      if (from === undefined) continue
      if (input.isFile) waiting.push({ from, open: () => new Lane(time, lane => input.read(lane, false)) })
      else lanes.push({ lane, time: from })
    }
    waiting.sort((a, b) => b.from - a.from)
    for (;;) {
      lanes.sort((a, b) => a.time - b.time)
      const [first, second] = lanes
      const next = waiting.at(-1)
      if (next && !(first && first.time < next.from)) {
        waiting.pop()
        const lane = next.open()
        const time = await lane.time()
        if (time !== undefined) lanes.push({ lane, time })
        if (lanes.length > MOST_OPEN) throw new UsageError(TOO_MANY, 'simulate')
        continue
      }
      if (!first) return
      const { lane } = first
      const until = Math.min(second?.time ?? Number.POSITIVE_INFINITY, next?.from ?? Number.POSITIVE_INFINITY)
      const replayed = lane.replayUntil(until, to)
      if (replayed) await replayed
      if (lane.known === undefined) yield
      const at = lane.known ?? (await lane.time())
      if (at === undefined) lanes.shift()
      else first.time = at
    }
  } finally {
    for (const { lane } of lanes) await lane.stop()
  }
}

const TOO_MANY = `more than ${MOST_OPEN} inputs have events of the same time: give fewer of them`
