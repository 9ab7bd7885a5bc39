import { closeSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'

/**
 * The least that a program in Node.js can do for a job: no lines, no checkpoints, no metrics. What a shipper could
 * reach at most on this machine. Stays alive when it is done, so that its usage can be read.
 *
 * Usage: loop.js (copy | read | post | receive) INPUT OUT PORT
 */

const BLOCK_BYTES = 256 * 1024
/** J3: a body holds whole lines, of this size at most, and so many requests are under way at a time. */
const BODY_BYTES = 1024 * 1024
const REQUESTS = 2
const LF = 0x0a

const [mode, input, out, port] = process.argv.slice(2) as [string, string, string, string]
setInterval(() => {}, 2 ** 30)

function copy(): void {
  const from = openSync(input, 'r')
  const to = openSync(out, 'w')
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  for (let length; (length = readSync(from, block, 0, BLOCK_BYTES, null)) > 0; )
    for (let written = 0; written < length; ) written += writeSync(to, block, written, length - written)
  closeSync(to)
}

function read(): void {
  const from = openSync(input, 'r')
  const block = Buffer.allocUnsafe(BLOCK_BYTES)
  let bytes = 0
  for (let length; (length = readSync(from, block, 0, BLOCK_BYTES, null)) > 0; ) bytes += length
  report(bytes)
}

async function post(): Promise<void> {
  const from = openSync(input, 'r')
  const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS })
  let position = 0
  await Promise.all(
    Array.from({ length: REQUESTS }, async () => {
      const block = Buffer.allocUnsafe(BODY_BYTES)
      for (;;) {
        const length = block.subarray(0, readSync(from, block, 0, BODY_BYTES, position)).lastIndexOf(LF) + 1
        if (length === 0) return
        position += length
        await send(agent, block.subarray(0, length))
      }
    }),
  )
}

function send(agent: Agent, body: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-length': body.length }
    request({ host: '127.0.0.1', port, agent, method: 'POST', path: '/ingest', headers }, response =>
      response.resume().on('end', resolve),
    )
      .on('error', reject)
      .end(body)
  })
}

function receive(): void {
  createServer(socket => {
    let bytes = 0
    socket.on('data', chunk => (bytes += chunk.length)).on('end', () => report(bytes))
  }).listen(Number(port), '127.0.0.1')
}

function report(bytes: number): void {
  writeFileSync(out, `${bytes}\n`)
}

const modes: Record<string, () => void | Promise<void>> = { copy, read, post, receive }
await modes[mode]!()
