import { closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** What the jobs read: NDJSON like that of a web service. The same bytes for the same number of lines, everywhere. */
export interface Input {
  readonly path: string
  readonly lines: number
  readonly bytes: number
  /** Lines of the host that the throttle leaves alone. */
  readonly excluded: number
}

export const APPS = 1000
export const HOSTS = 50
export const EXCLUDED_HOST = 'web-07'
/** Raised when the lines change: files made before are not used any more. */
const FORMAT = 1
const SEED = 20_260_101
const BLOCK_LINES = 5000
const FIRST_TIME = Date.UTC(2026, 0, 1)
const LINES_PER_MS = 4

const PATHS = ['/api/v1/orders/', '/api/v1/users/', '/api/v1/cart/', '/static/img/', '/search/']
const METHODS = ['GET', 'GET', 'GET', 'POST', 'PUT']
const STATUSES = [200, 200, 200, 200, 201, 204, 304, 404, 500]
const LEVELS = ['info', 'info', 'info', 'info', 'warn', 'error', 'debug']
const MESSAGES = [
  'request completed',
  'request completed, cache miss',
  'order \\"A-1001\\" was changed',
  'upstream answered late',
  'user signed in',
  'r\u00e9ponse envoy\u00e9e',
]

/** The file in `folder` with so many lines; made when it is not there yet. */
export function makeInput(folder: string, lines: number, progress: (text: string) => void): Input {
  const path = join(folder, `sluice-bench-${lines}.ndjson`)
  const notes = `${path}.json`
  const known = readNotes(notes)
  if (known?.format === FORMAT && known.lines === lines && sizeOf(path) === known.bytes) return { ...known, path }
  const file = openSync(path, 'w')
  let bytes = 0
  let excluded = 0
  const writer = new Writer()
  for (let at = 0; at < lines; ) {
    let text = ''
    for (const end = Math.min(lines, at + BLOCK_LINES); at < end; at++) text += writer.line(at)
    const block = Buffer.from(text)
    for (let written = 0; written < block.length; ) written += writeSync(file, block, written)
    bytes += block.length
    progress(`making ${path}: ${Math.floor((at / lines) * 100)} %`)
  }
  excluded = writer.excluded
  closeSync(file)
  writeFileSync(notes, JSON.stringify({ format: FORMAT, lines, bytes, excluded }))
  return { path, lines, bytes, excluded }
}

/** The first lines of that file, without their line ends. */
export function inputLines(lines: number): string[] {
  const writer = new Writer()
  return Array.from({ length: lines }, (_, at) => writer.line(at).slice(0, -1))
}

function readNotes(path: string): { format: number; lines: number; bytes: number; excluded: number } | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size
}

class Writer {
  excluded = 0
  readonly #apps = Array.from({ length: APPS }, (_, i) => `app-${String(i).padStart(4, '0')}`)
  readonly #hosts = Array.from({ length: HOSTS }, (_, i) => `web-${String(i).padStart(2, '0')}`)
  #state = SEED

  /** A number in [0, below), from a small generator whose sequence is part of the format. */
  #pick(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let x = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61)
    return ((x ^ (x >>> 14)) >>> 0) % below
  }

  #of<T>(values: readonly T[]): T {
    return values[this.#pick(values.length)]!
  }

  line(i: number): string {
    const time = new Date(FIRST_TIME + Math.floor(i / LINES_PER_MS)).toISOString()
    const host = this.#of(this.#hosts)
    const app = this.#of(this.#apps)
    if (host === EXCLUDED_HOST) this.excluded++
    const id = (this.#pick(0xffffffff) + 0x100000000).toString(16)
    const path = this.#of(PATHS) + this.#pick(1_000_000)
    return `{"timestamp":"${time}","level":"${this.#of(LEVELS)}","host":"${host}","app":"${app}","request_id":"${id}","method":"${this.#of(METHODS)}","path":"${path}","status":${this.#of(STATUSES)},"took_ms":${this.#pick(100_000) / 100},"message":"${this.#of(MESSAGES)}"}\n`
  }
}
