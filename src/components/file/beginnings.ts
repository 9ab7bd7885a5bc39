import { crc32 } from 'node:zlib'
import { ALIKE_BYTES, FINGERPRINT_BYTES, type Fingerprint, fingerprint } from './identity.js'
import type { Mark } from './rotation/trail.js'

/** Finds files by their first bytes. The cost depends on the number of different lengths, not on that of the files. */
export class Beginnings<F> {
  readonly #byLength = new Map<number, Map<number, Set<F>>>()
  #lengths: readonly number[] | undefined

  add({ bytes, hash }: Fingerprint, file: F): void {
    let byHash = this.#byLength.get(bytes)
    if (!byHash) {
      this.#byLength.set(bytes, (byHash = new Map()))
      this.#lengths = undefined
    }
    const files = byHash.get(hash)
    if (files) files.add(file)
    else byHash.set(hash, new Set([file]))
  }

  delete({ bytes, hash }: Fingerprint, file: F): void {
    const byHash = this.#byLength.get(bytes)
    const files = byHash?.get(hash)
    if (!files?.delete(file) || files.size > 0) return
    byHash!.delete(hash)
    if (byHash!.size > 0) return
    this.#byLength.delete(bytes)
    this.#lengths = undefined
  }

  /** The files that were added with exactly these bytes. */
  with({ bytes, hash }: Fingerprint): Iterable<F> {
    return this.#byLength.get(bytes)?.get(hash) ?? []
  }

  /** The files whose bytes are the beginning of `first`. */
  *of(first: Buffer): Iterable<F> {
    this.#lengths ??= [...this.#byLength.keys()].sort((a, b) => a - b)
    let hash = 0
    let at = 0
    for (const length of this.#lengths) {
      if (length > first.length) return
      hash = crc32(first.subarray(at, length), hash)
      at = length
      yield* this.with({ bytes: length, hash })
    }
  }
}

/** The beginnings of the files that are read: their known first bytes, and the marks in these bytes. */
export class KnownBeginnings<F> {
  readonly #heads = new Beginnings<F>()
  readonly #marks = new Beginnings<F>()
  readonly #added = new Map<F, { head: Fingerprint; readonly marks: Fingerprint[] }>()

  add(file: F, head: Fingerprint, marks: readonly Mark[]): void {
    this.#added.set(file, { head, marks: [] })
    this.setHead(file, head)
    for (const mark of marks) this.addMark(file, mark)
  }

  setHead(file: F, head: Fingerprint): void {
    const added = this.#added.get(file)
    if (!added) return
    this.#heads.delete(added.head, file)
    added.head = head
    if (head.bytes >= ALIKE_BYTES) this.#heads.add(head, file)
  }

  addMark(file: F, { offset, tail }: Mark): void {
    const added = this.#added.get(file)
    if (!added || offset < ALIKE_BYTES || offset >= FINGERPRINT_BYTES || tail.bytes !== offset) return
    added.marks.push(tail)
    this.#marks.add(tail, file)
  }

  delete(file: F): void {
    const added = this.#added.get(file)
    if (!added) return
    this.#added.delete(file)
    this.#heads.delete(added.head, file)
    for (const mark of added.marks) this.#marks.delete(mark, file)
  }

  /** The files whose known first bytes are the beginning of `first`, or begin with `first`. */
  *like(first: Buffer): Iterable<F> {
    yield* this.#heads.of(first)
    yield* this.#marks.with(fingerprint(first, 0, first.length))
  }
}
