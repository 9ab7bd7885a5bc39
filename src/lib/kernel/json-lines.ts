import { SLOT, type WantedNames } from '../formats/json-scan.js'
import { AHEAD, type LineMemory, type Lines } from './line-memory.js'

/** Masks of flags: those that mark lines to skip, those that mark a line end, and those that a scan sets. */
export interface ScanFlags {
  readonly skipped: number
  readonly ended: number
  readonly scanned: number
  readonly decoded: number
}

export interface JsonExports {
  setCopy(address: number, bytes: number): void
  setNames(table: number, count: number, bits: number): void
  scanLines(
    length: number,
    starts: number,
    ends: number,
    flags: number,
    out: number,
    shift: number,
    skipped: number,
    ended: number,
    scanned: number,
    decoded: number,
  ): number
}

/** Up to this length, the kernel scans lines with no line end. */
const COPY_BYTES = 256 * 1024
const NAMES_BYTES = 16 * 1024
const NAME_SIZE = 24

export class JsonLines {
  readonly #code: JsonExports
  readonly #memory: LineMemory
  readonly #names: number
  #wanted: WantedNames | undefined
  #version = -1
  #fits = false

  constructor(code: JsonExports, memory: LineMemory) {
    this.#code = code
    this.#memory = memory
    this.#names = memory.take(NAMES_BYTES)
    code.setCopy(memory.take(COPY_BYTES + AHEAD), COPY_BYTES)
  }

  /**
   * Scans lines of valid UTF-8 as `scanObject` does, and sets their flags. `out` gets SLOT numbers for each wanted name
   * of each line. Rare lines must be scanned in another way. Clears `by.scanned` in the flags of rare lines, and
   * returns their number. Returns undefined if the kernel cannot scan.
   */
  scan(lines: Lines, wanted: WantedNames, out: Int32Array, by: ScanFlags): number | undefined {
    const { length, flags } = lines
    if (!this.#use(wanted)) return undefined
    const memory = this.#memory
    const stride = wanted.names.length * SLOT
    let undecided = 0
    for (let from = 0; from < length; ) {
      const to = memory.put(lines, from, stride)
      if (to === from) {
        undecided++
        flags[from++]! &= ~by.scanned
        continue
      }
      undecided += this.#code.scanLines(
        to - from,
        memory.starts.byteOffset,
        memory.ends.byteOffset,
        memory.flags.byteOffset,
        memory.slots.byteOffset,
        memory.shift(lines, from),
        by.skipped,
        by.ended,
        by.scanned,
        by.decoded,
      )
      flags.set(memory.flags.subarray(0, to - from), from)
      if (stride > 0) out.set(memory.slots.subarray(0, (to - from) * stride), from * stride)
      from = to
    }
    return undecided
  }

  /** Writes the table of names if they have changed. Returns false if there are too many. */
  #use(wanted: WantedNames): boolean {
    if (this.#wanted === wanted && this.#version === wanted.version) return this.#fits
    this.#wanted = wanted
    this.#version = wanted.version
    const { bytes, view } = this.#memory
    const table = this.#names
    let text = table + wanted.bytes.length * NAME_SIZE
    const needed = wanted.bytes.reduce((sum, { length }) => sum + length, text)
    // The kernel reads 8 bytes of every name, even if the name is shorter.
    this.#fits = needed + 8 <= table + NAMES_BYTES
    if (!this.#fits) return false
    for (const [slot, name] of wanted.bytes.entries()) {
      const at = table + slot * NAME_SIZE
      const first = new Uint8Array(8)
      first.set(name.subarray(0, 8))
      view.setUint32(at, name.length, true)
      view.setUint32(at + 4, text, true)
      bytes.set(first, at + 8)
      bytes.set(new Uint8Array(8).fill(0xff, 0, Math.min(8, name.length)), at + 16)
      bytes.set(name, text)
      text += name.length
    }
    this.#code.setNames(table, wanted.bytes.length, wanted.lengths)
    return true
  }
}
