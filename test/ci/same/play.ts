import { spawn } from 'node:child_process'
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { HOST } from '../../support/address.js'
import { bound } from '../../support/bound.js'
import type { Product } from './product.js'

/** What both products are run on. */
export interface Case {
  readonly name: string
  /** The text of the configuration, with the address of a receiver. */
  config(receiver: string): string
  /** Files beside the configuration, by path. */
  readonly files: Readonly<Record<string, string | Buffer>>
  /** Runs of the daemon, one after the other in the same folder. */
  readonly lives: readonly Life[]
}

export interface Life {
  /** Done before it starts. A file gets another name, or more content. */
  readonly renamed?: readonly (readonly [from: string, to: string])[]
  readonly appended?: Readonly<Record<string, Buffer>>
  readonly stdin?: Buffer
  /**
   * It is killed when this request arrives, or after so many milliseconds. Without it, it runs to its end. Answers take
   * up to `answerMs`, by turns, so that they do not come in the order of the requests.
   */
  readonly kill?: { readonly request: number; readonly answerMs: number } | { readonly ms: number }
}

export interface Outcome {
  /** What lies in each file of `out`, came on standard output, and came in requests to each path. */
  readonly outputs: Map<string, Buffer>
  /** Of each life. */
  readonly exits: (number | string)[]
  /** The log of the last life. */
  readonly log: string
}

const CLOCK = new URL('./clock.js', import.meta.url).href
/** Only a run that hangs takes so long. */
const LIMIT_MS = 60_000
const ENV = {
  PATH: process.env.PATH,
  TZ: 'UTC',
  NO_COLOR: '1',
  REGION: 'north',
  REGION_OF_THIS_HOST: 'north',
  SLUICE_ACCESS_KEY: 'key',
}

/** Starts the program of a product. */
export function call(product: Product, args: readonly string[], cwd: string) {
  const child = spawn(...bound(process.execPath, ['--import', CLOCK, product.main, ...args]), {
    cwd,
    env: ENV,
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const collect = (stream: NodeJS.ReadableStream) => {
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    return chunks
  }
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
  // One that ends early reads no more.
  child.stdin.on('error', () => {})
  const ended = new Promise<{ exit: number | string; stdout: Buffer; stderr: string }>(resolve =>
    child.on('close', (code, signal) => {
      process.removeListener('exit', kill)
      resolve({ exit: code ?? signal!, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() })
    }),
  )
  return { child, kill, ended }
}

/** Accepts all requests, and keeps their bodies by the first two words of their path: the case and the destination. */
export class Receiver {
  readonly #server = http.createServer((request, response) => void this.#answer(request, response))
  #bodies = new Map<string, Map<string, Buffer[]>>()
  /** How many requests came for a case since `watch`, and what is done then. */
  readonly #watched = new Map<string, { count: number; seen: (count: number) => Promise<void> | void }>()

  async listen(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, HOST, resolve))
    this.#server.unref()
    return this
  }

  url(folder: string): string {
    return `http://${HOST}:${(this.#server.address() as AddressInfo).port}/${encodeURIComponent(folder)}`
  }

  /** A request is answered when `seen` is done. */
  watch(folder: string, seen: (count: number) => Promise<void> | void): void {
    this.#watched.set(folder, { count: 0, seen })
  }

  /** The lines that came for a case, by destination. The last line of a request may be without its end. */
  take(folder: string): [string, Buffer][] {
    const found = [...(this.#bodies.get(folder) ?? [])]
    this.#bodies.delete(folder)
    this.#watched.delete(folder)
    const ended = (body: Buffer) => (body.at(-1) === 10 ? [body] : [body, Buffer.from('\n')])
    return found.map(([name, bodies]) => [`http ${name}`, Buffer.concat(bodies.flatMap(ended))])
  }

  async #answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer)
    } catch {
      return
    }
    const body = Buffer.concat(chunks)
    const [, folder = '', name = ''] = request.url!.split('/').map(decodeURIComponent)
    const bodies = this.#bodies.get(folder) ?? new Map<string, Buffer[]>()
    this.#bodies.set(folder, bodies)
    const unpacked = request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
    bodies.set(name, [...(bodies.get(name) ?? []), unpacked])
    const watched = this.#watched.get(folder)
    if (watched) await watched.seen(++watched.count)
    response.writeHead(200).end()
  }
}

/** Runs a product on a case in `folder`, which is gone afterwards: paths are the same for both products. */
export async function play(product: Product, one: Case, folder: string, receiver: Receiver): Promise<Outcome> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(join(folder, 'out'), { recursive: true })
  write(folder, one.files)
  writeFileSync(join(folder, 'sluice.yaml'), one.config(receiver.url(folder)))
  const outputs = new Map<string, Buffer>()
  const exits: (number | string)[] = []
  let log = ''
  for (const { renamed = [], appended = {}, stdin = Buffer.alloc(0), kill } of one.lives) {
    for (const [from, to] of renamed) renameSync(join(folder, from), join(folder, to))
    for (const [path, content] of Object.entries(appended)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      appendFileSync(join(folder, path), content)
    }
    const run = call(product, ['run', '--config', 'sluice.yaml'], folder)
    receiver.watch(folder, async count => {
      if (!kill || !('request' in kill)) return
      if (count === kill.request) run.kill()
      await new Promise(resolve => setTimeout(resolve, (kill.answerMs * ((count * 3) % 4)) / 3))
    })
    const timer = kill && 'ms' in kill ? setTimeout(run.kill, kill.ms) : undefined
    run.child.stdin.end(stdin)
    const { exit, stdout, stderr } = await run.ended
    clearTimeout(timer)
    exits.push(exit)
    log = stderr
    if (stdout.length > 0) outputs.set('stdout', Buffer.concat([outputs.get('stdout') ?? Buffer.alloc(0), stdout]))
  }
  for (const [name, bytes] of receiver.take(folder)) outputs.set(name, bytes)
  for (const name of readdirSync(join(folder, 'out'), { recursive: true }) as string[]) {
    const path = join(folder, 'out', name)
    if (statSync(path).isFile()) outputs.set(`file ${name}`, readFileSync(path))
  }
  rmSync(folder, { recursive: true, force: true })
  return { outputs, exits, log }
}

export function write(folder: string, files: Readonly<Record<string, string | Buffer>>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
}
