import { findLinesInKernel } from '../../src/lib/kernel/find-lines.js'
import { type FindLines, type Frame, LineSplitter } from '../../src/lib/lines/line-splitter.js'
import { Seeded } from './seeded.js'

/** The lines that the kernel finds, held to those that JavaScript finds in the same portions. */

const READ_BYTES = 256 * 1024
const ENDS = ['\n', '\n', '\n', '\n', '\r\n', '\r', '\r\r\n', '\n\n', '\n\r\n', 'ü\n', '\u008a\n']
const CR = 0x0d
const LONGEST = [0, 1, 3, 20, 63, 64, 65, 200, 400]

export interface LineDifferences {
  readonly wrong: readonly string[]
  /** Portions whose lines the kernel found, and those that it left to JavaScript. */
  readonly found: number
  readonly left: number
}

/** Splits so many generated texts in both ways, each in six portions. Stops after 20 differences. */
export function lineDifferences(seed: number, texts: number): LineDifferences {
  const random = new Seeded(seed)
  const wrong: string[] = []
  let found = 0
  let left = 0
  const find: FindLines = (...place) => {
    const lines = findLinesInKernel(...place)
    if (lines) found++
    else left++
    return lines
  }
  for (let text = 0; text < texts && wrong.length < 20; text++) {
    const maxLineBytes = random.pick([4, 70, 300, 1 << 20, 1 << 20, 1 << 20])
    const continues = random.chance(0.2)
    const both = [new LineSplitter(maxLineBytes, continues, find), new LineSplitter(maxLineBytes, continues)] as const
    const portion = random.pick([1500, 5000, 60_000, READ_BYTES])
    for (let part = 0; part < 6; part++) {
      const bytes = textOf(random, 1 + random.below(portion))
      const [mine, theirs] = both.map(splitter => splitter.commit(bytes.copy(splitter.reserve(READ_BYTES))))
      const what = () => `${bytes.length} bytes, lines of at most ${maxLineBytes}, part ${part} of text ${text}`
      if (shown(mine) !== shown(theirs)) wrong.push(`${what()}: other lines`)
      for (const name of ['pending', 'continues', 'pieces'] as const)
        if (both[0][name] !== both[1][name]) wrong.push(`${what()}: ${name} ${both[0][name]}, not ${both[1][name]}`)
      const [end, expected] = random.chance(0.2) ? both.map(splitter => splitter.flush()) : []
      if (shown(end) !== shown(expected)) wrong.push(`${what()}: ${shown(end)}, not ${shown(expected)} at the end`)
      for (const frame of [mine, theirs, end, expected]) frame?.release?.()
    }
    for (const splitter of both) splitter.release()
  }
  return { wrong, found, left }
}

function textOf(random: Seeded, bytes: number): Buffer {
  const longest = random.pick(LONGEST)
  const ends = random.chance(0.5) ? ['\n'] : ENDS
  // What was flushed behind a CR goes on with this LF.
  let text = random.chance(0.5) ? '\n' : ''
  while (text.length < bytes) text += 'x'.repeat(random.below(longest + 1)) + random.pick(ends)
  const portion = Buffer.from(random.chance(0.1) ? text.replaceAll('\n', 'x') : text).subarray(0, bytes)
  if (random.chance(0.5)) portion[bytes - 1] = CR
  return portion
}

function shown(frame: Frame | undefined): string {
  if (!frame) return 'none'
  const { chunk, length, starts, ends, flags, bytes } = frame
  const text = chunk.toString('latin1', starts[0], ends[length - 1])
  return JSON.stringify({ length, bytes, starts: [...starts], ends: [...ends], flags: [...flags], text })
}
