import t, { type Test } from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import type { Fields } from '../../../../src/core/event/event-fields.js'
import { Splitting } from '../../../../src/core/options/multiline-options.js'
import { agreesWithFields, fuzz, readFields } from '../../../support/codecs.js'

type Case = readonly [line: string, fields: Fields | undefined]

function check(t: Test, name: string, cases: readonly Case[]): void {
  const codec = codecOf(name)!
  for (const [line, wanted] of cases) t.same(readFields(codec, Buffer.from(line)), wanted, line.slice(0, 100))
  t.end()
}

/** The events that sources make of these bytes, read in portions of `size`; a line that is not read is its text. */
function eventsOf(name: string, input: string, size: number, maxLineBytes = 1e6): unknown[] {
  const codec = codecOf(name)!
  const splitter = new Splitting({ decode: codec, max_line_bytes: maxLineBytes }).splitter()
  const events: unknown[] = []
  const take = (frame: ReturnType<typeof splitter.flush>) => {
    for (let i = 0; i < (frame?.length ?? 0); i++) {
      const { chunk, starts, ends } = frame!
      const line = chunk.subarray(starts[i]!, ends[i]!)
      events.push(readFields(codec, line) ?? line.toString())
    }
  }
  const bytes = Buffer.from(input)
  for (let at = 0; at < bytes.length; at += size) {
    const part = bytes.subarray(at, at + size)
    part.copy(splitter.reserve(part.length))
    take(splitter.commit(part.length))
  }
  take(splitter.flush())
  return events
}

const T = '2016-10-06T00:17:09.669794202Z'
const cri = (message: string, stream = 'stdout', partial = false) => ({
  message,
  timestamp: T,
  stream,
  ...(partial && { partial: 'first' }),
})

t.test('cri: the lines of the design of the container runtime interface, and of runtimes', t => {
  check(t, 'cri', [
    [`${T} stdout P log content 1`, cri('log content 1', 'stdout', true)],
    [`${T} stderr F log content 2`, cri('log content 2', 'stderr')],
    [`${T} stdout P:TAG2 log content 1`, cri('log content 1', 'stdout', true)],
    [`${T} stderr F:TAG2:x log content 2`, cri('log content 2', 'stderr')],
    [`${T} stdout F `, cri('')],
    [`${T} stdout F`, cri('')],
    [`${T} stdout F  two  spaces `, cri(' two  spaces ')],
    [`${T} stdout F {"a":1}`, cri('{"a":1}')],
    [
      '2021-04-12T14:06:05.123456+02:00 stdout F x',
      { message: 'x', timestamp: '2021-04-12T14:06:05.123456+02:00', stream: 'stdout' },
    ],
    [`${T} stdout X log`, undefined],
    [`${T} stdout Foo log`, undefined],
    [`${T} stdin F log`, undefined],
    [`${T} stdoutF log`, undefined],
    [`${T} stdout`, undefined],
    ['2016 stdout F log', undefined],
    ['2016-13-06T00:17:09.669794202Z stdout F log', undefined],
    ['stdout F log', undefined],
    ['', undefined],
    [`${T} stdout P one, \n${T} stdout F two`, cri('one, two')],
    [`${T} stdout P one, \r\n${T} stdout P two`, cri('one, two', 'stdout', true)],
    [`${T} stdout P one, \n${T} stderr F two`, undefined],
    [`${T} stdout P one, \nand two`, undefined],
  ])
})

const docker = (log: string, stream = 'stdout') => JSON.stringify({ log, stream, time: T })

