import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'

/** Files of JSON lines for the curves. The same arguments give the same bytes. */

const BLOCK_BYTES = 4 * 1024 * 1024

/** What the lines of a curve differ in. */
export interface LineShape {
  /** Bytes of a line with its line end, at least 50; default: about 220, with nine fields. */
  readonly length?: number
  /** Different values of `.app`; default: 1,000. */
  readonly keys?: number
}

/** A number in [0, below) for each `i`, in no visible order. */
function scattered(i: number, below: number): number {
  let x = Math.imul(i ^ 0x2545f491, 0x9e3779b1)
  x = Math.imul(x ^ (x >>> 15), 0x85ebca6b)
  return ((x ^ (x >>> 13)) >>> 0) % below
}

function line(i: number, { length, keys = 1000 }: LineShape): string {
  const app = `app-${String(scattered(i, keys)).padStart(7, '0')}`
  if (length !== undefined && length < 200) return pad(`{"app":"${app}","n":${i % 1000}`, length)
  const text = `{"timestamp":"2026-01-01T00:00:00.000Z","level":"info","host":"web-${i % 50}","app":"${app}","method":"GET","path":"/api/v1/orders/${scattered(i, 1e6)}","status":200,"took_ms":${i % 997}`
  return pad(text, length ?? 220)
}

function pad(text: string, length: number): string {
  const room = length - text.length - ',"message":""}\n'.length
  return room < 0 ? `${text}}\n` : `${text},"message":"${'x'.repeat(room)}"}\n`
}

/** Folders of lines, each of which is written once. */
export class Inputs {
  readonly #parent: string
  readonly #made = new Map<string, { readonly folder: string; readonly bytes: number }>()

  constructor(parent: string) {
    this.#parent = parent
  }

  /** `lines` lines in `files` files, with their total size in bytes. */
  of(files: number, lines: number, shape: LineShape = {}): { readonly folder: string; readonly bytes: number } {
    const key = JSON.stringify([files, lines, shape])
    let made = this.#made.get(key)
    if (!made) {
      const folder = join(this.#parent, `in-${this.#made.size}`)
      made = { folder, bytes: writeLines(folder, files, lines, shape) }
      this.#made.set(key, made)
    }
    return made
  }
}

/** Writes `lines` lines into `files` files of a new folder. Returns their total size in bytes. */
function writeLines(folder: string, files: number, lines: number, shape: LineShape): number {
  mkdirSync(folder)
  let bytes = 0
  let at = 0
  for (let file = 0; file < files; file++) {
    const end = Math.floor((lines * (file + 1)) / files)
    const descriptor = openSync(join(folder, `${file}.log`), 'w')
    const flush = (text: string) => {
      bytes += writeSync(descriptor, text)
    }
    let block = ''
    for (; at < end; at++) {
      block += line(at, shape)
      if (block.length < BLOCK_BYTES) continue
      flush(block)
      block = ''
    }
    flush(block)
    closeSync(descriptor)
  }
  return bytes
}
