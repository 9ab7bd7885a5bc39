import { closeSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { seeded } from './seeded-picks.js'

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
const AGENTS = [
  'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1',
  'curl/8.5.0',
]
const LEVELS = ['info', 'info', 'info', 'info', 'warn', 'error', 'debug']
const MESSAGES = [
  'request completed',
  'request completed, cache miss',
  'order \\"A-1001\\" was changed',
  'upstream answered late',
  'user signed in',
  'r\u00e9ponse envoy\u00e9e',
]

/** `nginx`: the access log of a web server, of as many clients as there are apps. */
export type InputKind = 'ndjson' | 'nginx'

/** The file in `folder` with so many lines; made when it is not there yet. */
export function makeInput(
  folder: string,
  lines: number,
  progress: (text: string) => void,
  kind: InputKind = 'ndjson',
): Input {
  const path = join(folder, `sluice-bench-${lines}.${kind}`)
  const notes = `${path}.json`
  const known = readNotes(notes)
  if (known?.format === FORMAT && known.lines === lines && sizeOf(path) === known.bytes) return { ...known, path }
  const file = openSync(path, 'w')
  let bytes = 0
  let excluded = 0
  const writer = new Writer()
  for (let at = 0; at < lines; ) {
    let text = ''
    for (const end = Math.min(lines, at + BLOCK_LINES); at < end; at++)
      text += kind === 'nginx' ? writer.access(at) : writer.line(at)
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
  readonly #picks = seeded(SEED)

  access(i: number): string {
    const { below, of } = this.#picks
    const [, day, month, year, time] = /^\w+, (\d+) (\w+) (\d+) ([\d:]+)/.exec(
      new Date(FIRST_TIME + Math.floor(i / LINES_PER_MS)).toUTCString(),
    )!
    const client = below(APPS)
    const address = `192.0.${client >> 8}.${client & 255}`
    const request = `${of(METHODS)} ${of(PATHS)}${below(1_000_000)} HTTP/1.1`
    return `${address} - - [${day}/${month}/${year}:${time} +0000] "${request}" ${of(STATUSES)} ${below(100_000)} "https://shop.example.com/" "${of(AGENTS)}"\n`
  }

  line(i: number): string {
    const { below, of } = this.#picks
    const time = new Date(FIRST_TIME + Math.floor(i / LINES_PER_MS)).toISOString()
    const host = of(this.#hosts)
    const app = of(this.#apps)
    if (host === EXCLUDED_HOST) this.excluded++
    const id = (below(0xffffffff) + 0x100000000).toString(16)
    const path = of(PATHS) + below(1_000_000)
    return `{"timestamp":"${time}","level":"${of(LEVELS)}","host":"${host}","app":"${app}","request_id":"${id}","method":"${of(METHODS)}","path":"${path}","status":${of(STATUSES)},"took_ms":${below(100_000) / 100},"message":"${of(MESSAGES)}"}\n`
  }
}
