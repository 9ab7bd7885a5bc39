import { readFileSync } from 'node:fs'
import type { WantedNames } from '../lib/formats/json-scan.js'
import { SLOT } from '../lib/formats/json-scan.js'
import { chunkMemory, type FixedMemory, isInChunkMemory, OWN_BYTES } from '../lib/lines/chunk-memory.js'

/**
 * Runs what costs most for each byte in WebAssembly with SIMD. Lines are scanned where they are if their chunk is in the
 * memory that it shares with the pool of chunks, and are copied there in groups otherwise. The code is in `assembly/`.
 * Calls never yield, so one instance serves the whole process.
 */

/** Lines as ranges of a chunk, as in an EventBatch. */
export interface Lines {
  readonly chunk: Buffer
  readonly length: number
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly flags: Uint8Array
}

/** What flags mean: those of lines that are not scanned, of lines with a line end, and those that a scan sets. */
export interface ScanFlags {
  readonly skipped: number
  readonly ended: number
  readonly scanned: number
  readonly decoded: number
}

/** The part of the global that is used here; its types come with those of a browser. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
}

interface Exports {
  readonly base: { readonly value: number }
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

/** Bytes of lines, and lines, that are scanned at a time. A longer line is not scanned here. */
const TEXT_BYTES = 512 * 1024
const MOST_LINES = 4096
/** The longest line without a line end that is scanned here. */
const COPY_BYTES = 256 * 1024
/** Bytes for the slots of a group of lines, and for the wanted names. */
const OUT_BYTES = 512 * 1024
const NAMES_BYTES = 16 * 1024
const NAME_SIZE = 24
/** The kernel reads ahead of the end of a line. */
const AHEAD = 64

class Kernel {
  readonly #code: Exports
  readonly #bytes: Uint8Array
  readonly #view: DataView
  readonly #names: number
  readonly #text: number
  readonly #starts: Int32Array
  readonly #ends: Int32Array
  readonly #flags: Uint8Array
  readonly #out: Int32Array
  #wanted: WantedNames | undefined
  #version = -1
  #fits = false

  constructor(code: Exports, { buffer }: FixedMemory) {
    let at = (code.base.value + 15) & ~15
    const take = (bytes: number) => {
      at += bytes
      return at - bytes
    }
    this.#code = code
    this.#bytes = new Uint8Array(buffer)
    this.#view = new DataView(buffer)
    this.#names = take(NAMES_BYTES)
    this.#starts = new Int32Array(buffer, take(MOST_LINES * 4), MOST_LINES)
    this.#ends = new Int32Array(buffer, take(MOST_LINES * 4), MOST_LINES)
    this.#flags = new Uint8Array(buffer, take(MOST_LINES), MOST_LINES)
    this.#out = new Int32Array(buffer, take(OUT_BYTES), OUT_BYTES / 4)
    this.#text = take(TEXT_BYTES + AHEAD)
    code.setCopy(take(COPY_BYTES + AHEAD), COPY_BYTES)
    if (at > OWN_BYTES) throw new Error('the memory of the kernel is too small')
  }

  /**
   * Scans lines of valid UTF-8 as `scanObject` does, and sets their flags. `out` gets SLOT numbers for each wanted name
   * of each line. Returns how many lines, which are rare, must be scanned in another way: it removes `by.scanned` from
   * their flags. Undefined: it scanned none.
   */
  scan(lines: Lines, wanted: WantedNames, out: Int32Array, by: ScanFlags): number | undefined {
    const { chunk, length, starts, ends, flags } = lines
    if (!this.#use(wanted)) return undefined
    const stride = wanted.names.length * SLOT
    const most = stride === 0 ? MOST_LINES : Math.min(MOST_LINES, Math.floor(this.#out.length / stride))
    const isHere = isInChunkMemory(chunk)
    let undecided = 0
    for (let from = 0; from < length; ) {
      const to = isHere ? Math.min(length, from + most) : this.#copy(from, Math.min(length, from + most), lines)
      if (to === from) {
        undecided++
        flags[from++]! &= ~by.scanned
        continue
      }
      this.#starts.set(starts.subarray(from, to))
      this.#ends.set(ends.subarray(from, to))
      this.#flags.set(flags.subarray(from, to))
      undecided += this.#code.scanLines(
        to - from,
        this.#starts.byteOffset,
        this.#ends.byteOffset,
        this.#flags.byteOffset,
        this.#out.byteOffset,
        isHere ? -chunk.byteOffset : starts[from]! - this.#text,
        by.skipped,
        by.ended,
        by.scanned,
        by.decoded,
      )
      flags.set(this.#flags.subarray(0, to - from), from)
      if (stride > 0) out.set(this.#out.subarray(0, (to - from) * stride), from * stride)
      from = to
    }
    return undecided
  }

  /** Copies the lines from `from` on, at most up to `to`, that fit into the memory. Returns where they end. */
  #copy(from: number, to: number, { chunk, starts, ends }: Lines): number {
    const begin = starts[from]!
    let until = from
    while (until < to && ends[until]! - begin < TEXT_BYTES) until++
    // With the byte after the last line, which is part of its line end.
    if (until > from) this.#bytes.set(chunk.subarray(begin, ends[until - 1]! + 1), this.#text)
    return until
  }

  /** Writes the table of names, if they changed; false if there are too many of them. */
  #use(wanted: WantedNames): boolean {
    if (this.#wanted === wanted && this.#version === wanted.version) return this.#fits
    this.#wanted = wanted
    this.#version = wanted.version
    const table = this.#names
    let text = table + wanted.bytes.length * NAME_SIZE
    const needed = wanted.bytes.reduce((sum, { length }) => sum + length, text)
    // Names are compared by their first 8 bytes, which are read whatever their length.
    this.#fits = needed + 8 <= table + NAMES_BYTES
    if (!this.#fits) return false
    for (const [slot, name] of wanted.bytes.entries()) {
      const at = table + slot * NAME_SIZE
      const first = new Uint8Array(8)
      first.set(name.subarray(0, 8))
      this.#view.setUint32(at, name.length, true)
      this.#view.setUint32(at + 4, text, true)
      this.#bytes.set(first, at + 8)
      this.#bytes.set(new Uint8Array(8).fill(0xff, 0, Math.min(8, name.length)), at + 16)
      this.#bytes.set(name, text)
      text += name.length
    }
    this.#code.setNames(table, wanted.bytes.length, wanted.lengths)
    return true
  }
}

let kernel: Kernel | undefined
let isLoaded = false

/** The kernel; undefined where WebAssembly with SIMD cannot run, as with `node --jitless`. */
export function theKernel(): Kernel | undefined {
  if (isLoaded) return kernel
  isLoaded = true
  try {
    const memory = chunkMemory()!
    const module = new WebAssembly.Module(readFileSync(new URL('./kernel.wasm', import.meta.url)))
    kernel = new Kernel(new WebAssembly.Instance(module, { env: { memory } }).exports as Exports, memory)
  } catch {
    kernel = undefined
  }
  return kernel
}
