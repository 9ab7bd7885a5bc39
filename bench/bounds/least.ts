import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { type FileHandle, open, rename } from 'node:fs/promises'

/**
 * Loops between the bare one of bench/peers/loop.ts and a log shipper, each with a little more of what one has to do.
 * Stays alive when it is done, so that its usage can be read.
 *
 * Usage: least.js (lines | deliver) INPUT OUT
 */

const BLOCK_BYTES = 256 * 1024
const LF = 0x0a
const SAVE_MS = 1000

const [mode, input, out] = process.argv.slice(2) as [string, string, string]
setInterval(() => {}, 2 ** 30)

/** A block of bytes, and where its lines begin and end. */
class Block {
  readonly bytes = Buffer.allocUnsafe(BLOCK_BYTES)
  readonly starts = new Int32Array(BLOCK_BYTES)
  readonly ends = new Int32Array(BLOCK_BYTES)
  lines = 0

  /** Finds the lines in the first bytes; returns where the last whole one ends. */
  divide(length: number): number {
    const { bytes, starts, ends } = this
    let at = 0
    this.lines = 0
    for (let end; (end = bytes.indexOf(LF, at)) >= 0 && end < length; at = end + 1) {
      starts[this.lines] = at
      ends[this.lines++] = end
    }
    return at
  }
}

/** Copies blocks as the bare loop does, and finds the lines in them. */
function lines(): void {
  const from = openSync(input, 'r')
  const to = openSync(out, 'w')
  const block = new Block()
  let position = 0
  for (let length; (length = block.divide(readSync(from, block.bytes, 0, BLOCK_BYTES, position))) > 0; ) {
    position += length
    for (let written = 0; written < length; ) written += writeSync(to, block.bytes, written, length - written)
  }
  closeSync(to)
}

/**
 * Reads ahead while it writes, neither of which stops the event loop, counts what was delivered, and saves the position
 * once a second, as durably as a checkpoint.
 */
async function deliver(): Promise<void> {
  const from = await open(input, 'r')
  const to = await open(out, 'w')
  const blocks = [new Block(), new Block(), new Block()]
  const counts = { events: 0, bytes: 0 }
  let position = 0
  let written: Promise<unknown> = Promise.resolve()
  let saved = performance.now()
  for (let n = 0; ; n++) {
    const block = blocks[n % blocks.length]!
    const { bytesRead } = await from.read(block.bytes, 0, BLOCK_BYTES, position)
    const length = block.divide(bytesRead)
    if (length === 0) break
    position += length
    await written
    if (performance.now() - saved >= SAVE_MS) {
      saved = performance.now()
      void save(counts.bytes)
    }
    written = writeAll(to, block.bytes, length).then(() => {
      counts.events += block.lines
      counts.bytes += length
    })
  }
  await written
  await save(counts.bytes)
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

const modes: Record<string, () => void | Promise<void>> = { lines, deliver }
await modes[mode]!()
