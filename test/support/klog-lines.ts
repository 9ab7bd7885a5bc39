import { damaged } from './access-lines.js'
import type { Seeded } from './seeded.js'

/** Lines of klog, nearly so, or not at all. */

const LEVELS = ['I', 'I', 'W', 'E', 'F', 'D', '', ' I', '\tE']
const DATES = ['0101', '1231', '0630', '0701', '0131', '0228', '0229', '0431', '1301', '0100', '0001', '032']
const IDS = ['1', '28133', '0', '007', '-', 'x', '']
const FILES = ['file.go:12', 'a/b.go:1', 'a:b:2', ':3', 'file.go', 'é.go:4', 'f:05', 'f:-']
const TEXTS = [
  'started',
  '"a" and \\b',
  'é\t',
  'two\r',
  '',
  ' led by a space',
  '] [',
  '\u001b[0m',
  'over the usual length of 32',
]
const ENDS = ['', '', ' ', '\t ', '\n']

export class KlogLines {
  readonly #random: Seeded

  constructor(random: Seeded) {
    this.#random = random
  }

  line(): Buffer {
    const random = this.#random
    const strange = random.pick([0, 0, 0.2])
    const pick = (choices: readonly string[], usual: number) =>
      random.chance(strange) ? random.pick(choices) : choices[random.below(usual)]!
    const two = (end: number) => {
      const value = random.chance(strange) ? random.pick([0, end, 61, 99]) : random.below(end)
      return String(value).padStart(2, '0')
    }
    const time = `${two(24)}:${two(60)}:${two(60)}.${String(random.below(1e6)).padStart(6, '0')}`
    const pid = `${' '.repeat(random.below(4))}${pick(IDS, 2)}`
    let line = `${pick(LEVELS, 5)}${pick(DATES, 6)} ${time} ${pid} ${pick(FILES, 3)}] ${random.pick(TEXTS)}`
    line += random.pick(ENDS)
    if (random.chance(0.1)) line = damaged(random, line)
    return Buffer.from(line.replaceAll('\n', ''))
  }
}
