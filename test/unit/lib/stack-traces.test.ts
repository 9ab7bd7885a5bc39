import t from 'tap'
import { CONTINUES, type Frame, LINE_END } from '../../../src/lib/lines/line-splitter.js'
import { RecordSplitter } from '../../../src/lib/lines/record-splitter.js'
import { LANGUAGES, type Language, stackTraces } from '../../../src/lib/lines/stack-traces.js'
import { casesOf } from '../../support/cases.js'

interface Trace {
  readonly name: string
  readonly language: Language
  /** Whether it is part of the event before it. */
  readonly joins: boolean
  readonly text: string
}

const { neighbours, traces, others } = casesOf<{ neighbours: string[]; traces: Trace[]; others: string[] }>(
  import.meta.url,
)

/** The events that the lines make, without their line ends; those that go on from an earlier one begin with `…`. */
function eventsOf(languages: readonly Language[], text: string, flushAt: readonly number[] = []): string[] {
  const limits = { joiner: stackTraces(languages), maxLines: 1000, maxBytes: 1 << 20 }
  const splitter = new RecordSplitter(limits)
  const events: string[] = []
  const add = (frame: Frame | undefined) => {
    for (let i = 0; i < (frame?.length ?? 0); i++) {
      const { chunk, starts, ends, flags } = frame!
      if ((flags[i]! & LINE_END) === 0) throw new Error('a line without its end')
      events.push((flags[i]! & CONTINUES ? '…' : '') + chunk.toString('utf8', starts[i]!, ends[i]!))
    }
  }
  for (const [i, line] of text.split('\n').entries()) {
    if (flushAt.includes(i)) add(splitter.flush())
    add(splitter.push(Buffer.from(`${line}\n`)))
  }
  add(splitter.flush())
  return events
}

t.test('a trace is one event, by itself or with what was logged before it', async t => {
  for (const { name, language, joins, text } of traces) {
    for (const languages of [[language], LANGUAGES]) {
      const wrong: unknown[] = []
      for (const [i, before] of neighbours.entries()) {
        const after = neighbours[(i + 1) % neighbours.length]!
        const events = eventsOf(languages, [before, text, after, after].join('\n'))
        const expected = [...(joins ? [`${before}\n${text}`] : [before, text]), after, after]
        if (JSON.stringify(events) !== JSON.stringify(expected)) wrong.push({ events, expected })
      }
      t.same(wrong.slice(0, 1), [], `${languages}: ${name}`)
      t.same(eventsOf(languages, text), [text], `${languages}: ${name}: by itself`)
    }
  }
})

t.test('a trace that comes in the middle of a flush goes on, and a new one begins', async t => {
  for (const { name, language, joins, text } of traces) {
    const before = neighbours[0]!
    t.same(eventsOf([language], `${before}\n${text}`, [1]), [before, text], `${name}: behind an event that is gone`)
    const lines = text.split('\n').length
    for (let at = 1; at < lines; at++) {
      const [first, ...rest] = eventsOf([language], `${before}\n${text}\n${before}`, [1 + at])
      // Whatever is told apart then, no line is taken for something else.
      const events = [first, ...rest].map(event => event!.replace(/^…/, ''))
      t.same(events.join('\n'), `${before}\n${text}\n${before}`, `${name}: flushed behind line ${at}`)
      t.equal(events.at(-1), before)
      t.ok(joins || first === before)
    }
  }
  const frames = 'java.lang.Error: no\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)\nnext'
  t.same(eventsOf(['java'], frames, [2]), [
    'java.lang.Error: no\n\tat a.B.c(B.java:1)',
    '…\tat a.B.d(B.java:2)',
    'next',
  ])
})

t.test('two traces are two events', async t => {
  for (const { name, language, joins, text } of traces) {
    const twice = eventsOf([language], [neighbours[0]!, text, neighbours[1]!, text].join('\n'))
    t.equal(twice.length, joins ? 2 : 4, `${name}: with a line between them`)
    if (language !== 'java' || !joins) {
      const direct = eventsOf([language], `${text}\n${text}`)
      if (language !== 'go' || !joins) t.same(direct, [text, text], `${name}: one behind the other`)
    }
  }
})

t.test('what is no trace stays alone', async t => {
  const lines = [...neighbours, ...others]
  for (const languages of [...LANGUAGES.map(language => [language]), LANGUAGES])
    t.same(eventsOf(languages, lines.join('\n')), lines, String(languages))
})
