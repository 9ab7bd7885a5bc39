import type { EventBatch } from '../../../core/event/batch.js'
import { EventJson } from '../../../core/event/event-json.js'
import type { FieldPath, PathSegment } from '../../../core/event/field-path.js'
import { CLOSE_OBJECT, COMMA, OPEN_OBJECT } from '../../../lib/formats/ascii.js'
import { sawEscape, skipSpace, slotOf, stringEnd, valueEnd, WantedNames } from '../../../lib/formats/json-scan.js'
import { writeBytes } from '../../../lib/formats/json-string.js'
import { defineStep, fieldList } from './step.js'

/** The names to keep in an object. `inner`, at a name's slot: the part of the value to keep; undefined: all. */
class KeptFields {
  readonly names = new WantedNames()
  readonly inner: (KeptFields | undefined)[] = []

  add(path: readonly string[]): void {
    const [name, ...rest] = path
    const isNew = !this.names.names.includes(name!)
    const slot = this.names.slot(name!)
    if (rest.length === 0) this.inner[slot] = undefined
    else if (isNew) this.inner[slot] = new KeptFields()
    if (rest.length > 0) this.inner[slot]?.add(rest)
  }
}

class Keeper {
  readonly #root = new KeptFields()
  readonly #json = new EventJson()
  #to: Buffer = Buffer.alloc(0)
  #at = 0
  #isChanged = false

  constructor(paths: readonly FieldPath[]) {
    for (const { segments } of paths) this.#root.add(segments as readonly string[])
  }

  apply(batch: EventBatch, i: number): void {
    this.#json.read(batch, i)
    const { bytes, start, end } = this.#json
    const texts = batch.textsToChange()
    const from = texts.reserve(end - start, batch.bytes)
    this.#to = texts.bytes
    this.#at = from
    this.#isChanged = false
    this.#object(bytes, start, end, this.#root)
    if (!this.#isChanged) return
    texts.end(this.#at)
    batch.setText(i, from, this.#at)
  }

  #object(b: Buffer, start: number, end: number, { names, inner }: KeptFields): void {
    this.#to[this.#at++] = OPEN_OBJECT
    let isFirst = true
    for (let p = skipSpace(b, start + 1, end); b[p] !== CLOSE_OBJECT; ) {
      const nameStart = p
      p = stringEnd(b, p + 1)
      const slot = sawEscape
        ? names.names.indexOf(JSON.parse(b.toString('utf8', nameStart, p + 1)))
        : slotOf(b, nameStart + 1, p, names)
      const valueStart = skipSpace(b, skipSpace(b, p + 1, end) + 1, end)
      p = valueEnd(b, valueStart, end)
      const kept = slot >= 0 ? inner[slot] : undefined
      if (slot < 0 || (kept && b[valueStart] !== OPEN_OBJECT)) this.#isChanged = true
      else {
        if (!isFirst) this.#to[this.#at++] = COMMA
        isFirst = false
        this.#at = writeBytes(b, nameStart, kept ? valueStart : p, this.#to, this.#at)
        if (kept) this.#object(b, valueStart, p, kept)
      }
      p = skipSpace(b, p, end)
      if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
    }
    this.#to[this.#at++] = CLOSE_OBJECT
  }
}

const isName = (segment: PathSegment) => typeof segment === 'string'

export const keep = defineStep({
  name: 'keep',
  schema: fieldList()
    .refine(paths => paths.every(({ segments }) => segments.every(isName)), {
      error: 'must name fields, not items of arrays such as [0]',
    })
    .describe('Removes all fields except these, as in `[.a, .b.c]`.'),
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
