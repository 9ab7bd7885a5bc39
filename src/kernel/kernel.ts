import { readFileSync } from 'node:fs'
import type { WantedNames } from '../lib/formats/json-scan.js'
import { SLOT } from '../lib/formats/json-scan.js'

/**
 * Runs what costs most for each byte in WebAssembly with SIMD: lines are copied into the memory of the kernel in groups,
 * scanned there, and the columns are copied back. The code is in `assembly/`. Calls never yield, so one instance serves
 * the whole process.
 */

/** Lines as ranges of a chunk, as in an EventBatch. */
export interface Lines {
  readonly chunk: Buffer
  readonly length: number
  readonly starts: Int32Array
  readonly ends: Int32Array
  readonly flags: Uint8Array
}

/** What flags mean: those of lines that are not scanned, and those that a scan sets. */
export interface ScanFlags {
  readonly skipped: number
  readonly scanned: number
  readonly decoded: number
}

/** The part of the global that is used here; its types come with those of a browser. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object) => { readonly exports: unknown }
}

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer }
  readonly base: { readonly value: number }
  setNames(table: number, count: number, bits: number): void
  scanLines(
    length: number,
    starts: number,
    ends: number,
    flags: number,
    out: number,
    shift: number,
    skipped: number,
    scanned: number,
    decoded: number,
  ): number
}

/** Bytes of lines, and lines, that are scanned at a time. A longer line is not scanned here. */
const TEXT_BYTES = 512 * 1024
const MOST_LINES = 4096
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

  constructor(code: Exports) {
    const { buffer } = code.memory
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
    if (at > buffer.byteLength) throw new Error('the memory of the kernel is too small')
  }

  /**
   * Scans lines of valid UTF-8 as `scanObject` does, and sets their flags. `out` gets SLOT numbers for each wanted name
   * of each line. Returns how many lines, which are rare, must be scanned in another way: it removes `by.scanned` from
   * their flags. Undefined: it scanned none.
   */
  scan(
    { chunk, length, starts, ends, flags }: Lines,
    wanted: WantedNames,
    out: Int32Array,
    by: ScanFlags,
  ): number | undefined {
    if (!this.#use(wanted)) return undefined
    const stride = wanted.names.length * SLOT
    const most = stride === 0 ? MOST_LINES : Math.min(MOST_LINES, Math.floor(this.#out.length / stride))
    let undecided = 0
    for (let from = 0; from < length; ) {
      const begin = starts[from]!
      let to = from
      while (to < length && to - from < most && ends[to]! - begin < TEXT_BYTES) to++
      if (to === from) {
        undecided++
        flags[from++]! &= ~by.scanned
        continue
      }
      // With the byte after the last line, which is part of its line end.
      const end = Math.min(ends[to - 1]! + 1, chunk.length)
      this.#bytes.set(chunk.subarray(begin, end), this.#text)
      this.#starts.set(starts.subarray(from, to))
      this.#ends.set(ends.subarray(from, to))
      this.#flags.set(flags.subarray(from, to))
      undecided += this.#code.scanLines(
        to - from,
        this.#starts.byteOffset,
        this.#ends.byteOffset,
        this.#flags.byteOffset,
        this.#out.byteOffset,
        begin - this.#text,
        by.skipped,
        by.scanned,
        by.decoded,
      )
      flags.set(this.#flags.subarray(0, to - from), from)
      if (stride > 0) out.set(this.#out.subarray(0, (to - from) * stride), from * stride)
      from = to
    }
    return undecided
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
    const module = new WebAssembly.Module(readFileSync(new URL('./kernel.wasm', import.meta.url)))
    kernel = new Kernel(new WebAssembly.Instance(module).exports as Exports)
  } catch {
    kernel = undefined
  }
  return kernel
}
