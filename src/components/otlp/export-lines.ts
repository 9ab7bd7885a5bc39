import { NotProtobuf } from '../../core/codecs/protobuf/protobuf-wire.js'
import { COMMA, OPEN_OBJECT } from '../../lib/formats/ascii.js'
import { GrowingBytes } from '../../lib/formats/growing-bytes.js'
import { makeValid } from '../../lib/lines/framed-splitter.js'
import { splitLines } from '../../lib/lines/line-splitter.js'
import { type EventPortion, PORTION_BYTES } from '../../net/http/events/frames.js'

/** The lines of a request may have this many times its bytes, because each line repeats its resource and scope. */
const MOST_GROWTH = 64
const LITTLE_GROWTH = 1024 * 1024

/** The members that end the line of each record with the same resource and scope. */
export type ExportScope = Buffer

/** Collects the records of a request as lines of JSON. Refuses single records, and says why. */
export class ExportLines {
  readonly json = new GrowingBytes(PORTION_BYTES)
  refused = 0
  /** Why the first of the refused records was refused. */
  why = ''
  readonly #peer: string
  readonly #maxLineBytes: number
  #room: number

  /** `size`: the bytes of the request. */
  constructor(size: number, peer: string | undefined, maxLineBytes: number) {
    this.#room = size * MOST_GROWTH + LITTLE_GROWTH
    this.#peer = peer === undefined ? '' : `,"peer":${JSON.stringify(peer)}`
    this.#maxLineBytes = maxLineBytes
  }

  get isFull(): boolean {
    return this.json.length >= PORTION_BYTES
  }

  scope(resource: string | undefined, scope: string | undefined): ExportScope {
    const ofResource = resource === undefined ? '' : `,"resource":${resource}`
    const ofScope = scope === undefined ? '' : `,"scope":${scope}`
    return Buffer.from(`${ofResource}${ofScope}${this.#peer}}\n`)
  }

  /** Adds a record. `write` adds its members to `json`, or throws NotProtobuf. */
  add(scope: ExportScope, write: () => void): void {
    const before = this.json.length
    const why = this.#room < scope.length ? REPEATED : this.#write(scope, write)
    const size = this.json.length - before
    if (why !== undefined) this.#refuse(before, why)
    else if (size - 1 > this.#maxLineBytes)
      this.#refuse(before, `a record has more than ${this.#maxLineBytes} bytes as JSON`)
    else this.#room -= size
  }

  /** Returns why the record cannot be read; undefined: it was written. */
  #write(scope: ExportScope, write: () => void): string | undefined {
    const { json } = this
    json.addByte(OPEN_OBJECT)
    const from = json.length
    try {
      write()
    } catch (error) {
      if (!(error instanceof NotProtobuf)) throw error
      return 'a record is not valid, or has more than 32 levels'
    }
    const hasMembers = json.length > from || scope[0] !== COMMA
    json.add(scope, hasMembers ? 0 : 1, scope.length)
    return undefined
  }

  #refuse(before: number, why: string): void {
    this.json.length = before
    if (this.refused++ === 0) this.why = why
  }

  /** Takes the lines so far. */
  portion(): EventPortion | undefined {
    const { json } = this
    if (json.length === 0) return undefined
    makeValid(json)
    const frame = splitLines(json.bytes.subarray(0, json.length))
    json.clear()
    return frame && { frame, pieces: 0 }
  }
}

const REPEATED = 'the attributes of a resource are too large to be repeated for each of its records'