t.test('docker_json: the lines of its documentation, with labels, escapes and line ends of Windows', t => {
  check(t, 'docker_json', [
    [
      `{"log":"Log line is here\\n","stream":"stdout","time":"2019-01-01T11:11:11.111111111Z"}`,
      { message: 'Log line is here', stream: 'stdout', timestamp: '2019-01-01T11:11:11.111111111Z' },
    ],
    [docker('x\r\n'), cri('x')],
    [docker('x\n\n'), cri('x\n')],
    [docker('\n'), cri('')],
    [docker(''), cri('', 'stdout', true)],
    [docker('C:\\n'), cri('C:\\n', 'stdout', true)],
    [docker('C:\\\n'), cri('C:\\')],
    [docker('{"level":"info","msg":"é"}\n', 'stderr'), cri('{"level":"info","msg":"é"}', 'stderr')],
    [
      `{"log":"a\\u003cb\\n","stream":"stdout","attrs":{"tag":"x"},"time":"${T}"}`,
      { ...cri('a<b'), attrs: { tag: 'x' } },
    ],
    [`{ "time": "${T}", "log": "a\\n" }`, { message: 'a', timestamp: T }],
    ['{"log":1,"stream":"stdout"}', undefined],
    ['{"stream":"stdout"}', undefined],
    ['{"log":"a\\n","level":"info"}', undefined],
    ['{"log":"a\\n"', undefined],
    ['["log"]', undefined],
    ['', undefined],
    [`${docker('one, ')}\n${docker('two\n')}`, cri('one, two')],
    [`${docker('one\n')}\n${docker('two\n')}`, undefined],
  ])
})

t.test('docker_json: a line at the end of the memory is read as it is, whatever line came before it', t => {
  const codec = codecOf('docker_json')!
  const usual = Buffer.from(`${docker('one\n')}\n`)
  t.same(readFields(codec, usual, 0, usual.length - 1), cri('one'))
  const last = `{"log":"two\\n","stream":"stdout","attrs":{"tag":"x"},"time":"${T.replace('T', '\\u0054')}"}`
  t.same(readFields(codec, Buffer.from(last)), { ...cri('two'), attrs: { tag: 'x' } })
  t.end()
})

const INPUTS = {
  cri: [
    `${T} stdout F zero`,
    `${T} stdout P one, `,
    `${T} stdout P two, `,
    `${T} stdout F three`,
    `${T} stdout P four, `,
    `${T} stderr F five`,
    `${T} stdout F six`,
    'else',
    `${T} stderr P seven`,
  ],
  docker_json: [
    docker('zero\n'),
    docker('one, '),
    docker('two, '),
    docker('three\n'),
    docker('four, '),
    docker('five\n', 'stderr'),
    docker('six\n'),
    'else',
    docker('seven', 'stderr'),
  ],
}
const BLANKS = INPUTS.docker_json.map(line => line.replaceAll('":"', '" :  "').replaceAll('","', '" ,\t"'))

t.test('a source joins the parts of a line, whatever portions they come in', t => {
  for (const [name, lines] of [...Object.entries(INPUTS), ['docker_json', BLANKS] as const])
    for (const size of [1, 7, 64, 1e6])
      t.same(
        eventsOf(name, lines.map(line => `${line}\n`).join(''), size),
        [
          cri('zero'),
          cri('one, two, three'),
          cri('four, six'),
          cri('five', 'stderr'),
          'else',
          cri('seven', 'stderr', true),
        ],
        `${name}, ${size} bytes at a time`,
      )
  t.end()
})

t.test('parts of a line that are too long together are events of several parts each, and none is lost', t => {
  const part = 'x'.repeat(300)
  const lines = { cri: `${T} stdout P ${part}\n`, docker_json: `${docker(part)}\n` }
  for (const [name, line] of Object.entries(lines)) {
    const events = eventsOf(name, line.repeat(20), 100, 1024) as { message: string }[]
    t.ok(events.length < 20, name)
    t.equal(events.map(({ message }) => message).join(''), part.repeat(20), name)
  }
  t.end()
})

t.test('the whole line of a stream that Docker divides is seen, to keep the streams apart', t => {
  const lines = [docker('x'.repeat(16384)), docker(`${'\0'.repeat(16384)}\n`, 'stderr'), docker('y\n')]
  const events = eventsOf('docker_json', lines.map(line => `${line}\n`).join(''), 1000)
  t.same(
    events.map(event => (event as Fields).stream),
    ['stdout', 'stderr'],
  )
  t.end()
})

t.test('what readers find is what whole events have', t => {
  const parts = ['{"log":"', '"', '\\n', '"stream":"stdout"', ',', '}', T, ' stdout', ' ', 'P', 'F', '\n', 'é', '{}']
  for (const name of ['cri', 'docker_json']) {
    const lines = [...INPUTS[name as 'cri'], ...fuzz(5, 300, parts).map(line => line.replaceAll('\n', ' '))]
    agreesWithFields(t, name, ['message', 'stream', 'timestamp', 'partial', 'attrs'], lines)
  }
  t.end()
})
