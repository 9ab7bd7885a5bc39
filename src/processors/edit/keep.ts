import type { EventBatch } from '../../core/event/batch.js'
import { EventJson } from '../../core/event/event-json.js'
import type { FieldPath, Segment } from '../../core/event/field-path.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { sawEscape, skipSpace, stringEnd, valueEnd } from '../../lib/formats/json-scan.js'
import { defineStep, fieldList } from './step.js'

const COMMA = 0x2c
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** The names that are kept in an object; for each what is kept of its value, undefined: all. */
type Kept = Map<string, Kept | undefined>

function keptOf(paths: readonly FieldPath[]): Kept {
  const root: Kept = new Map()
  for (const { segments } of paths) {
    let kept: Kept | undefined = root
    for (const [depth, name] of (segments as readonly string[]).entries()) {
      if (kept.has(name) && kept.get(name) === undefined) break
      const isLast = depth === segments.length - 1
      if (isLast || !kept.has(name)) kept.set(name, isLast ? undefined : new Map())
      kept = kept.get(name)
      if (kept === undefined) break
    }
  }
  return root
}

/** Writes what is kept of objects of JSON. */
class Keeper {
  readonly #root: Kept
  readonly #json = new EventJson()
  readonly #out = new GrowingBytes()
  #isChanged = false

  constructor(paths: readonly FieldPath[]) {
    this.#root = keptOf(paths)
  }

  apply(batch: EventBatch, i: number): void {
    const json = this.#json
    const out = this.#out
    json.read(batch, i)
    out.clear()
    this.#isChanged = false
    this.#object(json.bytes, json.start, json.end, this.#root)
    if (this.#isChanged) batch.changeTo(i, out.bytes.subarray(0, out.length), batch.bytes)
  }

  #object(b: Buffer, start: number, end: number, kept: Kept): void {
    const out = this.#out
    out.addByte(OPEN_OBJECT)
    let isFirst = true
    for (let p = skipSpace(b, start + 1, end); b[p] !== CLOSE_OBJECT; ) {
      const nameStart = p
      p = stringEnd(b, p + 1)
      const name = sawEscape ? JSON.parse(b.toString('utf8', nameStart, p + 1)) : b.toString('utf8', nameStart + 1, p)
      const valueStart = skipSpace(b, skipSpace(b, p + 1, end) + 1, end)
      p = valueEnd(b, valueStart, end)
      const inner = kept.get(name)
      if (!kept.has(name) || (inner && b[valueStart] !== OPEN_OBJECT)) this.#isChanged = true
      else {
        if (!isFirst) out.addByte(COMMA)
        isFirst = false
        out.add(b, nameStart, inner ? valueStart : p)
        if (inner) this.#object(b, valueStart, p, inner)
      }
      p = skipSpace(b, p, end)
      if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
    }
    out.addByte(CLOSE_OBJECT)
  }
}

const isName = (segment: Segment) => typeof segment === 'string'

export const keep = defineStep({
  name: 'keep',
  schema: fieldList()
    .refine(paths => paths.every(({ segments }) => segments.every(isName)), {
      error: 'takes names of fields, and no items of arrays such as [0]',
    })
    .describe('Removes all fields but these, as in `[.a, .b.c]`.'),
  operations: paths => [
    {
      reads: 'all',
      writes: [],
      needs: [],
      compile() {
        const keeper = new Keeper(paths)
        return (batch, i) => {
          keeper.apply(batch, i)
          return undefined
        }
      },
    },
  ],
})
