import { PassThrough, Writable } from 'node:stream'
import type { Logger } from 'pino'
import { z } from 'zod'
import type { httpDestination } from './components/http/destination.js'
import { components } from './components/list.js'
import type { throttle } from './components/processors/throttle.js'
import { ConfigError, type Fault } from './core/errors.js'
import type { deliveryOptions } from './core/options/delivery-options.js'
import { duration } from './core/options/options.js'
import { createLog } from './daemon/process/log.js'
import { type Config, parseConfig } from './engine/config/load.js'
import { OptionsError, parseOptions } from './engine/config/parse-options.js'
import { Engine } from './engine/run/engine.js'
import { Metrics } from './engine/run/measure/metrics.js'
import { type DataDirLock, lockDataDir } from './engine/run/state/data-dir.js'
import { systemRandom } from './lib/backoff.js'
import { after, systemClock } from './lib/time.js'
import { formatDuration } from './lib/units.js'

/**
 * A target for pino. The engine of the daemon throttles the lines by key and ships them over HTTP.
 *
 * Invariant: every line is delivered, discarded by the throttle, rejected by the receiver, or counted as lost in a
 * message on standard error. The lines that wait for the receiver take about 10 MB of memory, and at most 40 MB. Beyond
 * that, `on_full` decides what happens.
 */

/** Maximum bytes of lines that may wait between the app and the source. */
const QUEUED_BYTES = 256 * 1024
/** Less than the ten seconds that pino waits for its transports when the app ends. */
const LONGEST_SHUTDOWN_MS = 9000
const LF = 0x0a

const schema = z.strictObject({
  throttle: z
    .record(z.string(), z.unknown())
    .optional()
    .describe('Options of the throttle processor; without it all lines pass.'),
  http: z.record(z.string(), z.unknown()).describe('Options of the http destination, including delivery options.'),
  on_full: z
    .enum(['wait', 'discard'])
    .prefault('wait')
    .describe(
      'What happens to lines while the buffer is full: `wait` queues them in the app, `discard` discards and reports them.',
    ),
  shutdown_timeout: duration()
    .refine(ms => ms <= LONGEST_SHUTDOWN_MS, { error: 'must be at most 9 Seconds', params: { constant: true } })
    .prefault('5 Seconds')
    .describe('How long the app waits for deliveries before it ends.'),
  data_dir: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Folder that only this process uses, for rejected events and a disk buffer. Without it, rejected events are logged and discarded.',
    ),
})

/** The options of the target. `throttle` and `http` take the same options as in a configuration. */
export interface PinoTransportOptions extends Omit<z.input<typeof schema>, 'throttle' | 'http'> {
  throttle?: z.input<typeof throttle.options>
  http: z.input<typeof httpDestination.options> & Partial<z.input<typeof deliveryOptions>>
}

/** Options that pino adds to the options of each target. */
const PINO_OWN = ['$context', 'pinoWillSendConfig']

/**
 * Creates the stream to which pino writes: `transport: { target: '@sluice-logs/sluice/pino', options }`. The stream
 * ends after the deliveries. Throws OptionsError. `log` replaces the log on standard error. Pino requires a default
 * export.
 */
export default async function transport(given: PinoTransportOptions, log: Logger = stderrLog()): Promise<Writable> {
  const options = read(given)
  const config = configOf(options)
  const lock = options.data_dir === undefined ? undefined : await lockDataDir(config.dataDir)
  try {
    const lines = new PassThrough({ highWaterMark: QUEUED_BYTES })
    const metrics = new Metrics(log)
    const around = { log, clock: systemClock, random: systemRandom, metrics, stdin: lines, stdout: process.stdout }
    const engine = await Engine.build(config, around)
    const discards = options.on_full === 'discard'
    return new Shipper({ engine, metrics, lines, log, lock, discards, timeoutMs: options.shutdown_timeout })
  } catch (error) {
    lock?.release()
    throw error
  }
}

function stderrLog(): Logger {
  return createLog(process, { format: 'json', level: 'warn' })
}

type Options = z.output<typeof schema>

function read(given: PinoTransportOptions): Options {
  const own = Object.entries(given).filter(([name]) => !PINO_OWN.includes(name))
  const parsed = parseOptions(schema, Object.fromEntries(own))
  if ('faults' in parsed) throw new OptionsError('@sluice-logs/sluice/pino', parsed.faults)
  const { throttle, http, data_dir } = parsed.value
  const faults: Fault[] = []
  for (const [name, part] of Object.entries({ throttle, http })) {
    for (const key of ['type', 'inputs']) {
      if (part && key in part) faults.push({ path: `${name}.${key}`, message: 'has no meaning here; remove it' })
    }
  }
  if (http.on_reject === 'dead_letter' && data_dir === undefined) {
    faults.push({ path: 'http.on_reject', message: 'the dead-letter queue needs a data_dir' })
  }
  if ((http.buffer as { type?: unknown } | undefined)?.type === 'disk' && data_dir === undefined) {
    faults.push({ path: 'http.buffer', message: 'a disk buffer needs a data_dir' })
  }
  if (faults.length > 0) throw new OptionsError('@sluice-logs/sluice/pino', faults)
  return parsed.value
}

