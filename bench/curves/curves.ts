import type { LineShape } from './inputs.js'

/** How the cost of the daemon grows with one thing at a time. */
export interface Curve {
  readonly id: string
  readonly title: string
  /** What x counts. */
  readonly x: string
  readonly values: readonly number[]
  /** What the cost is divided by. */
  readonly per: 'line' | 'byte'
  /**
   * What is taken off the cost of the lines: what comes once with this configuration, or, where x counts what comes once,
   * a start with a single line.
   */
  readonly less: 'once' | 'start'
  /** The input and the pipeline for a value. */
  at(value: number): Point
}

export interface Point {
  readonly files?: number
  /** Lines, as a share of those of a run; default: 1. */
  readonly share?: number
  readonly shape?: LineShape
  readonly decode?: 'json' | 'text'
  /** The processors, in YAML, without the key; default: none. `lines` is the source. */
  readonly processors?: string
  /** The output that destinations read; default: `lines`. */
  readonly output?: string
  readonly destinations?: number
}

const throttle = (options: string) =>
  `  limit_app: { type: throttle, inputs: [lines], limit: 1000000000, ${options} }\n`
const FIELDS = ['app', 'level', 'host', 'method', 'path', 'status', 'took_ms', 'message']

/** A condition that reads so many fields of every line. */
const reading = (fields: number) =>
  `if (${FIELDS.slice(0, fields)
    .map(name => `.${name} not_equal 'x'`)
    .join(' AND ')})`

/** So many processors behind a source, one after the other, each made by `make` with its input. */
function chain(count: number, make: (input: string) => string) {
  const inputs = ['lines', ...Array.from({ length: count }, (_, i) => `lines_${i}`)]
  const processors = inputs.slice(0, -1).map((input, i) => `  lines_${i}: ${make(input)}\n`)
  return { decode: 'json', processors: processors.join(''), output: inputs.at(-1)! } as const satisfies Point
}

export const CURVES: readonly Curve[] = [
  {
    id: 'files',
    title: 'Files, with the same number of lines in total',
    x: 'files',
    values: [1, 10, 100, 1000, 10_000],
    per: 'line',
    less: 'start',
    at: files => ({ share: 0.5, files, decode: 'text' }),
  },
  {
    id: 'keys',
    title: 'Keys of a throttle in one window',
    x: 'keys',
    values: [1, 100, 10_000, 100_000, 1_000_000],
    per: 'line',
    less: 'start',
    at: keys => ({
      share: 0.5,
      shape: { keys },
      decode: 'json',
      processors: throttle('window: 1 Hours, key_field: .app, max_keys: 2000000'),
      output: 'limit_app',
    }),
  },
  {
    id: 'length',
    title: 'Length of a line, decoded as JSON, one field read',
    x: 'bytes in a line',
    values: [50, 200, 1000, 10_000, 100_000],
    per: 'byte',
    less: 'once',
    at: length => ({
      // The same number of bytes, but for short lines.
      share: 0.5 * Math.min(1, 220 / length),
      shape: { length },
      decode: 'json',
      processors: throttle('window: 1 Seconds, key_field: .app'),
      output: 'limit_app',
    }),
  },
  {
    id: 'fields',
    title: 'Fields that a condition reads',
    x: 'fields',
    values: [0, 1, 2, 4, 8],
    per: 'line',
    less: 'once',
    at: fields => (fields === 0 ? { decode: 'json' } : chain(1, input => filter(input, reading(fields)))),
  },
  {
    id: 'processors',
    title: 'Processors in a row, each of which reads one field',
    x: 'processors',
    values: [0, 1, 2, 4, 8],
    per: 'line',
    less: 'once',
    at: count => chain(count, input => filter(input, reading(1))),
  },
  {
    id: 'blind',
    title: 'Processors in a row that do not read a field',
    x: 'processors',
    values: [0, 1, 2, 4, 8],
    per: 'line',
    less: 'once',
    at: count => chain(count, input => `{ type: throttle, inputs: [${input}], limit: 1000000000, window: 1 Hours }`),
  },
  {
    id: 'destinations',
    title: 'Destinations that write the same lines',
    x: 'destinations',
    values: [1, 2, 4, 8],
    per: 'line',
    less: 'once',
    // As many bytes are written in each run.
    at: destinations => ({ share: 1 / destinations, decode: 'text', destinations }),
  },
]

function filter(input: string, condition: string): string {
  return `{ type: filter, inputs: [${input}], condition: ${JSON.stringify(condition)} }`
}
