import { isUtf8 } from 'node:buffer'
import t from 'tap'
import { continuesWith, endsWith, possibleFirstBytes, startsEvent } from '../../../src/lib/lines/line-patterns.js'
import { CONTINUES, type Frame, LINE_END, LineSplitter, PIECE } from '../../../src/lib/lines/line-splitter.js'
import { type Joiner, JUDGED_BYTES, type RecordLimits, RecordSplitter } from '../../../src/lib/lines/record-splitter.js'
import { LANGUAGES, stackTraces } from '../../../src/lib/lines/stack-traces.js'
import type { Matcher } from '../../../src/lib/pattern.js'
import { rounds } from '../../support/long-test.js'
import { Seeded } from '../../support/seeded.js'

const ROUNDS = rounds(1000, 300)

interface Event {
  /** With its line end. */
  readonly bytes: Buffer
  readonly ending: number
  readonly piece: boolean
  readonly continues: boolean
}

/** The events of a frame, each a copy; fails when the frame contradicts itself. */
function eventsOf(frame: Frame | undefined): Event[] {
  if (!frame) return []
  if (frame.length === 0) throw new Error('an empty frame')
  const events: Event[] = []
  for (let i = 0; i < frame.length; i++) {
    const flags: number = frame.flags[i]!
    const ending = flags & LINE_END
    const start = frame.starts[i]!
    const end = frame.ends[i]!
    if (i > 0 && start !== frame.ends[i - 1]! + (frame.flags[i - 1]! & LINE_END)) throw new Error('a gap')
    const after = frame.chunk.toString('latin1', end, end + ending)
    if (after !== ['', '\n', '\r\n'][ending]) throw new Error(`line end ${JSON.stringify(after)}`)
    const bytes = Buffer.from(frame.chunk.subarray(start, end + ending))
    events.push({ bytes, ending, piece: (flags & PIECE) !== 0, continues: (flags & CONTINUES) !== 0 })
  }
  const size = events.reduce((sum, { bytes }) => sum + bytes.length, 0)
  if (size !== frame.bytes) throw new Error(`${frame.bytes} bytes, not ${size}`)
  return events
}

const show = ({ bytes, piece, continues }: Event) =>
  `${continues ? '…' : ''}${bytes
    .toString(isUtf8(bytes) ? 'utf8' : 'latin1')
    .replaceAll('\r', '␍')
    .replaceAll('\n', '¶')}${piece ? '…' : ''}`

function same(a: readonly Event[], b: readonly Event[]): boolean {
  return a.map(show).join('|') === b.map(show).join('|')
}

/** The first place where two lists of events differ, for people. */
function differ(got: readonly Event[], expected: readonly Event[]): string {
  const at = expected.findIndex((event, i) => !got[i] || show(event) !== show(got[i]))
  const around = (events: readonly Event[]) => events.slice(Math.max(0, at - 3), at + 2).map(show)
  return `event ${at}: ${around(got).join(' | ')} instead of ${around(expected).join(' | ')}`
}

type Form = 'start' | 'continue' | 'until'

const JOINERS: Record<Form, (pattern: Matcher) => Joiner> = {
  start: startsEvent,
  continue: continuesWith,
  until: endsWith,
}

interface Rule {
  readonly form: Form
  readonly pattern: Matcher
  readonly maxLines: number
  readonly maxBytes: number
}

const limitsOf = ({ form, pattern, maxLines, maxBytes }: Rule): RecordLimits => ({
  joiner: JOINERS[form](pattern),
  maxLines,
  maxBytes,
})

/** The trivial way: all lines at once, then groups of lines, then pieces of groups. */
function reference(input: Buffer, rule: Rule): Event[] {
  const lines: Buffer[] = []
  for (let rest = input; rest.length > 0; rest = rest.subarray(lines.at(-1)!.length)) {
    const newline = rest.indexOf('\n')
    lines.push(newline < 0 ? rest : rest.subarray(0, newline + 1))
  }
  const groups: Buffer[][] = []
  let ended = true
  for (const line of lines) {
    const content = line.subarray(0, line.length - endingOf(line))
    const long = content.length > JUDGED_BYTES
    const shown = !long
      ? content
      : rule.form === 'until'
        ? content.subarray(-JUDGED_BYTES)
        : content.subarray(0, JUDGED_BYTES)
    const matches = rule.pattern.test(shown.toString())
    if (ended || (rule.form === 'start' && matches) || (rule.form === 'continue' && !matches)) groups.push([])
    groups.at(-1)!.push(line)
    ended = rule.form === 'until' && matches && line.at(-1) === 0x0a
  }
  return groups.flatMap(group => piecesOf(group, rule))
}

