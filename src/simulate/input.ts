import { mkdtempSync, rmSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { JSON_OBJECTS } from '../core/codecs/json.js'
import type { FieldPath } from '../core/event/field-path.js'
import { type SplitOptions, Splitting } from '../core/options/multiline-options.js'
import { type Io, UsageError } from '../daemon/process/command-line.js'
import { AS_OBJECTS, isTapped } from '../daemon/process/given-event.js'
import { Progress } from '../daemon/process/progress.js'
import type { ComponentConfig } from '../engine/config/load.js'
import { WantedNames } from '../lib/formats/json-scan.js'
import type { Frame } from '../lib/lines/line-splitter.js'
import { systemClock } from '../lib/time.js'
import { type InputReading, inputBytes, totalSize } from './input-bytes.js'
import { mergedByTime } from './merged.js'
import type { FramesReader } from './replay.js'
import type { ThrottlePath } from './subject.js'

/** An input of a simulation, and the source that its events belong to. */
export interface SimulationInput {
  /** `-` means standard input. */
  readonly path: string
  /** A file with the same bytes, to read instead. */
  readonly copy?: string
  readonly source: ComponentConfig<'source'>
}

/** Maximum bytes to search for the end of the first line. This line shows the format of the input. */
const FIRST_LINE_BYTES = 64 * 1024

/** Each entry of `given` is PATH or SOURCE=PATH. If `given` is empty, the input is standard input. */
export function inputsOf(given: readonly string[], route: ThrottlePath): SimulationInput[] {
  return (given.length > 0 ? given : ['-']).map(text => {
    const [, id, path] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    const named = route.sources.find(source => source.id === id)
    return named && path ? { path, source: named } : { path: text, source: onlySource(route) }
  })
}

/**
 * The source of an input that does not name a source. Throws UsageError if the sources decode differently, or if
 * different components read them.
 */
function onlySource({ sources, readers, throttle }: ThrottlePath): ComponentConfig<'source'> {
  const [first] = sources
  const kinds = new Set(
    sources.map(({ id, type, definition, options }) => {
      const { decode, max_line_bytes, multiline } = options as Partial<SplitOptions>
      const form = [decode, max_line_bytes, multiline, definition.explains && type]
      return JSON.stringify([...form, readers.get(id)], (_, value) => (value instanceof RegExp ? String(value) : value))
    }),
  )
  if (kinds.size === 1) return first!
  const ids = sources.map(({ id }) => id)
  throw new UsageError(
    `${ids.join(' and ')} reach ${throttle} in different ways; name the source in front of each input, as in ${ids[0]}=FILE`,
    'simulate',
  )
}

/** Replays one input as its source would read it. Yields after each piece of the input. */
async function* replayed(frames: FramesReader, input: SimulationInput, reading: InputReading): AsyncGenerator<void> {
  const chunks = inputBytes(input.copy ?? input.path, reading)
  try {
    yield* replayedFrom(chunks, frames, input, reading.signal)
  } finally {
    // The caller may have stopped early.
    await chunks.return(undefined)
  }
}

async function* replayedFrom(
  chunks: AsyncGenerator<Buffer, undefined>,
  frames: FramesReader,
  { path, source }: SimulationInput,
  signal: AbortSignal,
): AsyncGenerator<void> {
  const options = { ...AS_OBJECTS, ...(source.options as Partial<SplitOptions>) }
  const first = await firstLines(chunks)
  const isRecorded = options.decode.form !== 'object' && isTapped(source.id, options.decode, first)
  const read = isRecorded ? AS_OBJECTS : options
  const file = path !== '-' && source.type === 'file' ? { path: resolve(path) } : {}
  frames.enter({ source: source.id, host: hostname(), codec: read.decode, ...file }, systemClock.wall())
  const splitting = new Splitting(read)
  const splitter = read.decode.framing && isText(first) ? splitting.lineSplitter() : splitting.splitter()
  for await (const bytes of madeLines(source, first, chunks)) {
    await take(splitter.push(bytes), frames)
    if (splitter.problem) throw new UsageError(`${path}: ${splitter.problem.message}`, 'simulate')
    yield
  }
  // Ignores a line that the signal cut off.
  if (signal.aborted) return
  await take(splitter.flush(), frames)
  yield
}

/** For a codec with framing: whether the input is JSON lines that were made from the records. */
function isText(first: Buffer): boolean {
  // A scan needs a byte at which it stops.
  const line = Buffer.concat([first, Buffer.from('\n')])
  return JSON_OBJECTS.scan(line, 0, line.indexOf('\n'), new WantedNames(), new Int32Array(0), 0)
}

async function take(frame: Frame | undefined, frames: FramesReader): Promise<void> {
  if (!frame) return
  await frames.replay(frame)
  frame.release?.()
}

/** Reads until it has a complete line or FIRST_LINE_BYTES. */
async function firstLines(chunks: AsyncGenerator<Buffer, undefined>): Promise<Buffer> {
  let first: Buffer = Buffer.alloc(0)
  while (!first.includes('\n') && first.length < FIRST_LINE_BYTES) {
    const { value } = await chunks.next()
    if (!value) break
    first = Buffer.concat([first, value])
  }
  return first
}

/** If the source's type has `linesOf`: the lines that the source derives from its input. Otherwise the input itself. */
async function* madeLines(
  { definition, options }: ComponentConfig<'source'>,
  first: Buffer,
  chunks: AsyncGenerator<Buffer, undefined>,
): AsyncGenerator<Buffer> {
  const { linesOf } = (await definition.explains?.()) ?? {}
  if (!linesOf) {
    yield first
    yield* chunks
    return
  }
  const host = hostname()
  const made = (bytes: Buffer) => linesOf(options, bytes, host)?.lines ?? bytes
  let rest = first
  for (;;) {
    const { value } = await chunks.next()
    if (!value) break
    const end = rest.lastIndexOf('\n') + 1
    if (end > 0) yield made(rest.subarray(0, end))
    rest = Buffer.concat([rest.subarray(end), value])
  }
  if (rest.length > 0) yield made(rest)
}

/** Reads the inputs of a simulation, several times if needed, and shows the progress. */
export class InputReader {
  readonly #io: Io
  readonly #signal: AbortSignal
  #inputs: readonly SimulationInput[]
  readonly #time: FieldPath | 'auto' | undefined
  /** The temporary folder with the copy of standard input. */
  #folder: string | undefined

  /** `time`: several inputs are replayed in the order of these times. Undefined: one after the other. */
  constructor(inputs: readonly SimulationInput[], io: Io, signal: AbortSignal, time?: FieldPath | 'auto') {
    this.#inputs = inputs
    this.#time = time
    this.#io = io
    this.#signal = signal
  }

  /**
   * If one of the inputs is standard input, copies standard input to a file that only this user can read. `close`
   * removes the file.
   */
  async copyStdin(): Promise<void> {
    if (!this.#inputs.some(({ path, copy }) => path === '-' && copy === undefined)) return
    this.#folder = mkdtempSync(join(tmpdir(), 'sluice-simulate-'))
    const copy = join(this.#folder, 'input')
    const file = await open(copy, 'wx', 0o600)
    const progress = this.#progress(totalSize(['-']))
    try {
      for await (const bytes of inputBytes('-', { io: this.#io, progress, signal: this.#signal }))
        await file.writeFile(bytes)
    } finally {
      progress.end()
      await file.close()
    }
    this.#inputs = this.#inputs.map(input => (input.path === '-' ? { ...input, copy } : input))
  }

  /** Replays all inputs. `afterPiece` is awaited after each piece. */
  async read(frames: FramesReader, afterPiece = async () => {}): Promise<void> {
    const progress = this.#progress(totalSize(this.#inputs.map(({ path, copy }) => copy ?? path)))
    try {
      await frames.start(this.#signal)
      const reading = { io: this.#io, progress, signal: this.#signal }
      const merges = this.#time !== undefined && this.#inputs.length > 1
      const unseen = { ...reading, progress: this.#progress(undefined) }
      const readers = this.#inputs.map(input => ({
        isFile: totalSize([input.copy ?? input.path]) !== undefined,
        read: (to: FramesReader, isAhead = false) => replayed(to, input, isAhead ? unseen : reading),
      }))
      const pieces = merges ? [mergedByTime(this.#time, readers, frames)] : readers.map(({ read }) => read(frames))
      for (const piece of pieces) for await (const _ of piece) await afterPiece()
    } finally {
      progress.end()
      await frames.stop()
    }
  }

  #progress(total: number | undefined): Progress {
    return new Progress(this.#io.stderr, total, () => systemClock.now())
  }

  close(): void {
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true })
  }
}
