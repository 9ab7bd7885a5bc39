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

/** The input of both products. */
export interface Case {
  readonly name: string
  /** The text of the configuration, with the address of a receiver. */
  config(receiver: string): string
  /** Whether lines may arrive in any order: from several sources, or in several requests at a time. */
  readonly isUnordered: boolean
  /** Files beside the configuration, by path. */
  readonly files: Readonly<Record<string, string | Buffer>>
  /** Runs of the daemon, one after the other in the same folder. */
  readonly lives: readonly Life[]
}

export interface Life {
  /** Files to rename and to append to before the start. */
  readonly renamed?: readonly (readonly [from: string, to: string])[]
  readonly appended?: Readonly<Record<string, Buffer>>
  readonly stdin?: Buffer
  /**
   * When to kill the daemon: when this request arrives, or after this time. Without it, the daemon ends by itself. Responses
   * take up to `answerMs` in turns, so they arrive in another order than the requests.
   */
  readonly kill?: { readonly request: number; readonly answerMs: number } | { readonly ms: number }
}

export interface Outcome {
  /** Files in `out`, standard output, and bodies of requests by destination. */
  readonly outputs: Map<string, Buffer>
  /** Of each life. */
  readonly exits: (number | string)[]
  /** The log of the last life. */
  readonly log: string
}

const CLOCK = new URL('./clock.js', import.meta.url).href
/** Only a run that hangs takes this long. */
const LIMIT_MS = 180_000
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
  const began = performance.now()
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
      if (child.signalCode === 'SIGKILL' && performance.now() - began > LIMIT_MS)
        process.stderr.write(`killed after ${LIMIT_MS / 1000} s: ${args.slice(0, 3).join(' ')} in ${cwd}\n`)
      resolve({ exit: code ?? signal!, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr).toString() })
    }),
  )
  return { child, kill, ended }
}

/** Accepts all requests and keeps their bodies by case and destination, the first two parts of the path. */
export class Receiver {
  readonly #server = http.createServer((request, response) => void this.#answer(request, response))
  #bodies = new Map<string, Map<string, Buffer[]>>()
  /** By case: the number of requests since `watch`, and what to do at each. */
  readonly #watched = new Map<string, { count: number; seen: (count: number) => Promise<void> | void }>()

  async listen(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, HOST, resolve))
    this.#server.unref()
    return this
  }

  url(folder: string): string {
    return `http://${HOST}:${(this.#server.address() as AddressInfo).port}/${encodeURIComponent(folder)}`
  }

  /** Calls `seen` at each request of a case, and responds when it has resolved. */
  watch(folder: string, seen: (count: number) => Promise<void> | void): void {
    this.#watched.set(folder, { count: 0, seen })
  }

  /** Returns the received lines by destination. The last line of a request may lack its line end. */
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

/** Runs a product on a case in `folder`, and removes the folder: both products use the same paths. */
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
