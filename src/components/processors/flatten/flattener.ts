import type { Processor } from '../../../core/component.js'
import type { EventBatch } from '../../../core/event/batch.js'
import { EventJson } from '../../../core/event/event-json.js'
import { Growth, mostOf } from '../../../core/event/growth.js'
import { type BatchScope, FAILED } from '../../../core/processor.js'
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from '../../../lib/formats/ascii.js'
import { GrowingBytes } from '../../../lib/formats/growing-bytes.js'
import { addUnique } from '../../../lib/formats/json-members.js'
import { skipSpace, stringEnd, valueEnd } from '../../../lib/formats/json-scan.js'
import { mayHold, Nester } from './nester.js'
import type { FlattenOptions } from './options.js'

/** Moves the fields of nested objects to the top level. Their new names are their paths. */
export class Flattener {
  readonly #separator: Buffer
  readonly #maxDepth: number
  readonly #indexesArrays: boolean
  readonly #out = new GrowingBytes()
  readonly #unique = new GrowingBytes()
  /** The path of the current value: names and separators, with escapes as in a JSON string. */
  readonly #path = new GrowingBytes()
  #most = 0
  /** [#start, #plainEnd) has the fields before the first field that changes. These fields are copied unchanged. */
  #start = 0
  #plainEnd = 0
  #isChanged = false
  /** Whether two paths may be equal, because a name has an escape or the separator. */
  #mayCollide = false

  constructor(separator: string, maxDepth: number, indexesArrays: boolean) {
    this.#separator = Buffer.from(JSON.stringify(separator).slice(1, -1))
    this.#maxDepth = maxDepth
    this.#indexesArrays = indexesArrays
  }

  /**
   * Flattens the valid JSON object [start, end). Returns undefined if nothing in the object changes. The result is
   * valid until the next call. A result that exceeds the event's maximum size (`mostOf`) can be incomplete.
   */
  write(b: Buffer, start: number, end: number): GrowingBytes | undefined {
    this.#out.clear()
    this.#path.clear()
    this.#most = mostOf(end - start)
    this.#isChanged = false
    this.#mayCollide = false
    this.#start = start
    this.#plainEnd = start + 1
    this.#addObject(b, start, end, 1)
    if (!this.#isChanged) return undefined
    if (this.#out.length > this.#most) return this.#out
    this.#out.addByte(CLOSE_OBJECT)
    if (!this.#mayCollide) return this.#out
    this.#unique.clear()
    addUnique(this.#unique, this.#out.bytes, 0, this.#out.length)
    return this.#unique
  }

  /** Adds the fields of the object at `start`. Returns the end of the object. */
  #addObject(b: Buffer, start: number, limit: number, depth: number): number {
    let p = skipSpace(b, start + 1, limit)
    while (b[p] !== CLOSE_OBJECT && this.#out.length <= this.#most) {
      const nameStart = p + 1
      const nameEnd = stringEnd(b, nameStart)
      if (!this.#mayCollide) this.#mayCollide = mayHold(b, nameStart, nameEnd, this.#separator)
      const before = this.#path.length
      this.#path.add(b, nameStart, nameEnd)
      p = this.#addValue(b, skipSpace(b, skipSpace(b, nameEnd + 1, limit) + 1, limit), limit, depth)
      this.#path.length = before
      p = this.#next(b, p, limit)
    }
    return p + 1
  }

  #addArray(b: Buffer, start: number, limit: number, depth: number): number {
    let p = skipSpace(b, start + 1, limit)
    for (let n = 0; b[p] !== CLOSE_ARRAY && this.#out.length <= this.#most; n++) {
      const before = this.#path.length
      this.#path.addText(String(n))
      p = this.#addValue(b, p, limit, depth)
      this.#path.length = before
      p = this.#next(b, p, limit)
    }
    return p + 1
  }

  /** Returns the position of the next name or value, or of the closing bracket. */
  #next(b: Buffer, end: number, limit: number): number {
    const p = skipSpace(b, end, limit)
    return b[p] === COMMA ? skipSpace(b, p + 1, limit) : p
  }

  /** Adds the value at `start`, which has the current path. Returns the end of the value. */
  #addValue(b: Buffer, start: number, limit: number, depth: number): number {
    const path = this.#path
    const out = this.#out
    if (depth < this.#maxDepth && this.#isNested(b, start, limit)) {
      if (!this.#isChanged) out.add(b, this.#start, this.#plainEnd)
      this.#isChanged = true
      path.add(this.#separator, 0, this.#separator.length)
      if (b[start] === OPEN_OBJECT) return this.#addObject(b, start, limit, depth + 1)
      return this.#addArray(b, start, limit, depth + 1)
    }
    const end = valueEnd(b, start, limit)
    if (!this.#isChanged) this.#plainEnd = end
    else {
      if (out.length > 1) out.addByte(COMMA)
      out.addByte(QUOTE)
      out.add(path.bytes, 0, path.length)
      out.addByte(QUOTE)
      out.addByte(COLON)
      out.add(b, start, end)
    }
    return end
  }

  /** Whether the value is a non-empty object, or a non-empty array to flatten. */
  #isNested(b: Buffer, start: number, end: number): boolean {
    if (b[start] === OPEN_OBJECT) return b[skipSpace(b, start + 1, end)] !== CLOSE_OBJECT
    return this.#indexesArrays && b[start] === OPEN_ARRAY && b[skipSpace(b, start + 1, end)] !== CLOSE_ARRAY
  }
}

const ROOM_MIB = 8

export class Flatten implements Processor {
  readonly #writer: Flattener | Nester
  readonly #json = new EventJson()
  readonly #growth = new Growth(ROOM_MIB)

  constructor({ mode, separator, arrays = 'keep', max_depth }: FlattenOptions) {
    this.#writer =
      mode === 'nest' ? new Nester(separator, max_depth) : new Flattener(separator, max_depth, arrays === 'index')
  }

  process(batch: EventBatch, to: Uint8Array, scope: BatchScope): void {
    const json = this.#json
    this.#growth.begin()
    for (let i = 0; i < batch.length; i++) {
      json.read(batch, i)
      const written = this.#writer.write(json.bytes, json.start, json.end)
      if (!written) continue
      const problem = this.#growth.refuse(json.end - json.start, written.length)
      if (problem !== undefined) {
        to[i] = FAILED
        scope.because(i, problem)
      } else batch.changeTo(i, written.bytes.subarray(0, written.length), batch.bytes)
    }
  }
}