function endingOf(line: Buffer): number {
  return line.at(-1) !== 0x0a ? 0 : line.at(-2) === 0x0d ? 2 : 1
}

function piecesOf(group: readonly Buffer[], { maxLines, maxBytes }: Rule): Event[] {
  const events: Event[] = []
  let piece: Buffer[] = []
  const give = (bytes: Buffer, whole: boolean) => {
    events.push({ bytes, ending: endingOf(bytes), piece: !whole, continues: events.length > 0 })
    piece = []
  }
  for (const line of group) {
    const before = Buffer.concat(piece)
    const size = line.length - endingOf(line)
    if (piece.length > 0 && (piece.length >= maxLines || before.length + size > maxBytes)) give(before, false)
    let rest = line
    while (piece.length === 0 && rest.length - endingOf(rest) > maxBytes) {
      let cut = maxBytes
      while (cut > maxBytes - 4 && (rest[cut]! & 0xc0) === 0x80) cut--
      if (cut === maxBytes - 4 || cut === 0) cut = maxBytes
      give(rest.subarray(0, cut), false)
      rest = rest.subarray(cut)
    }
    piece.push(rest)
  }
  give(Buffer.concat(piece), true)
  return events
}

const WORDS = ['S', 'x', ' ', '\t', 'E', 'é', '漢', '😀', '\r', '\0', 'text ']
const ENDS = ['\n', '\n', '\n', '\r\n', '\n\n', '\nS', '\n ', 'E\n']

function inputOf(random: Seeded): Buffer {
  const parts: Buffer[] = []
  const binary = random.chance(0.2) ? 0.1 : 0
  for (let words = random.pick([0, 1, 5, 60, 300]); words > 0; words--) {
    if (random.chance(binary)) parts.push(Buffer.from([random.pick([0x80, 0xbf, 0xff, 0xc3, 0xf0])]))
    else if (random.chance(0.004)) parts.push(Buffer.alloc(JUDGED_BYTES - 3 + random.below(6), 'l'))
    else parts.push(Buffer.from(random.chance(0.4) ? random.pick(ENDS) : random.pick(WORDS)))
  }
  return Buffer.concat(parts)
}

function ruleOf(random: Seeded): Rule {
  const form = random.pick(['start', 'continue', 'until'] as const)
  const pattern = { start: [/^S/u, /S/u], continue: [/^[ \t]/u, /^(?:[ \t]|$)/u], until: [/E$/u, /[Eé]$/u] }
  return {
    form,
    pattern: random.pick(pattern[form]),
    maxLines: random.pick([1, 2, 5, 1000]),
    maxBytes: random.pick([4, 7, 40, 5000, 1 << 20]),
  }
}

/**
 * Feeds all of `input` in portions of random sizes. With `restarts`, it is killed now and then: another splitter goes
 * on behind what was given out, with no more than what a checkpoint would say.
 */
