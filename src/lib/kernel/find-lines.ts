import { isInChunkMemory } from '../lines/chunk-memory.js'
import type { FindLines } from '../lines/line-splitter.js'
import { theKernel } from './kernel.js'

/** For shorter portions, JavaScript is as fast. */
const LEAST_BYTES = 1024

/** Finds lines in the kernel, if it can read the chunk and the call is worthwhile. */
export const findLinesInKernel: FindLines = (chunk, start, from, end, longest) =>
  end - from >= LEAST_BYTES && isInChunkMemory(chunk)
    ? theKernel()?.lines.find(chunk, start, from, end, longest)
    : undefined
