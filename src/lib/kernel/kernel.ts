import { readFileSync } from 'node:fs'
import { chunkMemory } from '../lines/chunk-memory.js'
import { type FieldExports, FieldLines } from './field-lines.js'
import { type JsonExports, JsonLines } from './json-lines.js'
import { type LineEndExports, LineEnds } from './line-ends.js'
import { LineMemory } from './line-memory.js'
import { type RecordExports, RecordLines } from './log-records.js'
import { type StringExports, Strings } from './strings.js'

/**
 * WebAssembly code with SIMD for the work that costs most per byte. The code is in `assembly/`. It reads lines in place
 * if their chunk is in the memory that the kernel shares with the pool of chunks. Other lines are copied there in
 * groups. Calls never yield, so one instance is enough for the process.
 */

/** Declares only the parts in use, because TypeScript's own declaration comes with all types of a browser. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
}

type Exports = JsonExports &
  FieldExports &
  LineEndExports &
  RecordExports &
  StringExports & { readonly base: { readonly value: number } }

export interface Kernel {
  readonly json: JsonLines
  readonly fields: FieldLines
  readonly lines: LineEnds
  readonly records: RecordLines
  readonly strings: Strings
}

let kernel: Kernel | undefined
let isLoaded = false

/** Returns the kernel; undefined if WebAssembly with SIMD cannot run, for example with `node --jitless`. */
export function theKernel(): Kernel | undefined {
  if (isLoaded) return kernel
  isLoaded = true
  try {
    const shared = chunkMemory()!
    const module = new WebAssembly.Module(readFileSync(new URL('./kernel.wasm', import.meta.url)))
    const code = new WebAssembly.Instance(module, { env: { memory: shared } }).exports as Exports
    const memory = new LineMemory(code.base.value, shared)
    kernel = {
      json: new JsonLines(code, memory),
      fields: new FieldLines(code, memory),
      lines: new LineEnds(code, memory),
      records: new RecordLines(code, memory),
      strings: new Strings(code, memory),
    }
  } catch {
    kernel = undefined
  }
  return kernel
}