function feed(
  limits: RecordLimits,
  input: Buffer,
  random: Seeded,
  { largest = 1000, restarts = 0, flushes = 0 } = {},
): Event[] {
  const events: Event[] = []
  let splitter = new RecordSplitter(limits)
  for (let at = 0; at < input.length; ) {
    const portion = input.subarray(at, at + 1 + random.below(largest))
    at += portion.length
    if (random.chance(0.5)) events.push(...eventsOf(splitter.push(portion)))
    else {
      // What is large lies at a place in its page that depends on where it is in the file.
      const more = random.chance(0.02) ? 64 * 1024 : random.pick([0, 1, 100])
      const room = splitter.reserve(portion.length + more, random.pick([undefined, random.below(10_000)]))
      room.fill('\n')
      portion.copy(room)
      events.push(...eventsOf(splitter.commit(portion.length)))
    }
    if (random.chance(0.1)) events.push(...eventsOf(splitter.commit(0)))
    if (random.chance(0.1)) splitter.release()
    if (random.chance(flushes)) events.push(...eventsOf(splitter.flush()))
    // Not for ever: each goes back to the beginning of what is pending.
    if (restarts > 0 && random.chance(0.1)) {
      restarts--
      at -= splitter.pending
      splitter = new RecordSplitter(limits, splitter.continues, splitter.carry)
    }
  }
  const { pending } = splitter
  const last = eventsOf(splitter.flush())
  if (pending !== last.reduce((sum, { bytes }) => sum + bytes.length, 0)) throw new Error('pending')
  if (splitter.pending !== 0 || splitter.inLine || splitter.flush()) throw new Error('something left')
  return [...events, ...last]
}

t.test('whatever the portions, and however often it is killed, the events are those of all lines at once', async t => {
  const random = new Seeded(21)
  const wrong: string[] = []
  let joined = 0
  for (let round = 0; round < ROUNDS && wrong.length < 3; round++) {
    const rule = ruleOf(random)
    const input = inputOf(random)
    const options = { largest: random.pick([1, 2, 5, 50, 6000]), restarts: random.pick([0, 0, 5]) }
    const expected = reference(input, rule)
    const got = feed(limitsOf(rule), input, random, options)
    joined += got.filter(({ bytes }) => bytes.indexOf('\n') < bytes.length - 1 && bytes.includes('\n')).length
    if (!same(got, expected))
      wrong.push(`${JSON.stringify({ ...rule, pattern: String(rule.pattern), ...options })} ${differ(got, expected)}`)
  }
  t.same(wrong, [])
  t.ok(joined > 2 * ROUNDS, `${joined} events of several lines`)
})

t.test('events that were flushed are marked where they go on', async t => {
  const random = new Seeded(22)
  const wrong: string[] = []
  for (let round = 0; round < 0.6 * ROUNDS && wrong.length < 3; round++) {
    const rule = ruleOf(random)
    const input = inputOf(random)
    const options = { largest: random.pick([1, 5, 300]), flushes: 0.2, restarts: random.pick([0, 5]) }
    const events = feed(limitsOf(rule), input, random, options)
    const problem = (text: string) => wrong.push(`${text}: ${JSON.stringify(rule)} ${events.map(show).join(' | ')}`)
    if (!Buffer.concat(events.map(({ bytes }) => bytes)).equals(input)) problem('other bytes')
    for (const [i, event] of events.entries()) {
      const { bytes, ending } = event
      if (bytes.length - ending > rule.maxBytes) problem('too long')
      if (bytes.toString('latin1').split('\n').length - Math.min(ending, 1) > rule.maxLines) problem('too many lines')
      const inCharacter = ((events[i + 1]?.bytes[0] ?? 0) & 0xc0) === 0x80
      if (event.piece && inCharacter && isUtf8(input)) problem('cut inside a character')
      const before = events[i - 1]
      if ((before?.piece || before?.ending === 0) && !event.continues) problem('not marked')
      if (i === 0 && event.continues) problem('marked')
    }
  }
  t.same(wrong, [])
})