/** Builds the configuration for these options as a document. Parsing the document checks all rules. */
function configOf({ throttle, http, data_dir }: Options): Config {
  const document = {
    data_dir: data_dir ?? '.',
    metrics: false,
    sources: { app: { type: 'stdin', decode: 'json', max_line_bytes: '64MiB' } },
    processors: throttle && { throttle: { type: 'throttle', inputs: ['app'], ...throttle } },
    destinations: {
      http: {
        type: 'http',
        inputs: [throttle ? 'throttle' : 'app'],
        ...(data_dir === undefined ? { on_reject: 'discard' } : {}),
        ...http,
      },
    },
  }
  // References to environment variables are not replaced, because a program can read the variables itself.
  const literal = (_key: string, value: unknown) =>
    typeof value === 'string' ? value.replaceAll('${', () => '$${') : value
  try {
    return parseConfig(JSON.stringify(document, literal), '@sluice-logs/sluice/pino', { env: {}, components })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const faults = error.problems.map(({ path, message }) => ({
      path: path.replace(/^(destinations|processors)\./, ''),
      message: message.replace('known are type, inputs, ', 'known are '),
    }))
    throw new OptionsError('@sluice-logs/sluice/pino', faults)
  }
}

interface Parts {
  readonly engine: Engine
  readonly metrics: Metrics
  /** The stream that the engine's source reads. */
  readonly lines: PassThrough
  readonly log: Logger
  readonly lock: DataDirLock | undefined
  readonly discards: boolean
  readonly timeoutMs: number
}

class Shipper extends Writable {
  readonly #parts: Parts
  readonly #running: Promise<void>
  /** Whether the bytes received so far end in the middle of a line, and whether that line is being discarded. */
  #inLine = false
  #discarding = false
  /** Number of lines that this stream did not discard. */
  #accepted = 0
  /** Number of discarded lines that are not reported yet. */
  #unreported = 0

  constructor(parts: Parts) {
    super({ highWaterMark: QUEUED_BYTES })
    this.#parts = parts
    this.#running = parts.engine.run().then(
      () => {
        if (parts.engine.failed)
          this.destroy(new Error('@sluice-logs/sluice/pino: the destination cannot start; stderr says why'))
      },
      error => void this.destroy(error as Error),
    )
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    const { lines, discards } = this.#parts
    const kept = discards ? this.#keep(chunk) : chunk
    for (let at = kept.indexOf(LF); at >= 0; at = kept.indexOf(LF, at + 1)) this.#accepted++
    if (kept.length === 0 || lines.write(kept) || discards) {
      done()
      return
    }
    const go = () => {
      lines.off('drain', go)
      lines.off('close', go)
      done()
    }
    lines.on('drain', go)
    lines.on('close', go)
  }

  /** Returns the part of the chunk to keep. Only whole lines are discarded. */
  #keep(chunk: Buffer): Buffer {
    const isFull = this.#parts.lines.writableNeedDrain
    let from = 0
    if (this.#inLine) {
      const end = chunk.indexOf(LF) + 1
      // If the beginning of a line was kept or discarded, the rest of the line is treated in the same way.
      if (end === 0) return this.#discarding ? chunk.subarray(0, 0) : chunk
      this.#inLine = false
      if (this.#discarding) from = end
      else if (isFull) {
        this.#drop(chunk, end)
        return chunk.subarray(0, end)
      }
    }
    if (isFull) {
      this.#drop(chunk, from)
      return chunk.subarray(0, 0)
    }
    this.#discarding = false
    this.#inLine = chunk.at(-1) !== LF
    if (this.#unreported > 0) this.#report()
    return chunk.subarray(from)
  }

  #drop(chunk: Buffer, from: number): void {
    if (from === chunk.length) return
    if (this.#unreported === 0)
      this.#parts.log.warn('no room for more lines: they are discarded until the receiver takes some')
    this.#discarding = chunk.at(-1) !== LF
    this.#inLine = this.#discarding
    for (let at = from; at < chunk.length; this.#unreported++) {
      const end = chunk.indexOf(LF, at)
      at = end < 0 ? chunk.length : end + 1
    }
  }

  #report(): void {
    this.#parts.log.warn({ lines: this.#unreported }, 'accepting lines again; lines were discarded meanwhile')
    this.#unreported = 0
  }

  override _final(done: (error?: Error | null) => void): void {
    const { engine, lines, log, timeoutMs } = this.#parts
    if (this.#unreported > 0) this.#report()
    lines.end()
    let late = false
    const cancel = after(timeoutMs, () => {
      late = true
      engine.abort()
    })
    this.#running.then(() => {
      cancel()
      const fields = { lines: this.#unsettled(), timeout: formatDuration(timeoutMs) }
      if (late) log.error(fields, 'stopped before the receiver accepted all lines')
      done()
    }, done)
  }

  /** Number of lines that were neither delivered nor discarded on purpose, as far as the metrics show. */
  #unsettled(): number {
    let left = this.#accepted
    for (const { kind, passed, discards } of this.#parts.metrics.components.values()) {
      if (kind === 'destination') left -= passed.events
      for (const [reason, { events }] of discards) if (reason !== 'errored') left -= events
    }
    return left
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const { engine, lines, lock } = this.#parts
    engine.abort()
    lines.destroy()
    void this.#running.then(() => {
      lock?.release()
      done(error)
    })
  }
}
