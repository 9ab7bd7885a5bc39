import { readFileSync } from 'node:fs'
import { chunkMemory } from '../lines/chunk-memory.js'
import { type JsonExports, JsonLines } from './json-lines.js'
import { type LineEndExports, LineEnds } from './line-ends.js'
import { LineMemory } from './line-memory.js'
import { type StringExports, Strings } from './strings.js'

/**
 * WebAssembly code with SIMD for the work that costs most per byte. The code is in `assembly/`, here and in the folders of formats. It reads lines in place
 * if their chunk is in the memory that the kernel shares with the pool of chunks. Other lines are copied there in
 * groups. Calls never yield, so one instance is enough for the process.
 */

/** Declares only the parts in use, because TypeScript's own declaration comes with all types of a browser. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (module: object, imports: object) => { readonly exports: unknown }
}

type Exports = JsonExports & LineEndExports & StringExports & { readonly base: { readonly value: number } }

/** A part of the kernel for one format. Its code is in the folder of the format. */
type Part<T> = new (code: never, memory: LineMemory) => T

export interface Kernel {
  readonly json: JsonLines
  readonly lines: LineEnds
  readonly strings: Strings
  /** The only instance of a part. */
  part<T>(Part: Part<T>): T
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
      lines: new LineEnds(code, memory),
      strings: new Strings(code, memory),
      part: made(Part => new Part(code as never, memory)),
    }
  } catch {
    kernel = undefined
  }
  return kernel
}

function made(make: (Part: Part<unknown>) => unknown): Kernel['part'] {
  const parts = new Map<Part<unknown>, unknown>()
  return <T>(Part: Part<T>) => {
    if (!parts.has(Part)) parts.set(Part, make(Part))
    return parts.get(Part) as T
  }
}
