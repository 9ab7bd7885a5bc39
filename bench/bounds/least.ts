import { once } from 'node:events'
import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { type FileHandle, open, rename } from 'node:fs/promises'
import { connect } from 'node:net'
import { Readable, Transform, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { theKernel } from '../../src/lib/kernel/kernel.js'
import { CHUNK_BYTES, chunkMemory, OWN_BYTES } from '../../src/lib/lines/chunk-memory.js'
import { PAGE_BYTES } from '../../src/lib/lines/chunk-pool.js'

/**
 * Loops between the bare one of bench/peers/loop.ts and a log shipper, each with a little more of what one has to do.
 * Stays alive when it is done, so that its usage can be read.
 *
 * Usage: least.js (plain | lines | streams | deliver | post) INPUT OUT PORT
 */

const BLOCK_BYTES = 256 * 1024
/** Where each block costs a hop to another thread and back. */
const AHEAD_BYTES = 512 * 1024
/** Of one request. */
const BODY_BYTES = 2 * 1024 * 1024
const SAVE_MS = 1000
/** What Sluice reads at a time. */
const STREAM_BYTES = 512 * 1024
const MOST_WAITING = 2

const [mode, input, out, port] = process.argv.slice(2) as [string, string, string, string]
setInterval(() => {}, 2 ** 30)

const kernel = theKernel()!

/** A block of bytes, in which the kernel of Sluice finds the lines: nothing in JavaScript finds them as fast. */
class Block {
  bytes: Buffer
  lines = 0
  readonly #memory: Buffer
  readonly #size: number

  constructor(n: number, size: number) {
    const all = size + PAGE_BYTES
    this.#memory = Buffer.from(chunkMemory()!.buffer, OWN_BYTES + n * all, all)
    this.#size = size
    this.bytes = this.#memory
  }

  /** Makes room for what is at `position` of a file, which lies in pages of memory as in those of the file. */
  roomFor(position: number): Buffer {
    const first = position % PAGE_BYTES
    this.bytes = this.#memory.subarray(first, first + this.#size)
    return this.bytes
  }

  /** Finds the lines in the first bytes; returns where the last whole one ends. */
  divide(length: number): number {
    let at = 0
    this.lines = 0
    for (let from = 0; from < length; from += CHUNK_BYTES) {
      const found = kernel.lines.find(this.bytes, at, from, Math.min(from + CHUNK_BYTES, length), length)!
      this.lines += found.length
      at = (found.ends.at(-1) ?? at - 1) + 1
    }
    return at
  }
}

/** Copies blocks as the bare loop does, but in memory as Node.js gives it to who asks for a buffer. */
function plain(): void {
  const from = openSync(input, 'r')
  const to = openSync(out, 'w')
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  for (let length; (length = readSync(from, block, 0, BLOCK_BYTES, null)) > 0; )
    for (let written = 0; written < length; ) written += writeSync(to, block, written, length - written)
  closeSync(to)
}

/** Copies blocks as the bare loop does, and finds the lines in them. */
function lines(): void {
  const from = openSync(input, 'r')
  const to = openSync(out, 'w')
  const block = new Block(0, BLOCK_BYTES)
  let position = 0
  for (let length; (length = block.divide(readSync(from, block.roomFor(position), 0, BLOCK_BYTES, position))) > 0; ) {
    position += length
    for (let written = 0; written < length; ) written += writeSync(to, block.bytes, written, length - written)
  }
  closeSync(to)
}

/** The same with larger blocks, which pass through the streams that a pipeline with one processor is made of. */
async function streams(): Promise<void> {
  const from = openSync(input, 'r')
  const to = openSync(out, 'w')
  // As many as can be on their way.
  const blocks = Array.from({ length: 4 * MOST_WAITING }, (_, n) => new Block(n, STREAM_BYTES))
  const options = { objectMode: true, highWaterMark: MOST_WAITING }
  const counts = { events: 0, bytes: 0 }
  let position = 0
  let n = 0
  const source = new Readable({
    ...options,
    read() {
      const block = blocks[n++ % blocks.length]!
      const length = block.divide(readSync(from, block.roomFor(position), 0, STREAM_BYTES, position))
      position += length
      this.push(length > 0 ? { block, length } : null)
    },
  })
  const processor = new Transform({
    ...options,
    transform(batch: { block: Block; length: number }, _encoding, done) {
      counts.events += batch.block.lines
      counts.bytes += batch.length
      done(null, batch)
    },
  })
  const destination = new Writable({
    ...options,
    write({ block, length }: { block: Block; length: number }, _encoding, done) {
      for (let written = 0; written < length; ) written += writeSync(to, block.bytes, written, length - written)
      done()
    },
  })
  await pipeline(source, processor, destination)
  closeSync(to)
}

/** Resolves when the bytes before `length` are delivered. */
type Put = (bytes: Buffer, length: number) => Promise<unknown>

/**
 * Reads ahead while it delivers, neither of which stops the event loop, counts what was delivered, and saves the position
 * once a second, as durably as a checkpoint.
 */
async function deliver(put: Put, blockBytes: number): Promise<void> {
  const from = await open(input, 'r')
  const blocks = [0, 1, 2].map(n => new Block(n, blockBytes))
  const counts = { events: 0, bytes: 0 }
  let position = 0
  let written: Promise<unknown> = Promise.resolve()
  let saved = performance.now()
  for (let n = 0; ; n++) {
    const block = blocks[n % blocks.length]!
    const { bytesRead } = await from.read(block.roomFor(position), 0, blockBytes, position)
    const length = block.divide(bytesRead)
    if (length === 0) break
    position += length
    await written
    if (performance.now() - saved >= SAVE_MS) {
      saved = performance.now()
      void save(counts.bytes)
    }
    written = put(block.bytes, length).then(() => {
      counts.events += block.lines
      counts.bytes += length
    })
  }
  await written
  await save(counts.bytes)
}

async function file(): Promise<Put> {
  const to = await open(out, 'w')
  return (bytes, length) => writeAll(to, bytes, length)
}

/** One request at a time. */
async function http(): Promise<Put> {
  const socket = connect(Number(port), '127.0.0.1')
  await once(socket, 'connect')
  let answered = () => {}
  let answer = ''
  socket.on('data', part => {
    answer += part.toString('latin1')
    if (!answer.endsWith('\r\n\r\n')) return
    answer = ''
    answered()
  })
  return (bytes, length) => {
    socket.cork()
    socket.write(`POST /ingest HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${length}\r\n\r\n`)
    socket.write(bytes.subarray(0, length))
    socket.uncork()
    return new Promise<void>(resolve => {
      answered = resolve
    })
  }
}

async function writeAll(to: FileHandle, bytes: Buffer, length: number): Promise<void> {
  for (let at = 0; at < length; ) at += (await to.write(bytes, at, length - at)).bytesWritten
}

async function save(position: number): Promise<void> {
  const file = await open(`${out}.position.new`, 'w')
  await file.writeFile(JSON.stringify({ position }))
  await file.sync()
  await file.close()
  await rename(`${out}.position.new`, `${out}.position`)
}

const modes: Record<string, () => void | Promise<void>> = {
  plain,
  lines,
  streams,
  deliver: async () => await deliver(await file(), AHEAD_BYTES),
  post: async () => await deliver(await http(), BODY_BYTES),
}
await modes[mode]!()