t.test('the same holds for stack traces, whose joiners remember', async t => {
  const lines = [
    '2026-01-01 something happened',
    '',
    '  ',
    'java.lang.IllegalStateException: no',
    '\tat com.acme.Shop.sell(Shop.java:12)',
    'Caused by: java.io.IOException',
    'Traceback (most recent call last):',
    '  File "a.py", line 1, in <module>',
    'ValueError: bad',
    'During handling of the above exception, another exception occurred:',
    '  + Exception Group Traceback (most recent call last):',
    'panic: no',
    '[signal SIGSEGV: segmentation violation]',
    'goroutine 1 [running]:',
    'main.main()',
    'main.main',
    'exit status 2',
    '/srv/app.js:1',
    '^',
    'Error: no',
    '    at f (/srv/app.js:1:1) {',
    '}',
    'Node.js v20.20.2',
    `x${'l'.repeat(5000)}`,
  ]
  const random = new Seeded(23)
  const wrong: string[] = []
  for (let round = 0; round < 0.4 * ROUNDS && wrong.length < 3; round++) {
    const languages = LANGUAGES.filter(() => random.chance(0.5))
    const joiner = stackTraces(languages.length > 0 ? languages : ['java'])
    const limits = { joiner, maxLines: random.pick([1, 2, 5, 1000]), maxBytes: random.pick([30, 5000, 1 << 20]) }
    let text = ''
    for (let count = random.below(40); count > 0; count--) text += random.pick(lines) + random.pick(['\n', '\r\n'])
    const input = Buffer.from(text)
    const whole = new RecordSplitter(limits)
    const expected = [...eventsOf(whole.push(input)), ...eventsOf(whole.flush())]
    const got = feed(limits, input, random, { largest: random.pick([1, 20, 200]), restarts: random.pick([0, 5]) })
    if (!same(got, expected)) wrong.push(`${languages} ${differ(got, expected)}`)
  }
  t.same(wrong, [])
})

t.test('by example', async t => {
  const start: Rule = { form: 'start', pattern: /^S/u, maxLines: 1000, maxBytes: 1000 }
  const goesOn: Rule = { ...start, form: 'continue', pattern: /^ /u }
  const until: Rule = { ...start, form: 'until', pattern: /E$/u }
  // A part that is undefined stands for a flush.
  const cases: readonly [string, Rule, readonly (string | undefined)[], readonly string[]][] = [
    ['nothing until the next begins', start, ['S1\na\nb\n'], []],
    ['the next begins', start, ['S1\na\nb\nS2\n'], ['S1¶a¶b¶']],
    ['its first byte is not enough', start, ['S1\nS'], []],
    ['what comes before the first beginning is an event', start, ['a\nb\nS1\nc\nS'], ['a¶b¶']],
    ['a flush gives it as it is', start, ['S1\na\n', undefined], ['S1¶a¶']],
    [
      'a rest that comes too late says so',
      start,
      ['S1\n', undefined, 'a\n', undefined, 'S2\n', undefined],
      ['S1¶', '…a¶', 'S2¶'],
    ],
    ['a line flushed in its middle goes on', start, ['S1\na', undefined, 'b\nS2', undefined], ['S1¶a', '…b¶', 'S2']],
    ['the rest of a line begins nothing', start, ['S1\na', undefined, 'S\nS2', undefined], ['S1¶a', '…S¶', 'S2']],
    ['a flush knows a beginning', start, ['S1\na\nS2', undefined, 'b\n', undefined], ['S1¶a¶', 'S2', '…b¶']],
    ['flushed twice', start, ['S1\n', undefined, undefined], ['S1¶']],
    ['CRLF', start, ['S1\r\na\r\nS2\r', '\nb', '\r', '\n', undefined], ['S1␍¶a␍¶', 'S2␍¶b␍¶']],
    ['empty lines', start, ['\n\nS1\n\n\nS2\n'], ['¶¶', 'S1¶¶¶']],
    ['continue', goesOn, ['a\n b\n c\nd\ne\n'], ['a¶ b¶ c¶', 'd¶']],
    ['continue, from the first line', goesOn, [' a\n b\nc\n'], [' a¶ b¶']],
    ['continue, too late', goesOn, ['a\n', undefined, ' b\nc\n', undefined], ['a¶', '… b¶', 'c¶']],
    ['until', until, ['a\nbE\nc\nE\n'], ['a¶bE¶', 'c¶E¶']],
    ['until, given out at once', until, ['a\nE', '\n'], ['a¶E¶']],
    ['until, not at the end of a portion', until, ['a\nE', 'x\n'], []],
    ['until, flushed', until, ['a\n', undefined, 'b\nE\nc\n', undefined], ['a¶', '…b¶E¶', 'c¶']],
    ['too many lines', { ...start, maxLines: 2 }, ['S\na\nb\nc\nd\nS\n'], ['S¶a¶…', '…b¶c¶…', '…d¶']],
    ['exactly as many lines', { ...start, maxLines: 2 }, ['S\na\nS\nb\nS\n'], ['S¶a¶', 'S¶b¶']],
    ['too many bytes: cut between lines', { ...start, maxBytes: 8 }, ['S1\naaa\nbb\nc\nS\n'], ['S1¶aaa¶…', '…bb¶c¶']],
    ['exactly as many bytes', { ...start, maxBytes: 8 }, ['S1\naaaaa\r\nS\n'], ['S1¶aaaaa␍¶']],
    [
      'a line too long for one event',
      { ...start, maxBytes: 4 },
      ['S\nabcdefghij\nk\nS\n'],
      ['S¶…', '…abcd…', '…efgh…', '…ij¶k¶'],
    ],
    ['not inside a character', { ...start, maxBytes: 5 }, ['S漢漢\n', undefined], ['S漢…', '…漢¶']],
    ['until behind a cut', { ...until, maxBytes: 4 }, ['abcdefE\ng\n', undefined], ['abcd…', '…efE¶', 'g¶']],
  ]
  for (const [name, rule, parts, expected] of cases) {
    const splitter = new RecordSplitter(limitsOf(rule))
    const got = parts.flatMap(part =>
      eventsOf(part === undefined ? splitter.flush() : splitter.push(Buffer.from(part))),
    )
    t.same(got.map(show), expected, name)
    t.equal(splitter.pieces, got.filter(event => event.piece).length, `${name}: pieces are counted`)
  }
})

