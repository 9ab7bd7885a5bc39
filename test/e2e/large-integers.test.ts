import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { command } from '../support/cli.js'
import { testFolder } from '../support/folder.js'
import { sluice } from '../support/sluice.js'

const [ODD, EVEN] = ['9007199254740993', '9007199254740992']

async function outputOf(t: Test, config: string, lines: string | Buffer, files: Record<string, string> = {}) {
  const cwd = testFolder(t, { 'sluice.yaml': `data_dir: state\nmetrics: false\n${config}`, ...files })
  const run = sluice(['run', '--config', 'sluice.yaml'], { cwd })
  run.child.stdin!.end(lines)
  t.equal(await run.exit, 0, run.stderr)
  return { cwd, lines: run.stdout.split('\n').slice(0, -1) }
}

t.test('all steps that take an integer beyond 2^53 as a text take its digits', async t => {
  const config = `
sources: { in: { type: stdin, decode: json } }
processors:
  edit:
    type: edit
    inputs: [in]
    steps:
      - copy: { .id: .copied }
      - copy: { .id: .text }
      - copy: { .id: .replaced }
      - copy: { .id: .hash }
      - convert: { .text: string }
      - replace: { field: .replaced, pattern: '^9', with: 'N' }
      - hash: { fields: [.hash], algorithm: md5 }
      - join: { .list: ' ' }
      - { set: { .equal: 1 }, when: "if (.id equal '${ODD}')" }
      - { set: { .bare: 1 }, when: "if (.id equal ${ODD})" }
      - { set: { .in: 1 }, when: "if (.id in ('${ODD}', 'x'))" }
      - { set: { .match: 1 }, when: "if (.id regex_match '3$')" }
      - { set: { .greater: 1 }, when: "if (.id greater ${EVEN})" }
      - { set: { .pair: 1 }, when: "if (.id greater .other)" }
      - { set: { .text_pair: 1 }, when: "if (.other less .text)" }
      - { set: { .not_less: 1 }, when: "if (NOT .id less_or_equal ${EVEN})" }
  owner: { type: enrich, inputs: [edit], table: ./owners.json, key_field: .id, column: id, target: .owner }
  types: { type: parse, inputs: [owner], field: .json, codec: json, types: { as_text: string, as_int: int } }
destinations:
  out: { type: stdout, inputs: [types] }
  log: { type: file, inputs: [types], path: out.log, encoding: syslog }
`
  const event = `"id":${ODD},"other":${EVEN},"list":[${ODD},1.0,"a"],"json":"{\\"as_text\\":${ODD},\\"as_int\\":${ODD}}"`
  // The second line is not valid UTF-8. Sluice decodes it in another way.
  const input = Buffer.concat([Buffer.from(`{${event}}\n{${event},"m":"`), Buffer.from([0xff]), Buffer.from('"}\n')])
  const owners = `[{"id":${EVEN},"n":${EVEN}},{"id":${ODD},"n":${ODD}}]`
  const { cwd, lines } = await outputOf(t, config, input, { 'owners.json': owners })
  t.equal(lines.length, 2)
  for (const line of lines) {
    const digits = (name: string) => new RegExp(`"${name}":("?[^",}]*)`).exec(line)?.[1]
    for (const name of ['id', 'copied', 'as_int', 'n']) t.equal(digits(name), ODD, name)
    t.equal(digits('text'), `"${ODD}`)
    t.equal(digits('as_text'), `"${ODD}`)
    t.equal(digits('replaced'), `"N${ODD.slice(1)}`)
    t.equal(digits('hash'), '"322d1e02970a2deaaf671adaf4e026c7')
    t.equal(digits('list'), `"${ODD} 1 a`)
    for (const name of 'equal bare in match greater pair text_pair not_less'.split(' '))
      t.equal(digits(name), '1', name)
  }
  const syslog = readFileSync(join(cwd, 'out.log'), 'utf8')
  t.equal(syslog.split(`"id":${ODD}`).length, 3, syslog)
})

