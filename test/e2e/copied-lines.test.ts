import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'

const LINES = ['{"level":"info","n":1}', 'not JSON', '{"n":2', '  {"level":"error"} ']

const config = (inputs: string, rest = '', encoding = 'raw') => `
sources: { log: { type: file, include: [in.log], decode: json } }
${rest}
destinations: { copy: { type: file, inputs: [${inputs}], path: copy.log, encoding: ${encoding} } }
`
const FILTER = `processors: { errors: { type: filter, inputs: [log], condition: "if (NOT .level equal 'error')" } }`
const LIMIT = 'processors: { limit: { type: throttle, inputs: [log], limit: 1000, window: 1 Hours } }'

t.test('lines that are only copied are not decoded, and are as they were', async t => {
  for (const [name, yaml] of [
    ['from a source to a file', config('log')],
    ['behind a throttle without a key', config('limit', LIMIT)],
  ] as const) {
    const folder = testFolder(t)
    writeFileSync(join(folder, 'in.log'), `${LINES.join('\n')}\n`)
    const daemon = await startDaemon(t, folder, yaml)
    const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === LINES.length)
    t.equal(scrape.sum('sluice_not_json_lines_total'), 0, name)
    t.equal(readFileSync(join(folder, 'copy.log'), 'utf8'), `${LINES.join('\n')}\n`, name)
    await daemon.stop(t)
  }
})

t.test('lines that are no JSON are counted as soon as anything looks at events', async t => {
  for (const [name, yaml] of [
    ['a condition', config('errors', FILTER)],
    ['a destination that writes JSON', config('log', '', 'json')],
    ['a disk buffer', config('log').replace('type: file, inputs', 'type: file, buffer: { type: disk }, inputs')],
  ] as const) {
    const folder = testFolder(t)
    writeFileSync(join(folder, 'in.log'), `${LINES.join('\n')}\n`)
    const daemon = await startDaemon(t, folder, yaml)
    await daemon.scrapedUntil(scrape => scrape.sum('sluice_not_json_lines_total') === 2)
    t.pass(name)
    await daemon.stop(t)
  }
})

t.test('records that cannot be read are counted once, whatever becomes of them', async t => {
  for (const encoding of ['raw', 'json']) {
    const folder = testFolder(t)
    writeFileSync(join(folder, 'in.log'), Buffer.from('91018091028181', 'hex'))
    const daemon = await startDaemon(t, folder, config('log', '', encoding).replace('decode: json', 'decode: msgpack'))
    const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 3)
    t.equal(scrape.sum('sluice_not_msgpack_lines_total'), 2, encoding)
    await daemon.stop(t)
  }
})

t.test('a reload begins to decode, and ends it', async t => {
  const folder = testFolder(t)
  writeFileSync(join(folder, 'in.log'), 'no JSON\n')
  const daemon = await startDaemon(t, folder, config('log'))
  const counted = (scrape: { sum(name: string): number }) => scrape.sum('sluice_not_json_lines_total')
  const reload = async (yaml: string, events: number, expected: number) => {
    const before = daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length
    const file = join(folder, 'sluice.yaml')
    const head = readFileSync(file, 'utf8').split('sources:')[0]!
    writeFileSync(file, `${head}${yaml.trimStart()}`)
    daemon.child.kill('SIGHUP')
    await daemon.until(() => daemon.logs().filter(({ msg }) => msg === 'configuration reloaded').length === before + 1)
    appendFileSync(join(folder, 'in.log'), 'no JSON\n')
    const scrape = await daemon.scrapedUntil(scrape => scrape.events('copy').sent === events)
    t.equal(counted(scrape), expected)
  }
  t.equal(counted(await daemon.scrapedUntil(scrape => scrape.events('copy').sent === 1)), 0)
  await reload(config('errors', FILTER), 2, 1)
  await reload(config('log'), 3, 1)
  await daemon.stop(t)
})
