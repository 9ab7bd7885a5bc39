// biome-ignore-all lint/suspicious/noTemplateCurlyInString: templates of Sluice, not of the test
import { createHash, createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { crc32 } from 'node:zlib'
import t from 'tap'
import { components } from '../../../../src/components/list.js'
import { truncated } from '../../../../src/components/processors/edit/texts.js'
import { edit, STEP_KINDS } from '../../../../src/components/processors/edit.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { EventEditor } from '../../../../src/core/event/event-editor.js'
import type { FieldPath } from '../../../../src/core/event/field-path.js'
import { FieldReader } from '../../../../src/core/event/field-reader.js'
import type { OnError } from '../../../../src/core/processor.js'
import { parseConfig } from '../../../../src/engine/config/load.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { type BatchOptions, batchOf } from '../../../support/batches.js'
import { casesOf } from '../../../support/cases.js'
import { collectBytes } from '../../../support/collect-bytes.js'
import { testFolder } from '../../../support/folder.js'
import { problemsOf } from '../../../support/problems.js'
import { loadedStageOf } from '../../../support/stage.js'

interface More extends BatchOptions {
  readonly onError?: OnError
  readonly change?: (batch: EventBatch) => void
}

async function edited(steps: readonly object[], lines: readonly string[], more: More = {}): Promise<string[]> {
  const { onError = 'pass', change, ...batchOptions } = more
  const { stage, wanted, counters } = await loadedStageOf(edit, { steps }, { onError })
  const batch = batchOf(lines, { wanted, ...batchOptions })
  change?.(batch)
  counters.arrived(batch.length, batch.bytes)
  const out: string[] = []
  await pipeline(Readable.from([batch]), stage, collectBytes(out))
  t.same(counters.imbalance(), { events: 0, bytes: 0 })
  return out
}

const sha = (text: string) => createHash('sha256').update(text).digest('hex')

type Row = readonly [steps: object | readonly object[], line: string, out: string]
type Fail = readonly [steps: object | readonly object[], line: string, message: string]
const tables = casesOf<{
  rows: readonly Row[]
  fails: readonly Fail[]
  truncated: readonly (readonly [text: string, most: number, out: string])[]
}>(import.meta.url)
/** The id of an event whose place is not known. */
const idOf = (bytes: string) => {
  const id = Buffer.alloc(18)
  id.writeUInt32BE(crc32(bytes), 14)
  return id.toString('base64url')
}
const ROWS: readonly Row[] = [
  ...tables.rows,
  [
    { hash: { fields: ['.a', '.b', '.none'] } },
    '{"a":"x","b":{"y": 1}}',
    `{"a":"${sha('x')}","b":"${sha('{"y":1}')}"}`,
  ],
  [[{ set: { '.a': 2 } }, { event_id: { field: '.id' } }], '{"a":1}', `{"a":2,"id":"${idOf('{"a":2}')}"}`],
]

t.test('what each kind of step does, whatever way the event is kept', async t => {
  for (const [steps, line, out] of ROWS) {
    const list = [steps].flat() as object[]
    const title = `${JSON.stringify(list)} on ${line}`
    t.same(await edited(list, [line]), [out], title)
    const objects = await edited(list, ['{"old":1}'], {
      change: batch => batch.modify(0, JSON.parse(line) as object as never),
    })
    t.same(JSON.parse(objects[0]!), JSON.parse(out), `an object: ${title}`)
    const texts = await edited(list, ['{"old":1}'], { change: batch => batch.changeTo(0, Buffer.from(line)) })
    t.same(texts, [out], `changed before: ${title}`)
  }
  const used = ROWS.flatMap(([steps]) => [steps].flat().flatMap(step => Object.keys(step))).filter(
    key => key !== 'when',
  )
  t.same([...new Set(used)].sort(), STEP_KINDS.map(({ name }) => name).sort(), 'no kind is missing here')
})

t.test('a number beyond the range of a double is copied as it came, alone and in an object', async t => {
  const steps = [{ set: { '.text': '${.o}' } }, { copy: { '.o': '.p', '.o.l[0]': '.q' } }]
  const line = '{"o":{"l":[ 1e400, null, 1.0]}}'
  const copies = '"text":"{\\"l\\":[1e400,null,1]}","p":{"l":[ 1e400, null, 1.0]},"q":1e400'
  t.same(await edited(steps, [line]), [`${line.slice(0, -1)},${copies}}`])
})

t.test('lines of text have the fields of their origin', async t => {
  const steps = [{ set: { '.id': '${.host}/${.message}' } }, { remove: ['.timestamp'] }, { upper: ['.message'] }]
  const [line] = await edited(steps, ['plain "text"'], { decode: 'text' })
  const { id, message, host, ...rest } = JSON.parse(line!)
  t.same([id, message, rest], [`${host}/plain "text"`, 'PLAIN "TEXT"', {}])
})

const FAILS: readonly Fail[] = [
  ...tables.fails,
  [{ split: { '.a': ',' } }, `{"a":"${','.repeat(10_000)}"}`, '.a has more than 10000 parts'],
  [
    { replace: { field: '.a', pattern: '', with: 'x'.repeat(10_000) } },
    `{"a":"${'y'.repeat(2000)}"}`,
    'the text would become longer than 16 MiB',
  ],
]

t.test('steps that double an event end at a bound, and the event follows on_error', async t => {
  const twice = { set: { '.a': '${.a}${.a}', '.c': 1 } }
  const steps = Array.from({ length: 100 }, () => twice)
  const [line] = await edited(steps, ['{"a":"x"}'])
  const { processing_error: error, ...rest } = JSON.parse(line!)
  t.match(error.message, 'it would grow by more than 1 MiB and to more than twice its size')
  t.same(rest, { a: 'x' })
  const copies = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`.b${n}`, '${.a}${.a}']))
  const [copied] = await edited([{ set: copies }], [`{"a":"${'x'.repeat(100_000)}"}`])
  t.match(copied, 'it would grow by more than 1 MiB', 'within a step')
  const long = `{"a":"${'x'.repeat(1_000_000)}"}`
  const before = process.memoryUsage().arrayBuffers
  const [whole] = await edited([{ set: { '.b': '${.a}'.repeat(64) } }], [long])
  t.match(whole, 'it would grow by more than 1 MiB', 'within a text')
  t.ok(process.memoryUsage().arrayBuffers - before < 32_000_000, 'which is not made')
  const [grown] = await edited([{ replace: { field: '.a', pattern: '(.*)', with: '$1'.repeat(5000) } }], [long])
  t.match(grown, 'the text would become longer than 16 MiB', 'within a match')
  const large = `{"a":"${'x'.repeat(3 * 1024 * 1024)}"}`
  t.equal((await edited([{ copy: { '.a': '.b' } }], [large]))[0]!.length, 2 * large.length - 1, 'twice as long')
})

