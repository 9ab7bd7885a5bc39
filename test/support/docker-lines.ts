import { damaged } from './access-lines.js'
import type { Seeded } from './seeded.js'

/** Lines of Docker, nearly so, or not at all. */

const PARTS = [
  ...[
    'a text of some length, with words',
    '"',
    '\\',
    '\\n',
    '\n',
    '\t',
    '\u001b[32mok\u001b[0m',
    '{"a":"b"}',
    'é',
    '😀',
    ' ',
  ],
  ...['\u0000', '<b>', '\r', '\\"'],
]
const LINE_ENDS = ['\n', '\n', '\n', '\n', '\r\n', '', 'n', '\\n', '\r']
const STREAMS = ['stdout', 'stdout', 'stderr', '', 'st"d']
const TIMES = ['2026-01-31T12:00:00.123456789Z', '2026-01-31T12:00:01.5Z', '', 'no time']

export class DockerLines {
  readonly #random: Seeded

  constructor(random: Seeded) {
    this.#random = random
  }

  line(): Buffer {
    const random = this.#random
    let log = ''
    for (let n = random.below(6); n > 0; n--) log += random.pick(PARTS)
    const text = JSON.stringify(log + random.pick(LINE_ENDS))
    const members = [
      `"log":${random.chance(0.3) ? text.replace('<', '\\u003c') : text}`,
      `"stream":${JSON.stringify(random.pick(STREAMS))}`,
      `"time":${JSON.stringify(random.pick(TIMES))}`,
    ]
    if (random.chance(0.1)) members.splice(random.below(4), random.below(2), '"attrs":{"app":"shop"}')
    let line = `{${members.join(random.chance(0.05) ? ', ' : ',')}}`
    if (random.chance(0.1)) line = damaged(random, line)
    return Buffer.from(line.replaceAll('\n', ''))
  }
}