t.test(
  'different integers beyond 2^53 have buckets of their own, and the other notations of a number share one',
  async t => {
    const values = [ODD, EVEN, `"${ODD}"`, '1', '1.0', '1e0', '"1"', '-9007199254740993', '-9007199254740992']
    const input = values.map(id => `{"id":${id}}\n`).join('')
    const config = (key: string) => `
sources: { in: { type: stdin, decode: json } }
processors: { limit: { type: throttle, inputs: [in], limit: 1, window: 1 Hours, key_field: ${key} } }
destinations: { out: { type: stdout, inputs: [limit] } }
`
    const expected = [ODD, EVEN, '1', '-9007199254740993', '-9007199254740992'].map(id => `{"id":${id}}`)
    // With enough lines, the kernel finds the buckets.
    const more = Array.from({ length: 500 }, () => input).join('')
    t.same((await outputOf(t, config('.id'), more)).lines, expected)
    t.same((await outputOf(t, config('[.id, .x]'), input)).lines, expected)

    const cwd = testFolder(t, { 'sluice.yaml': config('.id') })
    const explain = await command(['explain', 'sluice.yaml', `{"id":${ODD}}`], { cwd })
    t.match(explain.stdout, `(.id is ${ODD})`)
    const args = ['simulate', '--config', 'sluice.yaml', '--component', 'limit', '--time', '.t', '--decisions']
    const { stdout } = await command(args, { cwd, stdin: `{"t":0,"id":${ODD}}\n{"t":0,"id":${EVEN}}\n` })
    t.match(stdout, `{"n":0,"decision":"pass","bucket":"${ODD}"}\n{"n":1,"decision":"pass","bucket":"${EVEN}"}\n`)
  },
)

t.test('reduce, grok and gelf keep the digits, too', async t => {
  const merge = '{ .low: min, .high: max, .all: array, .each: unique, .text: concat }'
  const reduce = `
sources: { in: { type: stdin, decode: json } }
processors: { groups: { type: reduce, inputs: [in], key_field: .k, merge: ${merge} } }
destinations: { out: { type: stdout, inputs: [groups] } }
`
  const event = (id: string) => `{"k":1,"id":${id},"low":${id},"high":${id},"all":${id},"each":${id},"text":${id}}\n`
  const { lines } = await outputOf(t, reduce, event(ODD) + event(EVEN) + event(ODD))
  const [all, each] = [`[${ODD},${EVEN},${ODD}]`, `[${ODD},${EVEN}]`]
  const merged = `"low":${EVEN},"high":${ODD},"all":${all},"each":${each},"text":"${ODD} ${EVEN} ${ODD}"`
  t.same(lines, [`{"k":1,"id":${ODD},${merged}}`])

  const keyed = (decode: string) => `
sources: { in: { type: stdin, decode: ${decode} } }
processors: { limit: { type: throttle, inputs: [in], limit: 1, window: 1 Hours, key_field: .id } }
destinations: { out: { type: stdout, inputs: [limit] } }
`
  const gelf = (id: string) => `{"version":"1.1","host":"h","short_message":"m","_id_":1,"_id":${id}}\n`
  t.equal((await outputOf(t, keyed('gelf'), gelf(ODD) + gelf(EVEN) + gelf(ODD))).lines.length, 2, 'gelf')
  const grok = await outputOf(t, keyed("{ codec: grok, pattern: '%{INT:id:int}' }"), `${ODD}\n${EVEN}\n${ODD}\n`)
  t.same(grok.lines, [ODD, EVEN], 'grok')
})

t.test('a configuration with an integer that would lose digits is refused', async t => {
  const config = (value: string) => `sources: { in: { type: stdin } }
processors:
  edit:
    type: edit
    inputs: [in]
    steps: [{ set: { .id: ${value} } }]
destinations: { out: { type: stdout, inputs: [edit] } }
`
  const validate = async (value: string) =>
    command(['validate', 'sluice.yaml'], { cwd: testFolder(t, { 'sluice.yaml': config(value) }) })
  const message = 'is an integer beyond 2^53, which would lose digits; write it in quotes'
  for (const value of [ODD, `-${ODD}`, '0x20000000000001', '9'.repeat(400)]) {
    const { code, stderr } = await validate(value)
    t.equal(code, 78, value)
    t.match(stderr, `sluice.yaml:6:27: processors.edit.steps[0].set.".id": ${message}\n`)
  }
  for (const value of [EVEN, `'${ODD}'`, '1e300', '9007199254740991']) t.equal((await validate(value)).code, 0, value)
})
