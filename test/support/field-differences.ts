import { parse } from '../../src/components/processors/parse.js'
import { encodeLines } from '../../src/core/codecs/encode.js'
import { JSON_OBJECTS } from '../../src/core/codecs/json.js'
import type { EventBatch } from '../../src/core/event/batch.js'
import type { FieldReader } from '../../src/core/event/field-reader.js'
import { DECODED, INVALID } from '../../src/core/event/flags.js'
import { SLOT, WantedNames } from '../../src/lib/formats/json-scan.js'
import { CHUNK_BYTES } from '../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../src/lib/lines/chunk-pool.js'
import { batchOf, fieldReaderOf } from './batches.js'
import { accessLine, criLine, dockerLine } from './log-lines.js'
import { Seeded } from './seeded.js'
import { loadedStageOf } from './stage.js'

/**
 * What many lines of a format become at once, where the kernel reads most of them, held to what each becomes alone, where
 * JavaScript does.
 */

const PATHS = [
  ...['.client', '.user', '.timestamp', '.path', '.request', '.status', '.bytes', '.user_agent', '.rest', '.vhost'],
  ...['.port', '.stream', '.partial', '.message', '.host', '.file', '.peer', '.other'],
]
const LINES = { nginx: accessLine, apache: accessLine, cri: criLine, docker_json: dockerLine }
const AT_ONCE = 100
const RECEIVED = [0, Date.parse('2026-01-01T00:00:30Z')]

export interface FieldDifferences {
  readonly wrong: readonly string[]
  /** Lines that are of the format, and those that the kernel left to JavaScript. */
  readonly decoded: number
  readonly left: number
}

/** What becomes of each event of a batch, in words. */
type Reading = (batch: EventBatch) => string[]

/** Reads so many generated lines in both ways. Stops after 20 differences. */
export async function fieldDifferences(
  codecs: readonly (keyof typeof LINES)[],
  seed: number,
  count: number,
): Promise<FieldDifferences> {
  const random = new Seeded(seed)
  const wrong: string[] = []
  let [decoded, left] = [0, 0]
  for (let done = 0; done < count && wrong.length < 20; done += AT_ONCE) {
    const paths = PATHS.filter(() => random.chance(0.3))
    const codec = random.pick(codecs)
    const lines = Array.from({ length: AT_ONCE }, () => LINES[codec](random))
    const wanted = new WantedNames()
    const origin = {
      wanted,
      receivedAt: random.pick(RECEIVED),
      path: random.pick(['/var/log/access.log', '/var/log/"x"\\y.log']),
      maxLineBytes: random.chance(0.9) ? 2 ** 20 : 150,
      ...(random.chance(0.5) && { peer: '192.0.2.1:80' }),
    }
    const readers = paths.map(path => fieldReaderOf(path, wanted))
    const decode: Reading = batch => events(batch, readers)
    const options = { codec, remove_field: random.chance(0.5) }
    const parsed = await parsing(
      random.chance(0.8) ? options : { ...options, try: [{ codec }], codec: undefined },
      paths,
    )
    for (const [how, from, read] of [
      ['decode', codec, decode],
      ['parse', 'text', parsed.read],
    ] as const) {
      const of = { ...origin, decode: from, ...(how === 'parse' && { wanted: parsed.wanted }) }
      const together = batchOf(lines, of)
      // The kernel reads chunks of the pool where they are.
      const chunk = random.chance(0.5) ? takeChunk(CHUNK_BYTES) : undefined
      if (chunk) {
        together.chunk.copy(chunk)
        together.chunk = chunk
        // It also writes events there, otherwise only those of large batches.
        if (how === 'parse' && random.chance(0.7)) together.textsToChange().room(CHUNK_BYTES)
      }
      const found = read(together)
      const alone = lines.flatMap(line => read(batchOf([line], of)))
      for (const [i, event] of found.entries())
        if (event !== alone[i]) wrong.push(`${how} ${codec}: ${event}\nalone: ${alone[i]}`)
      if (chunk) freeChunk(chunk)
      if (how === 'parse') continue
      for (const flags of together.flags) if (flags & DECODED) decoded++
      const out = new Int32Array(together.length * wanted.names.length * SLOT)
      left += together.origin.codec.scanLines!(batchOf(lines, of), wanted, out) ?? AT_ONCE
    }
  }
  return { wrong, decoded, left }
}

async function parsing(options: object, paths: readonly string[]): Promise<{ read: Reading; wanted: WantedNames }> {
  const { processor, wanted } = await loadedStageOf(parse, options)
  const readers = paths.map(path => fieldReaderOf(path, wanted))
  const read: Reading = batch => {
    const to = new Uint8Array(batch.length)
    const problems: (string | undefined)[] = []
    processor.process(batch, to, { because: (i: number, problem: string) => (problems[i] = problem) } as never)
    return events(batch, readers).map((event, i) => `${to[i]} ${problems[i]} ${event}`)
  }
  return { read, wanted }
}

function events(batch: EventBatch, readers: readonly FieldReader[]): string[] {
  const found = Array.from({ length: batch.length }, (_, i) => {
    const fields = readers.map(reader => `${reader.load(batch, i)} ${reader.plain} ${reader.text()}`)
    return `${batch.look(i) & (DECODED | INVALID)} ${fields.join(' | ')}`
  })
  const lines = Buffer.concat(encodeLines(JSON_OBJECTS, [batch]).parts)
    .toString()
    .split('\n')
  return found.map((event, i) => `${event} ${lines[i]}`)
}