t.test('of the events of a read, those that steps make much longer may fill 32 MiB', async t => {
  const steps = [{ set: { '.b': 'x'.repeat(16_000) } }, { set: { '.c': '${.b}'.repeat(64) } }]
  const small = Array.from({ length: 40 }, (_, n) => `{"a":${n}}`)
  const lines = await edited(steps, [...small, `{"d":"${'y'.repeat(100_000)}"}`])
  const refused = lines.filter(line => line.includes('would grow to more than 32 MiB together'))
  t.equal(refused.length, 8)
  t.match(refused[0], /^\{"a":32,"processing_error"/)
  t.match(lines.at(-1), '"c":"xxx', 'one that does not grow much')
})

t.test('where a step cannot be done, the event follows on_error, without the changes of the other steps', async t => {
  for (const [steps, line, message] of FAILS) {
    const list = [
      { set: { '.before': 1 } },
      { set: { '.then': '${.before}' } },
      ...[steps].flat().map(step => ({ ...step, when: 'if (NOT .n exists)' })),
    ]
    const ways: Record<string, More> = {
      '': {},
      'an object: ': { change: batch => batch.modify(1, JSON.parse(line) as never) },
      'changed before: ': { change: batch => batch.changeTo(1, Buffer.from(line)) },
    }
    for (const [way, more] of Object.entries(ways)) {
      const [first, second, third] = await edited(list, ['{"n":1}', line, '{"n":2}'], more)
      t.same(
        [first, third],
        ['{"n":1,"before":1,"then":"1"}', '{"n":2,"before":1,"then":"1"}'].map(one => one),
      )
      const { processing_error, ...rest } = JSON.parse(second!)
      t.same(rest, JSON.parse(line), `${way}${line.slice(0, 60)} is as it was`)
      t.match(processing_error, { component: 'p', message })
    }
    t.same(await edited(list, [line], { onError: 'discard' }), [], line.slice(0, 60))
  }
})

t.test('a text is truncated to characters, and none of them is divided', async t => {
  for (const [text, most, out] of tables.truncated) t.equal(truncated(text, most), out, `${text} to ${most}`)
})

t.test('hashes with a key are HMACs, and a key that cannot be read is an error of the start', async t => {
  const file = join(testFolder(t), 'key')
  writeFileSync(file, 'secret\n')
  const steps = [{ hash: { fields: ['.a', '.b'], algorithm: 'sha512', key_file: file } }]
  const expected = (text: string) => createHmac('sha512', 'secret').update(text).digest('hex')
  t.same(await edited(steps, ['{"a":"x","b":7}']), [`{"a":"${expected('x')}","b":"${expected('7')}"}`])
  const missing = [{ hash: { fields: ['.a'], key_file: join(testFolder(t), 'none') } }]
  await t.rejects(edited(missing, []), { code: 'SLUICE_CONFIG', message: /cannot read the key of hashes/ })
})

t.test('explain says for each step whether it was done, as the event was then', async t => {
  const steps = [
    { convert: { '.status': 'int' } },
    { set: { '.level': 'error' }, when: 'if (.status greater 499)' },
    { remove: ['.debug'] },
    { set: { '.key': '${.level}' }, when: 'if (NOT .level exists)' },
    { set: { '.status.text': 'x' } },
    { lower: ['.level'] },
  ]
  const wanted = new WantedNames()
  const context = { field: (path: FieldPath) => new FieldReader(path, wanted), editor: () => new EventEditor(wanted) }
  const findings = await (await edit.explains!()).findings!(edit.options.parse({ steps }), context as never)
  const batch = batchOf(['{"status":"503"}'], { wanted })
  const condition = { text: ".status greater '499'", holds: true, value: '.status is 503' }
  t.match(findings(batch), [
    { text: 'steps[0]: convert', holds: true },
    { text: 'steps[1]: set', holds: true, parts: [condition] },
    { text: 'steps[2]: remove', holds: true, value: 'nothing to change' },
    { text: 'steps[3]: set', holds: false, parts: [{ text: 'not' }] },
    { text: 'steps[4]: set', holds: false, value: /^\.status\.text cannot be set/ },
  ])
  t.equal(findings(batch).length, 5, 'steps after the one that fails are not done')
  t.same(batch.fields(0), { status: '503' }, 'the event itself stays')
})

function problems(...steps: string[]): string[] {
  const text = `sources: { in: { type: stdin, decode: json } }
destinations: { out: { type: stdout, inputs: [ed] } }
processors:
  ed:
    type: edit
    inputs: [in]
    steps:
${steps.map(step => `      - ${step}\n`).join('')}`
  return problemsOf(() => parseConfig(text, 'c.yaml', { env: {}, components }))
}

t.test('what is wrong with a step is told at its place', async t => {
  t.same(
    problems(
      "{ set: { .env: prod, .id: '${.host}-${.app}' } }",
      '{ rename: { .msg: .message } }',
      '{ remove: [.debug] }',
      '{ keep: [.a, .b] }',
    ),
    [],
  )
  const cases: readonly (readonly [step: string, RegExp])[] = [
    ['{ sett: { .a: 1 } }', /^c.yaml:8:11: processors.ed.steps\[0\].sett: unknown option; did you mean "set"\?/],
    [
      '{ remove: [.a], keep: [.b] }',
      /^c.yaml:8:31: processors.ed.steps\[0\].keep: a step does only one thing; write this as a step of its own after remove/,
    ],
    [
      '{ when: if (.a exists) }',
      /^c.yaml:8:9: processors.ed.steps\[0\]: does nothing; it must have one of set, default, rename/,
    ],
    [
      '{ set: { env: prod } }',
      /^c.yaml:8:23: processors.ed.steps\[0\].set.env: a field path starts with a dot: write \.env/,
    ],
    ['{ set: { } }', /^c.yaml:8:16: processors.ed.steps\[0\].set: must have 1 to 1000 fields/],
    [
      "{ set: { .a: '${.b c}' } }",
      /^c.yaml:8:22: processors.ed.steps\[0\].set."\.a": expected "}" or ":-" after the field/,
    ],
    [
      "{ set: { .a: ['${.b}'] } }",
      /^c.yaml:8:23: .*stands for the value of a field, but this option is the same for all events/,
    ],
    [
      '{ rename: { .a: b } }',
      /^c.yaml:8:25: processors.ed.steps\[0\].rename."\.a": a field path starts with a dot: write \.b/,
    ],
    [
      '{ convert: { .a: number } }',
      /^c.yaml:8:26: processors.ed.steps\[0\].convert."\.a": must be one of int, float, bool/,
    ],
    ['{ keep: ["\\.l[0]"] }'.replace('\\', ''), /must name fields, not items of arrays/],
    ['{ truncate: { .a: 0 } }', /must be at least 1/],
    ["{ split: { .a: '' } }", /must not be empty/],
    ["{ replace: { field: .a, pattern: '(', with: x } }", /not a regular expression/],
    [
      "{ replace: { field: .a, pattern: 'x', with: '$1' } }",
      /^c.yaml:8:53: .*with: the pattern has no group \$1; write \$\$ for "\$" itself/,
    ],
    ['{ set: { .a: 1 }, when: .b is 2 }', /unknown operator "is"; did you mean equal/],
    ['{ hash: { fields: [.a], algorithm: crc } }', /must be one of sha256/],
  ]
  for (const [step, message] of cases) {
    const found = problems(step)
    t.equal(found.length, 1, found.join('\n'))
    t.match(found[0], message, step)
  }
})
