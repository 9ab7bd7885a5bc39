import fs from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'
import { encodeNdjson, RawEncoder } from '../codec/encode.js'
import type { EventBatch } from '../core/batch.js'
import { type Destination, type DestinationContext, defineDestination } from '../core/component.js'
import { LOCAL } from '../core/delivery-options.js'
import { DeliveryError, errorCode, errorText } from '../core/errors.js'
import { written } from '../core/explain.js'

const options = z.strictObject({
  path: z.string().min(1).describe('File to append to. Its folder is made when it is missing.'),
  encoding: z
    .enum(['json', 'raw'])
    .default('raw')
    .describe('raw: the line as it was read, a changed event as JSON. json: every event as a line of JSON.'),
  mode: z
    .string()
    .regex(/^0?[0-7]{3}$/, { error: 'must be three octal digits in quotes, such as "0640"' })
    .default('0640')
    .describe('Permissions of a file that is made here.'),
  fsync: z
    .boolean()
    .default(false)
    .describe('Wait for the disk before events count as delivered: they then survive a power failure too.'),
})
type Options = z.output<typeof options>

/** How often it is looked whether the file was rotated away. */
const LOOK_MS = 250

const open = promisify(fs.open)
const close = promisify(fs.close)
const fstat = promisify(fs.fstat)
const stat = promisify(fs.stat)
const read = promisify(fs.read)
const writev = promisify(fs.writev)
const ftruncate = promisify(fs.ftruncate)
const fdatasync = promisify(fs.fdatasync)
const mkdir = promisify(fs.mkdir)

/** An open file, and which one it is. */
interface Opened {
  readonly fd: number
  readonly ino: number
  readonly dev: number
}

class FileDestination implements Destination {
  readonly #options: Options
  readonly #context: DestinationContext
  #opened: Opened | undefined
  #raw = new RawEncoder()
  #lookedAt = 0

  constructor(options: Options, context: DestinationContext) {
    this.#options = options
    this.#context = context
  }

  async start(): Promise<void> {
    await this.#attempt(() => this.#open())
  }

  async write(request: readonly EventBatch[]): Promise<void> {
    await this.#attempt(async () => {
      const { fd } = await this.#current()
      const { parts, bytes } = this.#options.encoding === 'raw' ? this.#raw.encode(request) : encodeNdjson(request)
      await this.#append(fd, parts, bytes)
      if (this.#options.fsync) await fdatasync(fd)
    })
  }

  async stop(): Promise<void> {
    await this.#close()
  }

  /** All of it, or nothing: a part of a line that did get written is cut off again. */
  async #append(fd: number, parts: Buffer[], bytes: number): Promise<void> {
    if (bytes === 0) return
    const before = (await fstat(fd)).size
    try {
      const written = await writeAll(fd, parts)
      if (written !== bytes) throw new Error(`only ${written} of ${bytes} bytes were written`)
    } catch (error) {
      // Opening it again finds out how it ends, should this fail too.
      await ftruncate(fd, before).catch(() => {})
      await this.#close()
      throw error
    }
  }

  /** The open file; opened again when its path leads to another one by now. */
  async #current(): Promise<Opened> {
    const now = this.#context.clock.now()
    if (this.#opened && now - this.#lookedAt >= LOOK_MS) {
      this.#lookedAt = now
      const there = await stat(this.#options.path).catch(() => undefined)
      if (there?.ino !== this.#opened.ino || there.dev !== this.#opened.dev) {
        this.#context.log.info({ path: this.#options.path }, 'file was rotated, opening a new one')
        await this.#close()
      }
    }
    return this.#opened ?? this.#open()
  }

  async #open(): Promise<Opened> {
    const { path, mode } = this.#options
    await mkdir(dirname(path), { recursive: true })
    const fd = await open(path, 'a+', Number.parseInt(mode, 8))
    const { ino, dev, size } = await fstat(fd)
    const last = Buffer.alloc(1)
    if (size > 0) await read(fd, last, 0, 1, size - 1)
    this.#raw = new RawEncoder(size > 0 && last[0] !== 0x0a)
    this.#opened = { fd, ino, dev }
    this.#lookedAt = this.#context.clock.now()
    return this.#opened
  }

  async #close(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    if (opened) await close(opened.fd)
  }

  async #attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      const code = errorCode(error) ?? 'unknown'
      const hint = code === 'ENOSPC' ? ': free some space' : code === 'EACCES' ? ': check its permissions' : ''
      throw new DeliveryError(`cannot write ${this.#options.path}${hint} (${errorText(error)})`, {
        failure: 'retry',
        reason: code.toLowerCase(),
        cause: error,
      })
    }
  }
}

async function writeAll(fd: number, parts: Buffer[]): Promise<number> {
  let written = 0
  while (parts.length > 0) {
    let { bytesWritten } = await writev(fd, parts)
    if (bytesWritten === 0) return written
    written += bytesWritten
    while (parts.length > 0 && bytesWritten >= parts[0]!.length) bytesWritten -= parts.shift()!.length
    if (bytesWritten > 0) parts[0] = parts[0]!.subarray(bytesWritten)
  }
  return written
}

export const file = defineDestination({
  type: 'file',
  summary: 'Appends events to a file.',
  notes:
    'A file that was renamed or removed (logrotate) is opened again by its path. Events count as delivered when the operating system has them; with `fsync` when the disk has.',
  options,
  examples: [
    { title: 'The lines as they were read', yaml: 'path: /var/log/app/errors.log\n' },
    { title: 'As JSON, through to the disk', yaml: 'path: ./audit.ndjson\nencoding: json\nfsync: true\n' },
  ],
  delivery: LOCAL,
  create: (options, context) => new FileDestination(options, context),
  explain:
    ({ path, encoding }) =>
    batch => ({
      outcome: 'delivered',
      findings: [{ text: `to ${path}` }],
      bytes: written(encoding === 'raw' ? new RawEncoder().encode([batch]) : encodeNdjson([batch])),
    }),
})
