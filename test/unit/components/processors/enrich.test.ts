import { rmSync, writeFileSync } from 'node:fs'
import { arch, hostname } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pino } from 'pino'
import t from 'tap'
import { validate } from '../../../../src/cli/check/validate.js'
import { addressKey, cidrKeys } from '../../../../src/components/processors/enrich/ranges.js'
import { tableOf, tableProblems } from '../../../../src/components/processors/enrich/read-table.js'
import { SearchedTable, TableError } from '../../../../src/components/processors/enrich/table.js'
import { enrich } from '../../../../src/components/processors/enrich.js'
import { atOnce, inSlices } from '../../../../src/lib/steps.js'
import { batchOf, collectLines, linesOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { advanceUntil, ManualTime, settle } from '../../../support/manual-time.js'
import { loadedStageOf } from '../../../support/stage.js'

/** Writes a MaxMind database of IPv4 addresses, as its format is specified: a tree of 32-bit records, and the data. */

/** A buffer is data that are encoded already. */
type Value = string | number | Buffer | { readonly [name: string]: Value }

function maxmindDatabase(entries: Readonly<Record<string, Value>>): Buffer {
  const nodes: (number | Buffer | undefined)[][] = [[undefined, undefined]]
  for (const [range, value] of Object.entries(entries)) {
    const [address, bits] = range.split('/') as [string, string]
    const octets = address.split('.').map(Number)
    let node = 0
    for (let bit = 0; bit < Number(bits); bit++) {
      const side = (octets[bit >> 3]! >> (7 - (bit & 7))) & 1
      if (bit === Number(bits) - 1) nodes[node]![side] = encoded(value)
      else {
        nodes[node]![side] ??= nodes.push([undefined, undefined]) - 1
        node = nodes[node]![side] as number
      }
    }
  }
  const data: Buffer[] = []
  let size = 0
  const tree = Buffer.alloc(nodes.length * 8)
  nodes.flat().forEach((record, n) => {
    if (Buffer.isBuffer(record)) {
      data.push(record)
      size += record.length
    }
    const found = Buffer.isBuffer(record) ? nodes.length + 16 + size - record.length : (record ?? nodes.length)
    tree.writeUInt32BE(found, n * 4)
  })
  const metadata = encoded({
    node_count: nodes.length,
    record_size: 32,
    ip_version: 4,
    database_type: 'Test',
    binary_format_major_version: 2,
    binary_format_minor_version: 0,
    build_epoch: 1,
  })
  return Buffer.concat([tree, Buffer.alloc(16), ...data, Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1'), metadata])
}

function encoded(value: Value): Buffer {
  if (Buffer.isBuffer(value)) return value
  if (typeof value === 'string') return Buffer.concat([Buffer.from([0x40 | value.length]), Buffer.from(value)])
  if (typeof value === 'number') return Buffer.from([0xc4, ...[24, 16, 8, 0].map(by => (value >> by) & 0xff)])
  const members: [string, Value][] = Object.entries(value)
  return Buffer.concat([Buffer.from([0xe0 | members.length]), ...members.flat().map(encoded)])
}

const DEFAULTS = { match: 'exact', column: undefined, columns: undefined, ignore_case: false } as const

function table(file: string, text: string | Buffer, options: object = {}) {
  const made = atOnce(tableOf(file, Buffer.from(text), { ...DEFAULTS, ...options }))
  return (key: string) => {
    const row = made.find(key)
    return row && JSON.parse(row.toString())
  }
}

const problem = (file: string, text: string | Buffer, options: object = {}): string => {
  try {
    table(file, text, options)
    return 'none'
  } catch (error) {
    if (!(error instanceof TableError)) throw error
    return `${error.line}: ${error.message}`
  }
}

async function enriched(options: object, lines: readonly string[]): Promise<string[]> {
  const { stage, wanted } = await loadedStageOf(enrich, options)
  const out: string[] = []
  await pipeline(Readable.from([batchOf(lines, { wanted })]), stage, collectLines(out))
  return out
}

t.test('the event loop turns while a large table is made', async t => {
  const text = Array.from({ length: 100_000 }, (_, n) => `${n},team ${n}\n`).join('')
  let turns = 0
  const count = () => {
    turns++
    next = setImmediate(count)
  }
  let next = setImmediate(count)
  const made = await inSlices(tableOf('a.csv', Buffer.from(`k,team\n${text}`), DEFAULTS))
  clearImmediate(next)
  t.equal(String(made.find('99999')), '{"team":"team 99999"}')
  t.ok(turns > 2, String(turns))
})

t.test('exact keys, from CSV and from both forms of JSON', async t => {
  const csv = 'app,team,tier\ncart,shop,1\n"a,b","x ""y""",\n'
  for (const [file, text, options] of [
    ['o.csv', csv, {}],
    ['o.json', '[{"app":"cart","team":"shop","tier":"1"},{"app":"a,b","team":"x \\"y\\""}]', { column: 'app' }],
    ['o.json', '{"cart":{"team":"shop","tier":"1"},"a,b":{"team":"x \\"y\\""}}', {}],
  ] as const) {
    const find = table(file, text, options)
    t.same(find('cart'), { team: 'shop', tier: '1' })
    t.same(find('a,b'), { team: 'x "y"' })
    t.equal(find('CART'), undefined)
  }
  t.same(table('o.csv', csv, { column: 'team', columns: ['tier'] })('shop'), { tier: '1' })
  t.same(table('o.csv', csv, { ignore_case: true })('CART'), { team: 'shop', tier: '1' })
  t.same(table('o.json', '[{"n":7,"x":[1,{"y":null}]}]')('7'), { x: [1, { y: null }] })
  t.same(table('o.csv', 'a\nx\n')('x'), {}, 'a table with nothing but keys')
})

t.test('the smallest range of addresses that contains an address counts', async t => {
  const find = table(
    'n.csv',
    'net,n\n0.0.0.0/0,all\n10.0.0.0/8,ten\n10.1.0.0/16,one\n10.1.2.3,host\n2001:db8::/32,doc\n2001:db8:0:1::/64,sub\n',
    { match: 'cidr' },
  )
  for (const [address, n] of [
    ['10.1.2.3', 'host'],
    ['10.1.2.4', 'one'],
    ['10.2.0.0', 'ten'],
    ['9.255.255.255', 'all'],
    ['255.255.255.255', 'all'],
    ['::ffff:10.1.2.3', 'host'],
    ['2001:db8::1', 'doc'],
    ['2001:DB8:0:1:ffff::', 'sub'],
  ] as const)
    t.same(find(address), { n }, address)
  for (const other of ['2001:db9::1', 'x', '', '10.1.2', '10.1.2.3/32', 'fe80::1%eth0']) t.equal(find(other), undefined)
  t.equal(addressKey('::ffff:0a01:0203'), addressKey('10.1.2.3'))
  t.equal(addressKey('1::'), addressKey('1:0:0:0:0:0:0:0'))
  t.same(cidrKeys('::ffff:10.0.0.0/104'), cidrKeys('10.0.0.0/8'))
  for (const wrong of ['10.0.0.0/33', '::/129', '::ffff:10.0.0.0/64', '10.0.0.0/', 'x/8'])
    t.equal(cidrKeys(wrong), undefined)
})

t.test('ranges of numbers and of addresses', async t => {
  const find = table('r.csv', 'from,to,n\n200,299,ok\n204,204,none\n500,599,bad\n-1,0.5,odd\n', { match: 'range' })
  for (const [key, n] of Object.entries({ 200: 'ok', 204: 'none', 299: 'ok', 599: 'bad', '0.5': 'odd' }))
    t.same(find(key), { n }, key)
  for (const key of ['300', '199', '600', '0.6', 'x', '']) t.equal(find(key), undefined, key)
  const addresses = table('r.csv', 'n,a,b\nx,10.0.0.9,10.0.1.0\n', { match: 'range', column: ['a', 'b'] })
  t.same(addresses('10.0.0.10'), { n: 'x' })
  t.equal(addresses('10.0.1.1'), undefined)
})

t.test('what is wrong with a table is named with its line', async t => {
  for (const [found, wanted] of [
    [problem('t.csv', ''), '1: is empty; the first line must name the columns'],
    [problem('t.csv', 'a,b\n1,2\n3\n'), '3: has 1 values; the header has 2'],
    [problem('t.csv', 'a,b\nx,1\ny,2\nx,3\n'), '4: repeats the key "x" of line 2'],
    [problem('t.csv', 'a,b\n', { column: 'c' }), '1: has no column "c"; it has a, b'],
    [problem('t.csv', 'a,b\n\nnope,1\n', { match: 'cidr' }), '3: "nope" is neither'],
    [
      problem('t.csv', 'a,b,c\n1,9,x\n5,12,y\n', { match: 'range' }),
      '3: has a range that overlaps the range in line 2',
    ],
    [problem('t.csv', 'a,b,c\n1,9,x\n1,9,y\n', { match: 'range' }), '3: has a range that overlaps the range in line 2'],
    [problem('t.csv', 'a,b\n9,1\n', { match: 'range' }), '2: the end of the range, 1, is before its start, 9'],
    [problem('t.csv', 'a\n1\n', { match: 'range' }), '1: has 1 columns, and 2 must be the key'],
    [problem('t.csv', Buffer.from([0xff])), '1: is not valid UTF-8'],
    [problem('t.json', '{'), '1: is not valid JSON'],
    [problem('t.json', '[1]'), '1: item 0 is not an object'],
    [problem('t.json', '[{"a":"x"},{"b":1}]'), '1: item 1: "a" is missing, or is neither a text nor a number'],
    [problem('t.json', '{"a":1}'), '1: "a" is not an object'],
    [problem('t.mmdb', 'no database'), '1: is not a MaxMind database'],
  ])
    t.equal(found!.slice(0, wanted!.length), wanted)
  t.match(tableProblems({ table: '/nowhere.csv' } as never), [{ isMissing: true }])
  const folder = testFolder(t)
  t.match(tableProblems({ table: folder } as never), [{ message: 'is a folder; name a file in it' }])
})

longTest('a table of any shape is read or refused in bounded time and memory', async t => {
  const columns = Array.from({ length: 300_000 }, (_, n) => `c${n}`).join()
  const before = process.cpuUsage()
  t.same(table('t.csv', `${columns}\n${','.repeat(299_999)}\n`, { columns: ['c1'] })(''), {})
  t.match(problem('t.csv', `a\n${'1\n'.repeat(2_100_000)}`), /has more than 2000000 rows or 8000000 values/)
  t.match(problem('t.csv', `a\n${','.repeat(8_100_000)}`), /has more than 2000000 rows/)
  t.match(problem('t.csv', `a\n${'"'.repeat(5_000_001)}`), /has a quote that is never closed/)
  const { user, system } = process.cpuUsage(before)
  t.ok(user + system < 30e6)
})

t.test('a MaxMind database', async t => {
  const entry = { country: { iso_code: 'SE', names: { en: 'Sweden' } }, city: { geoname_id: 7 } }
  const bytes = maxmindDatabase({ '89.160.20.0/24': entry, '10.0.0.0/8': { country: { iso_code: 'XX' } } })
  t.same(table('g.mmdb', bytes)('89.160.20.9'), entry)
  const find = table('g.mmdb', bytes, { columns: ['country.iso_code', 'city.geoname_id', 'country.__proto__'] })
  t.same(find('89.160.20.9'), { country: { iso_code: 'SE' }, city: { geoname_id: 7 } })
  t.same(find('10.1.2.3'), { country: { iso_code: 'XX' } })
  t.equal(find('89.160.21.9'), undefined)
  const hostile = maxmindDatabase({ '10.0.0.0/8': { constructor: { prototype: { polluted: 'yes' } } } })
  t.ok(table('h.mmdb', hostile, { columns: ['constructor.prototype.polluted'] })('10.1.2.3'))
  t.notOk('polluted' in {}, 'no object of the program is changed')
  t.equal(find('nobody'), undefined)
})

t.test('an entry of a MaxMind database that pointers multiply is refused', async t => {
  // Each value is an array of two pointers to the next one.
  const pointer = (to: number) => [0x20 | (to >> 8), to & 0xff]
  const chain = Buffer.from(
    Array.from({ length: 100 }, (_, n) => [2, 4, ...pointer(6 * n + 6), ...pointer(6 * n + 6)]).flat(),
  )
  const loop = Buffer.from([2, 4, ...pointer(0), ...pointer(0)])
  // As many as the program could hold, in each other.
  const nested = Buffer.from(Array.from({ length: 50 }, () => [0x1f, 4, 0xff, 0xff, 0xff]).flat())
  const bytes = (entry: Buffer) => maxmindDatabase({ '10.0.0.0/8': entry })
  const options = { key_field: '.ip', target: '.geo' }
  for (const [name, entry, why] of [
    ['chain', chain.subarray(0, 6 * 20), 'takes more than 256 KiB'],
    ['deep', chain, 'is nested more than 64 deep'],
    ['loop', loop, 'is nested more than 64 deep'],
    ['nested', nested, 'takes more than 256 KiB'],
  ] as const) {
    const folder = testFolder(t, { 'g.mmdb': bytes(entry) })
    const [event] = await enriched({ ...options, table: join(folder, 'g.mmdb') }, ['{"ip":"10.1.2.3"}'])
    t.match(event, `the entry of 10.1.2.3 cannot be used: it ${why}`, name)
  }
  const metadata = Buffer.concat([Buffer.from('\xab\xcd\xefMaxMind.com', 'latin1'), chain])
  t.match(problem('t.mmdb', metadata), 'is not a MaxMind database: it is nested')
})

t.test(
  'what was found for a text is remembered, unless the text is so long that many would fill the memory',
  async t => {
    const searched: string[] = []
    const found = new SearchedTable(1, text => void searched.push(text))
    const long = 'x'.repeat(65)
    for (const text of ['10.1.2.3', '10.1.2.3', long, long]) found.find(text)
    t.same(searched, ['10.1.2.3', long, long])
  },
)

t.test('the row replaces what was at the target', async t => {
  const folder = testFolder(t, { 'o.csv': 'app,team\na,"x""\u00e4"\n7,seven\n' })
  const options = { table: join(folder, 'o.csv'), key_field: '.app', target: '.meta.owner' }
  t.same(await enriched(options, ['{"app":"a","n":1}', '{"app":7,"meta":{"owner":1,"b":2}}', '{"app":null}']), [
    '{"app":"a","n":1,"meta":{"owner":{"team":"x\\"ä"}}}',
    '{"app":7,"meta":{"owner":{"team":"seven"},"b":2}}',
    '{"app":null}',
  ])
  t.match(await enriched(options, ['{"app":"a","meta":1}']), [/"processing_error":.*cannot be set/])
  t.same(await enriched({ ...options, default: { team: 'nobody' } }, ['{}']), ['{"meta":{"owner":{"team":"nobody"}}}'])
})

longTest('rows that make events much longer may fill 128 MiB in a batch', async t => {
  const row = { row: 'x'.repeat(1_000_000) }
  const folder = testFolder(t, { 'o.json': JSON.stringify({ a: row }) })
  const options = { table: join(folder, 'o.json'), key_field: '.k', target: '.r' }
  const lines = await enriched(options, Array(140).fill('{"k":"a"}'))
  const refused = lines.filter(line => line.includes('would grow to more than 128 MiB together'))
  t.equal(refused.length, 140 - Math.floor((128 * 1024 * 1024) / 1_000_020))
  t.equal(lines[0]!.length, 1_000_000 + '{"k":"a","r":{"row":""}}'.length)
})

t.test('facts about the machine, and its environment', async t => {
  process.env.SLUICE_ENRICH_TEST = 'eu-1'
  t.teardown(() => delete process.env.SLUICE_ENRICH_TEST)
  const options = {
    facts: ['hostname', 'architecture'],
    environment: ['SLUICE_ENRICH_TEST', 'SLUICE_UNSET'],
    target: '.h',
  }
  const [line] = await enriched(options, ['{}'])
  t.same(JSON.parse(line!), { h: { hostname: hostname(), architecture: arch(), SLUICE_ENRICH_TEST: 'eu-1' } })
  t.match(enrich.options.safeParse({ target: '.x' }).error?.issues, [{ path: ['table'] }])
  t.match(enrich.options.safeParse({ ...options, table: 'x' }).error?.issues, [{ path: ['facts'] }, {}, {}])
})

t.test('a table is read again when it changed, and a broken one leaves the rows that there were', async t => {
  const folder = testFolder(t, { 'o.csv': 'app,team\na,one\n' })
  const path = join(folder, 'o.csv')
  const clock = new ManualTime()
  const logged: { msg: string; error?: string }[] = []
  const log = pino({ base: null }, { write: line => void logged.push(JSON.parse(line)) })
  const options = { table: path, key_field: '.app', target: '.o' }
  const { stage, processor, counters, wanted } = await loadedStageOf(enrich, options, { clock, log })
  await processor.start?.(new AbortController().signal)
  t.teardown(() => processor.stop?.(new AbortController().signal))
  const gauge = (name: string) => [...counters.series.get(`sluice_enrich_table_${name}`)![0]!.read()][0]!.value
  const team = async () => {
    stage.write(batchOf(['{"app":"a"}'], { wanted }))
    await settle()
    return (JSON.parse(linesOf(stage.read()!)[0]!) as { o: { team: string } }).o.team
  }
  const lookUntil = async (count: number) => {
    await advanceUntil(clock, `${count} messages`, () => logged.length >= count)
    return logged[count - 1]!
  }
  t.equal(await team(), 'one')
  writeFileSync(path, 'app,team\na,two\nb,x\n')
  t.match(await lookUntil(1), { msg: 'table read again', rows: 2 })
  t.equal(await team(), 'two')
  writeFileSync(path, 'app,team\na\n')
  t.match(await lookUntil(2), { error: /o\.csv:2:1: has 1 values/ })
  t.same([await team(), gauge('valid'), gauge('rows')], ['two', 0, 2])
  rmSync(path)
  t.match(await lookUntil(3), { error: /cannot be read/ })
  writeFileSync(path, 'app,team\na,three\n')
  t.match(await lookUntil(4), { msg: 'table read again' })
  t.same([await team(), gauge('valid'), gauge('rows')], ['three', 1, 1])
})

t.test('validate names what is wrong with a table, with its place', async t => {
  const folder = testFolder(t, { 'o.csv': 'app,team\na,one\nb\n' })
  const yaml = `sources: { in: { type: stdin, decode: json } }
processors:
  owner: { type: enrich, inputs: [in], table: '${folder}/o.csv', key_field: .app, target: .owner }
  other: { type: enrich, inputs: [in], table: '${folder}/none.json', key_field: .app, target: .owner }
destinations: { out: { type: stdout, inputs: [owner, other] } }
`
  writeFileSync(join(folder, 'sluice.yaml'), yaml)
  let stderr = ''
  const out = { stdout: new PassThrough().resume(), stderr: { write: (text: string) => Boolean((stderr += text)) } }
  t.not(await validate([join(folder, 'sluice.yaml')], {}, out as never), 0)
  t.match(stderr, /o\.csv:3:1: has 1 values; the header has 2/)
  t.match(stderr, /sluice\.yaml:4:\d+: processors\.other\.table: warning: .*none\.json cannot be read/)
})