t.test('a byte order mark at the beginning hides no first line from the pattern', async t => {
  const rule: Rule = { form: 'until', pattern: /^E/u, maxLines: 1000, maxBytes: 1000 }
  const bytes = Buffer.from('\ufeffE1\na\nE2\n\ufeffE3\n')
  for (let at = 0; at <= bytes.length; at++) {
    const splitter = Object.assign(new RecordSplitter(limitsOf(rule)), { mayBeMarked: true })
    const frames = [splitter.push(bytes.subarray(0, at)), splitter.push(bytes.subarray(at)), splitter.flush()]
    t.same(frames.flatMap(eventsOf).map(show), ['E1¶', 'a¶E2¶', '\ufeffE3¶'], `divided at ${at}`)
  }
})

t.test('what is unfinished, and where', async t => {
  const limits = limitsOf({ form: 'start', pattern: /^S/u, maxLines: 9, maxBytes: 100 })
  const splitter = new RecordSplitter(limits)
  const state = () => ({ pending: splitter.pending, inLine: splitter.inLine, continues: splitter.continues })
  t.same(state(), { pending: 0, inLine: false, continues: false })
  splitter.push(Buffer.from('S\na\n'))
  t.same(state(), { pending: 4, inLine: false, continues: false }, 'whole lines')
  splitter.push(Buffer.from('b'))
  t.same(state(), { pending: 5, inLine: true, continues: false }, 'and a part of one')
  splitter.flush()
  t.same(state(), { pending: 0, inLine: false, continues: true }, 'flushed')
  splitter.push(Buffer.from('c\nd'))
  t.same(state(), { pending: 3, inLine: true, continues: true }, 'it goes on in the line')
  const lines = new LineSplitter(100)
  lines.push(Buffer.from('a'))
  t.same([lines.inLine, lines.carry], [true, 0], 'the same of lines')
  t.notOk(new LineSplitter(100).inLine)
})

t.test('memory is bounded by the largest event, however long a line without an end', async t => {
  const maxBytes = 10_000
  for (const pattern of [/^S/u, /never/u]) {
    const splitter = new RecordSplitter(limitsOf({ form: 'start', pattern, maxLines: 1000, maxBytes }))
    let most = 0
    let bytes = 0
    for (let i = 0; i < 1000; i++) {
      const portion = Buffer.from(i % 100 === 0 ? '\nS' : 'x'.repeat(1000))
      bytes += portion.length
      for (const event of eventsOf(splitter.push(portion))) bytes -= event.bytes.length
      most = Math.max(most, splitter.pending)
    }
    t.equal(bytes, splitter.pending)
    t.ok(most <= maxBytes + JUDGED_BYTES + 1000, `${most}`)
  }
})

