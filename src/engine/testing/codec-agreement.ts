import { isDeepStrictEqual } from 'node:util'
import type { Codec } from '../../core/codec.js'
import { MISSING } from '../../core/event/field-reader.js'
import { DECODED, INVALID } from '../../core/event/flags.js'
import { stringEnd, valueEnd, WantedNames } from '../../lib/formats/json-scan.js'
import { FieldMembers } from '../../lib/formats/members.js'
import { CONTINUES, PIECE } from '../../lib/lines/line-splitter.js'
import { type BatchOptions, batchOf, fieldReaderOf } from './batches.js'

/** The fields that `read` yields, as an object; undefined if the line cannot be decoded. */
export function readFields(codec: Codec, line: Buffer, start = 0, end = line.length): unknown {
  const members = new FieldMembers()
  if (!codec.read(line, start, end, members, 1e12)) return undefined
  const { out } = members
  const { length } = out
  // The scan needs a control character after the text.
  out.addByte(0)
  const entries: [string, unknown][] = []
  // Parses each name separately, because JSON.parse of some engines confuses names that have escapes.
  for (let p = 0; p < length; p++) {
    const nameEnd = stringEnd(out.bytes, p + 1) + 1
    const name = JSON.parse(out.bytes.toString('utf8', p, nameEnd)) as string
    p = valueEnd(out.bytes, nameEnd + 1, length)
    entries.push([name, JSON.parse(out.bytes.toString('utf8', nameEnd + 1, p))])
  }
  return Object.fromEntries(entries)
}

/**
 * Checks that field readers find the same values as `fields` and `read`. Checks this before and after the batch was
 * moved, in a copy of the batch, and with invalid bytes.
 */
export function agreesWithFields(
  t: { same(found: unknown, wanted: unknown, what: string): unknown },
  decode: NonNullable<BatchOptions['decode']>,
  names: readonly string[],
  lines: readonly (string | Buffer)[],
): void {
  const wanted = new WantedNames()
  const readers = names.map(name => [name, fieldReaderOf(`."${name}"`, wanted)] as const)
  const given = [...lines, ...lines.map(line => Buffer.concat([Buffer.from(line as string), Buffer.from([0xff])]))]
  for (const piece of [0, 3]) {
    const batch = batchOf(given, {
      decode,
      wanted,
      path: '/f',
      peer: '192.0.2.7',
      receivedAt: 1e12,
      ...(piece ? { maxLineBytes: 5 } : {}),
    })
    const check = (what: string) => {
      for (let i = 0; i < batch.length; i++) {
        const fields = batch.fields(i)
        for (const [name, reader] of readers) {
          const value = Object.hasOwn(fields, name) ? fields[name] : undefined
          const found = [reader.load(batch, i) === MISSING, reader.value()]
          const wanted = [value === undefined, value]
          if (!isDeepStrictEqual(found, wanted)) t.same(found, wanted, `${what}: ${name} of event ${i}`)
        }
      }
    }
    check('at first')
    for (let i = 0; i < batch.length; i++) {
      const { chunk, starts, ends, receivedAt } = batch
      const flags = batch.look(i)
      if (flags & (INVALID | PIECE | CONTINUES) || batch.origin.codec.form === 'message') continue
      const found = readFields(batch.origin.codec, chunk, starts[i]!, ends[i]!)
      const wanted = flags & DECODED ? batch.origin.codec.fields(chunk, starts[i]!, ends[i]!, receivedAt) : undefined
      if (!isDeepStrictEqual(found, wanted)) t.same(found, wanted, `read: ${chunk.subarray(starts[i]!, ends[i]!)}`)
    }
    batch.retain(i => i % 3 !== 1)
    check('some gone')
    batch.fork(0, 1).ack.settle('delivered')
    batch.compact()
    check('elsewhere')
  }
}
