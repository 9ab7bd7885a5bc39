import { DECODED, SCANNED } from '../../src/core/event/flags.js'
import { SLOT, scanObject, WantedNames } from '../../src/lib/formats/json-scan.js'
import { theKernel } from '../../src/lib/kernel/kernel.js'
import type { Lines } from '../../src/lib/kernel/line-memory.js'
import { CHUNK_BYTES } from '../../src/lib/lines/chunk-memory.js'
import { freeChunk, takeChunk } from '../../src/lib/lines/chunk-pool.js'
import { CONTINUES, LINE_END, PIECE } from '../../src/lib/lines/line-splitter.js'
import { JsonLines } from './json-lines.js'
import { Seeded } from './seeded.js'

/** The scan of the kernel, held to the scan in JavaScript, line by line, over lines in every way of writing JSON. */

const FLAGS = { skipped: PIECE | CONTINUES, ended: LINE_END, scanned: SCANNED, decoded: DECODED }
const NAMES = ['a', 'b', 'x-y', 'é', '__proto__', '', 'list', 'longer than eight', 'longer than right', '"', '😀']
const BEHIND = ['\n', '\n', '\n', '\r\n', '', '\u0000', '}', '"', ' \n', ',"a":2}\n']
const IN_A_CHUNK = 500

export interface Differences {
  readonly wrong: readonly string[]
  readonly objects: number
  /** Lines that the kernel left to the caller. */
  readonly undecided: number
}

/** Scans so many generated lines in both ways. Stops after 20 differences. */
export function scanDifferences(seed: number, count: number): Differences {
  const random = new Seeded(seed)
  const source = new JsonLines(random)
  const kernel = theKernel()!.json
  const wrong: string[] = []
  let objects = 0
  let undecided = 0
  for (let done = 0; done < count && wrong.length < 20; done += IN_A_CHUNK) {
    const wanted = new WantedNames()
    for (const name of NAMES) if (random.chance(0.4)) wanted.slot(name)
    const line = () => (random.chance(0.6) ? source.shaped() : source.line())
    const texts = Array.from({ length: IN_A_CHUNK }, () => [line(), random.pick(BEHIND)] as const)
    const isPooled = random.chance(0.5)
    const lines = isPooled ? pooled(chunkOf(texts)) : chunkOf(texts)
    const { chunk, starts, ends, flags, length } = lines
    for (let i = 0; i < length; i++) if (random.chance(0.02)) flags[i]! |= random.pick([PIECE, CONTINUES])
    const skipped = Array.from(flags, flag => (flag & (PIECE | CONTINUES)) !== 0)
    const stride = wanted.names.length * SLOT
    const [found, expected] = [new Int32Array(length * stride), new Int32Array(length * stride)]
    kernel.scan(lines, wanted, found, FLAGS)
    for (let i = 0; i < length; i++) {
      if (skipped[i]) {
        if ((flags[i]! & (SCANNED | DECODED)) !== SCANNED)
          wrong.push(`line ${i} of ${done} is a piece, and was scanned`)
        continue
      }
      const start = mark(chunk, starts[i]!, ends[i]!)
      const isObject = scanObject(chunk, start, ends[i]!, wanted, expected, i * stride)
      if (isObject) objects++
      const text = () => JSON.stringify(chunk.toString('utf8', starts[i]!, ends[i]!))
      if ((flags[i]! & SCANNED) === 0) {
        undecided++
        continue
      }
      if (isObject !== ((flags[i]! & DECODED) !== 0)) wrong.push(`${text()}: ${isObject ? 'refused' : 'taken'}`)
      if (!isObject) continue
      for (let at = i * stride; at < (i + 1) * stride; at += SLOT) {
        // The lowest bit of the end has a meaning for strings alone.
        const isString = chunk[expected[at]!] === 0x22
        const same = expected[at] === found[at] && (expected[at + 1]! ^ found[at + 1]!) < (isString ? 1 : 2)
        if (!same)
          wrong.push(`${text()}: ${wanted.names[(at - i * stride) / SLOT]}: ${[found[at], found[at + 1]! >> 1]}`)
      }
    }
    if (isPooled) freeChunk(chunk)
  }
  return { wrong, objects, undecided }
}

function mark(chunk: Buffer, start: number, end: number): number {
  return end - start >= 3 && chunk.compare(BOM, 0, 3, start, start + 3) === 0 ? start + 3 : start
}
const BOM = Buffer.from('\ufeff')

/** The same lines in a chunk of the pool, which the kernel reads where it is. */
function pooled(lines: Lines): Lines {
  if (lines.chunk.length > CHUNK_BYTES) return lines
  const chunk = takeChunk(CHUNK_BYTES)
  lines.chunk.copy(chunk)
  return { ...lines, chunk }
}

/** Lines one after the other, each with what follows it. */
export function chunkOf(lines: readonly (readonly [Buffer, string])[]): Lines {
  const length = lines.length
  const chunk = Buffer.concat(lines.flatMap(([line, behind]) => [line, Buffer.from(behind)]))
  const [starts, ends, flags] = [new Int32Array(length), new Int32Array(length), new Uint8Array(length)]
  let at = 0
  for (const [i, [line, behind]] of lines.entries()) {
    starts[i] = at
    ends[i] = at + line.length
    at += line.length + Buffer.byteLength(behind)
    flags[i] = behind.startsWith('\n') ? 1 : behind === '\r\n' ? 2 : 0
  }
  return { chunk, length, starts, ends, flags }
}