t.test('a pattern sees the first 4 KiB of a line, until the last', async t => {
  const long = 'x'.repeat(JUDGED_BYTES)
  const eventCount = (form: Form, pattern: Matcher, lines: string[]) => {
    const limits = limitsOf({ form, pattern, maxLines: 1000, maxBytes: 1 << 20 })
    return feed(limits, Buffer.from(lines.map(line => `${line}\n`).join('')), new Seeded(1)).length
  }
  t.equal(eventCount('start', /S/u, ['a', `${long.slice(1)}S`]), 2, 'the last byte that is seen')
  t.equal(eventCount('start', /S/u, ['a', `${long}S`]), 1, 'the first that is not')
  t.equal(eventCount('until', /^S/u, [`S${long.slice(1)}`, 'a']), 2)
  t.equal(eventCount('until', /S/u, [`S${long}`, 'a']), 1)
  t.equal(eventCount('until', /;$/u, [`${long}${long};`, 'a']), 2)
  const splitter = new RecordSplitter(
    limitsOf({ form: 'start', pattern: /^Sx+$/u, maxLines: 9, maxBytes: JUDGED_BYTES - 100 }),
  )
  const parts = ['a\n', `S${long.slice(2)}\r`, '\n'].flatMap(part => eventsOf(splitter.push(Buffer.from(part))))
  t.equal(show(parts[0]!), 'a¶', 'a CR that may belong to the line end is not seen')
  t.equal(eventCount('start', /^é+$/u, ['a', 'éé', 'b']), 2, 'text, not bytes')
})

t.test('the first byte of a pattern is told where that is easy, and never wrong', async t => {
  const cases: readonly [pattern: Matcher, bytes: string | undefined][] = [
    [/^\d{4}-/u, '0123456789'],
    [/^\[/u, '['],
    [/^[\t ]+at /u, '\t '],
    [/^[^\s}]/u, undefined],
    [/^S/u, 'S'],
    [/^Caused by/u, 'C'],
    [/^\tat/u, '\t'],
    [/^\//u, '/'],
    [/^[a-c\]]x/u, 'abc]'],
  ]
  for (const [pattern, bytes] of cases) {
    const first = possibleFirstBytes(pattern)
    t.ok(first, String(pattern))
    const found = [...first!].flatMap((yes, byte) => (yes && byte < 0x80 ? [String.fromCharCode(byte)] : []))
    if (bytes !== undefined) t.same(found.sort(), [...bytes].sort(), String(pattern))
  }
  for (const pattern of [
    /a/u,
    /^a?b/u,
    /^a*b/u,
    /^a{0,2}b/u,
    /^a|b/u,
    /^(?:a|b)/u,
    /^/u,
    /^.a/u,
    /^\bx/u,
    /^$/u,
    /^a/iu,
  ])
    t.equal(possibleFirstBytes(pattern), undefined, String(pattern))

  const atoms = ['a', '\\d', '\\s', '\\S', '\\.', '[ab]', '[^a]', '[\\]\\d]', 'é', '😀', '.', '(?:a|b)', '$', '\\b']
  const random = new Seeded(24)
  const texts = ['', 'a', 'ab', ' a', '1', '.', ']', 'é', '😀a', '\u00a0', '\t', 'ba', 'éa', '\x7f', '\u2028']
  const wrong: string[] = []
  for (let round = 0; round < 3000; round++) {
    let source = random.chance(0.9) ? '^' : ''
    for (let count = 1 + random.below(3); count > 0; count--)
      source += random.pick(atoms) + random.pick(['', '', '+', '?', '*', '{0,1}', '{2}', '|'])
    let pattern: Matcher
    try {
      pattern = new RegExp(source, 'u')
    } catch {
      continue
    }
    const { judge } = startsEvent(pattern)
    for (const text of texts) {
      const bytes = Buffer.from(text)
      const matched = judge(0, bytes, 0, bytes.length) === 0
      if (matched !== pattern.test(text)) wrong.push(`${pattern} ${JSON.stringify(text)}`)
    }
  }
  t.same(wrong, [])
})
