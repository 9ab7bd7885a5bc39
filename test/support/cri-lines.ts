import { damaged } from './access-lines.js'
import type { Seeded } from './seeded.js'

/** Lines of container runtimes, nearly so, or not at all. */

const SECONDS = [
  '2026-01-31T12:00:00',
  '2026-01-31T12:00:01',
  '2024-02-29T23:59:59',
  '2023-02-29T00:00:00',
  '0000-02-29T00:00:00',
]
const STRANGE_SECONDS = [
  '2026-13-01T00:00:00',
  '2026-00-01T00:00:00',
  '2026-04-31T00:00:00',
  '2026-01-31T24:00:00',
  '2026-01-31T12:00:60',
]
const OTHER_SECONDS = ['2026-01-31 12:00:00', '20260131T120000', '2026-01-31T12:00', '2026-01-31t12:00:00', '']
const FRACTIONS = ['.123456789', '.123456789', '.5', '', '.', ',5']
const ZONES = ['Z', 'Z', '+01:00', '-07:30', '+24:00', '+0100', 'z', '', '+01:60']
const STREAMS = ['stdout', 'stdout', 'stderr', 'stdin', 'stdour', 'STDOUT']
const TAGS = ['F', 'F', 'P', 'F:x', 'P:x', 'FF', 'X', '']
const PARTS = [
  ...[
    '{"level":"info","msg":"done"}',
    'a text of some length, with words',
    '\u001b[32mok\u001b[0m',
    'a\tb',
    '\\',
    '"',
    ' ',
  ],
  ...['é', '😀', '\u0000\u0001\u001f', '\b\f\r', '\u007f', 'C:\\temp\\', '\u2028'],
]

export class CriLines {
  readonly #random: Seeded

  constructor(random: Seeded) {
    this.#random = random
  }

  line(): Buffer {
    const random = this.#random
    const strange = random.pick([0, 0, 0.1])
    const pick = (choices: readonly string[], usual = 3) =>
      random.chance(strange) ? random.pick(choices) : choices[random.below(usual)]!
    const second = random.chance(strange) ? random.pick([...STRANGE_SECONDS, ...OTHER_SECONDS]) : random.pick(SECONDS)
    let line = `${second}${pick(FRACTIONS)}${pick(ZONES)} ${pick(STREAMS)} ${pick(TAGS, 2)} `
    for (let n = random.below(6); n > 0; n--) line += random.pick(PARTS)
    if (random.chance(0.1)) line = damaged(random, line)
    return Buffer.from(line.replaceAll('\n', ''))
  }
}
