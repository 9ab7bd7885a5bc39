import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, createReadStream, fsync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { Agent, type OutgoingHttpHeaders, request } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'

/**
 * The least that a program can do with the means of Node.js alone to deliver the lines of a file to a server: no
 * parser, no checkpoints, no metrics, no retries. Bodies are as large as those of Sluice, and as many are on their way.
 * Stays alive when it is done, so that its usage can be read.
 *
 * Usage: server-loop.js (loki | bulk | objects) INPUT OUT PORT
 */

/** Of lines that are framed at once: with their frames, a body of 1 MiB for Loki. */
const BLOCK_BYTES = 960 * 1024
/** 4096 events for Elasticsearch. */
const BULK_BYTES = 888 * 1024
/** What a frame adds to a line at most, and the shortest line of the input. */
const [MOST_FRAME, LEAST_LINE] = [128, 128]
const BLOCKS_OF_OBJECT = 8
const READ_BACK_BYTES = 512 * 1024
const LF = 0x0a
const NDJSON = { 'content-type': 'application/x-ndjson' }
const PROTOBUF = { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy' }

const [mode, input, out, port] = process.argv.slice(2) as [string, string, string, string]
setInterval(() => {}, 2 ** 30)

const from = openSync(input, 'r')
const block = Buffer.alloc(BLOCK_BYTES)
let position = 0

/** Reads lines to the beginning of `block`; returns where the last whole one ends, 0 at the end of the file. */
function readLines(most = BLOCK_BYTES): number {
  const length = block.subarray(0, readSync(from, block, 0, most, position)).lastIndexOf(LF) + 1
  position += length
  return length
}

const agent = new Agent({ keepAlive: true })

function requestOf(method: string, path: string, headers: OutgoingHttpHeaders) {
  const sent = request({ agent, port: Number(port), host: '127.0.0.1', method, path, headers })
  const answer = once(sent, 'response').then(async ([response]) => {
    let text = ''
    for await (const part of response.setEncoding('latin1')) text += part
    if (response.statusCode >= 300) throw new Error(`${response.statusCode} ${text}`)
    return text
  })
  return { sent, answer }
}

function post(path: string, headers: OutgoingHttpHeaders, parts: readonly Buffer[]): Promise<string> {
  const length = parts.reduce((sum, { length }) => sum + length, 0)
  const { sent, answer } = requestOf('POST', path, { ...headers, 'content-length': length })
  sent.cork()
  for (const part of parts) sent.write(part)
  sent.end()
  return answer
}

/**
 * Makes the next body while `most` requests are on their way. `make` has the number of a memory that is free, and returns
 * what sends the body in it, or nothing at the end.
 */
async function deliver(most: number, make: (free: number) => (() => Promise<unknown>) | undefined): Promise<void> {
  const sent: Promise<unknown>[] = []
  for (let n = 0; ; n++) {
    await sent[n % (most + 1)]
    const send = make(n % (most + 1))
    if (!send) break
    await sent[(n + 1) % (most + 1)]
    sent[n % (most + 1)] = send()
  }
  await Promise.all(sent)
}

const memories = (n: number) =>
  Array.from({ length: n }, () => Buffer.alloc(BLOCK_BYTES + (BLOCK_BYTES / LEAST_LINE) * MOST_FRAME))

/** A number as in protobuf, written to `bytes`; returns where it ends. */
function varint(bytes: Buffer | number[], at: number, value: number): number {
  for (; value > 127; value = Math.floor(value / 128)) bytes[at++] = (value % 128) | 128
  bytes[at++] = value
  return at
}

/** Field 1 of a message, with bytes. */
function field1(content: readonly number[]): number[] {
  const bytes = [0x0a]
  varint(bytes, 1, content.length)
  return [...bytes, ...content]
}

/** A PushRequest of one stream, in one literal of snappy: not compressed. All lines of a body have the same time. */
async function loki(): Promise<void> {
  const labels = field1([...Buffer.from('{job="bench"}')])
  const bodies = memories(2)
  await deliver(1, free => {
    const length = readLines()
    if (length === 0) return undefined
    const body = bodies[free]!
    const now = [0x08]
    varint(now, 1, Math.floor(Date.now() / 1000))
    const time = field1(now)
    let at = 0
    for (let begin = 0, end: number; begin < length; begin = end + 1) {
      end = block.indexOf(LF, begin)
      const line = end - begin
      body[at++] = 0x12
      at = varint(body, at, time.length + (line > 127 ? 3 : 2) + line)
      for (let i = 0; i < time.length; i++) body[at++] = time[i]!
      body[at++] = 0x12
      at = varint(body, at, line)
      at += block.copy(body, at, begin, end)
    }
    const head = [0x0a]
    varint(head, 1, labels.length + at)
    head.push(...labels)
    const snappy: number[] = []
    varint(snappy, 0, head.length + at)
    const literal = Buffer.alloc(5, 0xfc)
    literal.writeUInt32LE(head.length + at - 1, 1)
    const parts = [Buffer.from(snappy), literal, Buffer.from(head), body.subarray(0, at)]
    return () => post('/loki/api/v1/push', PROTOBUF, parts)
  })
}

const DIGITS = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_')
/** Digits of an id that say where its line begins. */
const ID_DIGITS = 8

/** Each line with an id from its place in the file, and its time once more, which is at the same place of each line. */
async function bulk(): Promise<void> {
  const source = createHash('sha256').update(input).digest('base64url').slice(0, 16)
  const before = Buffer.from(`{"create":{"_index":"bench","_id":"${source}`)
  const after = Buffer.from('"}}\n{"@')
  const time = '{"timestamp":"2026-01-01T00:00:00.000Z",'.length
  const bodies = memories(3)
  await deliver(2, free => {
    const first = position
    const length = readLines(BULK_BYTES)
    if (length === 0) return undefined
    const body = bodies[free]!
    let at = 0
    for (let begin = 0, end: number; begin < length; begin = end) {
      end = block.indexOf(LF, begin) + 1
      at += before.copy(body, at)
      for (let i = ID_DIGITS, place = first + begin; i-- > 0; place = Math.floor(place / 64))
        body[at + i] = DIGITS[place % 64]!
      at += ID_DIGITS
      at += after.copy(body, at)
      at += block.copy(body, at, begin + 2, begin + time)
      at += block.copy(body, at, begin + 1, end)
    }
    const parts = [body.subarray(0, at)]
    return async () => {
      const answer = await post('/_bulk', NDJSON, parts)
      if (!answer.includes('"errors":false')) throw new Error(answer.slice(0, 1000))
    }
  })
}

/** Each object is in a file on the disk before it is sent, and is read from there once. */
async function objects(): Promise<void> {
  await deliver(2, free => {
    const spool = `${out}.${free}`
    const file = openSync(spool, 'w')
    const hash = createHash('sha256')
    let size = 0
    for (let n = 0, length: number; n < BLOCKS_OF_OBJECT && (length = readLines()) > 0; n++) {
      hash.update(block.subarray(0, length))
      for (let written = 0; written < length; ) written += writeSync(file, block, written, length - written)
      size += length
    }
    if (size === 0) return undefined
    const path = `/bench/${position}.log`
    return async () => {
      await promisify(fsync)(file)
      closeSync(file)
      const headers = { 'content-length': size, 'x-amz-content-sha256': hash.digest('hex') }
      const { sent, answer } = requestOf('PUT', path, headers)
      await pipeline(createReadStream(spool, { highWaterMark: READ_BACK_BYTES }), sent)
      await answer
      rmSync(spool)
    }
  })
}

const modes: Record<string, () => Promise<void>> = { loki, bulk, objects }
await modes[mode]!()
