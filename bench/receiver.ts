import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { eachRecord } from './peers/otlp.js'

/**
 * The receiver that the HTTP jobs deliver to, as a process of its own: counts the lines and bytes of every request.
 * Sends its parent its port; answers any message with the counts so far. With --away it refuses every request until it
 * receives the message `back`. With --otlp bodies are requests of the OpenTelemetry protocol, whose log records count as
 * lines. With --reply every answer has that body, for senders that read it.
 */

const LF = 0x0a
const { values: options } = parseArgs({
  options: { away: { type: 'boolean' }, otlp: { type: 'boolean' }, reply: { type: 'string', default: '' } },
})
let lines = 0
let bytes = 0
let { away = false } = options

function countLines(chunk: Buffer): void {
  bytes += chunk.length
  for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, at + 1)) lines++
}

/** A line end that a sender left out is counted as well, so that bytes can be compared. */
function countRecords(chunks: readonly Buffer[]): void {
  eachRecord(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks), text => {
    lines++
    bytes += text.length + 1
  })
}

const server = createServer((request, response) => {
  if (away) {
    request.resume().on('end', () => response.writeHead(503).end())
    return
  }
  const chunks: Buffer[] = []
  let lastByte = LF
  request.on('data', (chunk: Buffer) => {
    if (options.otlp) chunks.push(chunk)
    else countLines(chunk)
    lastByte = chunk[chunk.length - 1]!
  })
  request.on('end', () => {
    if (options.otlp) countRecords(chunks)
    else if (lastByte !== LF) {
      lines++
      bytes++
    }
    response.writeHead(200, options.reply === '' ? {} : { 'content-type': 'application/json' }).end(options.reply)
  })
})
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('message', message => {
  if (message === 'back') away = false
  process.send?.({ lines, bytes })
})
process.on('disconnect', () => process.exit())
