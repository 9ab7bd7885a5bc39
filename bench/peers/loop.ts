import { closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { connect } from 'node:net'
import { SharedReadServer, SharedReadSocket } from '../../src/lib/network/shared-reads.js'

/**
 * The least that a program in Node.js can do for a job: no lines, no checkpoints, no metrics. What a shipper could
 * reach at most on this machine. Stays alive when it is done, so that its usage can be read.
 *
 * Usage: loop.js (copy | read | post | receive) INPUT OUT PORT
 */

const BLOCK_BYTES = 256 * 1024
/** J3: a body holds whole lines, of this size at most. Smaller ones take more time, larger ones wait for the receiver. */
const BODY_BYTES = 2 * 1024 * 1024
const LF = 0x0a

/** The part of the global that is used here; its types come with those of a browser. */
declare const WebAssembly: { readonly Memory: new (limits: object) => { readonly buffer: ArrayBuffer } }

/**
 * A block that begins with a page of memory. One of `Buffer.allocUnsafe` begins 16 bytes behind it, which some processors
 * copy half as fast.
 */
const blockOf = (bytes: number) => Buffer.from(new WebAssembly.Memory({ initial: bytes / 65_536 }).buffer)

const [mode, input, out, port] = process.argv.slice(2) as [string, string, string, string]
setInterval(() => {}, 2 ** 30)

function copy(): void {
  const from = openSync(input, 'r')
  const to = openSync(out, 'w')
  const block = blockOf(BLOCK_BYTES)
  for (let length; (length = readSync(from, block, 0, BLOCK_BYTES, null)) > 0; )
    for (let written = 0; written < length; ) written += writeSync(to, block, written, length - written)
  closeSync(to)
}

function read(): void {
  const from = openSync(input, 'r')
  const block = blockOf(BLOCK_BYTES)
  let bytes = 0
  for (let length; (length = readSync(from, block, 0, BLOCK_BYTES, null)) > 0; ) bytes += length
  report(bytes)
}

/** Reads the next body while the receiver counts the last one. A client of HTTP would take a third more of CPU time. */
function post(): void {
  const from = openSync(input, 'r')
  const blocks = [blockOf(BODY_BYTES), blockOf(BODY_BYTES)]
  let position = 0
  const read = () => {
    blocks.reverse()
    const block = blocks[0]!
    const body = block.subarray(
      0,
      block.subarray(0, readSync(from, block, 0, BODY_BYTES, position)).lastIndexOf(LF) + 1,
    )
    position += body.length
    return body
  }
  let body = read()
  const send = () => {
    if (body.length === 0) return
    socket.cork()
    socket.write(`POST /ingest HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${body.length}\r\n\r\n`)
    socket.write(body)
    socket.uncork()
    body = read()
  }
  let answer = ''
  const socket = connect(Number(port), '127.0.0.1', send).on('data', part => {
    answer += part.toString('latin1')
    if (!answer.endsWith('\r\n\r\n')) return
    answer = ''
    send()
  })
}

/** Into one memory: Node.js makes a new buffer for each read otherwise, which takes twice as long. */
function receive(): void {
  new SharedReadServer(socket => {
    if (!(socket instanceof SharedReadSocket)) throw new Error('this version of Node.js cannot do that')
    let bytes = 0
    socket.receive = read => {
      bytes += read.length
      return true
    }
    socket.on('end', () => report(bytes)).resume()
  }).listen(Number(port), '127.0.0.1')
}

function report(bytes: number): void {
  writeFileSync(out, `${bytes}\n`)
}

const modes: Record<string, () => void> = { copy, read, post, receive }
modes[mode]!()
