import { isInChunkMemory } from '../lines/chunk-memory.js'
import type { FindLines } from '../lines/line-splitter.js'
import { theKernel } from './kernel.js'

/** A shorter portion is searched as fast in JavaScript. */
const LEAST_BYTES = 1024

/** Finds lines in the kernel, where that can see them and is worth its call. */
export const findLines: FindLines = (chunk, start, from, end, longest) =>
  end - from >= LEAST_BYTES && isInChunkMemory(chunk)
    ? theKernel()?.lines.find(chunk, start, from, end, longest)
    : undefined
