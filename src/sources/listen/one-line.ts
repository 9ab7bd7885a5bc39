import { objectEnd } from '../../lib/json-scan.js'

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20

/** Makes valid JSON fit in a line, in place: line ends in it stand between values only. Returns how many LFs it had. */
export function flatten(json: Buffer, start: number, end: number): number {
  let lines = 0
  for (let p = start; p < end; p++) {
    if (json[p] === LF) lines++
    if (json[p] === LF || json[p] === CR) json[p] = SPACE
  }
  return lines
}

/** The same for [start, end), when it is a JSON object. A control character must stand at `end`. */
export function flattenObject(chunk: Buffer, start: number, end: number): void {
  if (objectEnd(chunk, start, end) === end) flatten(chunk, start, end)
}
