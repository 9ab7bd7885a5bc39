import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { HOST, ownPort } from '../support/address.js'
import { type Daemon, type Scrape, startDaemon } from '../support/daemon.js'
import { testFolder } from '../support/folder.js'
import { parsedLines } from '../support/parsed-lines.js'

/** Reloads while events wait in a throttle, with the real daemon. The windows are so long that none ends meanwhile. */

const LIMIT = 20
const WAITS = {
  wait: `limit: ${LIMIT}, window: 1 Hours, over_limit: { wait: 2 Hours }`,
  pace: `limit: ${LIMIT}, window: 1 Hours, on_backlog: pace, max_delay: 2 Hours`,
}
const FILE = 'app: { type: file, include: [app.log], decode: json }'

interface Shape {
  readonly id?: string
  readonly more?: string
  readonly source?: string
  readonly processor?: string
  readonly destination?: string
  readonly top?: string
}

const configOf = (
  throttle: string,
  { id = 'limit_app', more = '', source = FILE, processor = '', destination = '', top = '' }: Shape = {},
) => `
${top}
sources:
  ${source}
processors:
  mark: { type: edit, inputs: [app], steps: [{ set: { .marked: 'yes' } }] }
  ${id}: { type: throttle, inputs: [mark], ${throttle}, ${more} }
  ${processor}
destinations:
  out: { type: file, inputs: [${id}], path: out.ndjson, encoding: json }
  ${destination}
`

const lines = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => `${JSON.stringify({ n: from + i })}\n`).join('')
const all = (to: number) => Array.from({ length: to }, (_, n) => n)

function writtenIn(folder: string): { n: number; marked?: string }[] {
  const whole = readFileSync(join(folder, 'out.ndjson'), 'utf8')
  return parsedLines(whole)
}

const numbersIn = (folder: string) => writtenIn(folder).map(({ n }) => n)

/** Replaces the configuration of a daemon; what the log says of it. */
async function reload(daemon: Daemon, config: string): Promise<string> {
  const head = readFileSync(daemon.configPath, 'utf8').split('\n').slice(0, 2).join('\n')
  const before = daemon.logs().length
  writeFileSync(daemon.configPath, `${head}\n${config}`)
  daemon.child.kill('SIGHUP')
  return daemon.until(() => {
    const said = daemon.logs().slice(before)
    return said.map(({ msg }) => String(msg)).find(msg => /^(configuration reloaded|cannot apply)/.test(msg))
  })
}

const waiting = (daemon: Daemon, events: number) =>
  daemon.scrapedUntil(scrape => scrape.sum('sluice_component_waiting_events') === events)

const throttled = (scrape: Scrape) =>
  ['throttled', 'throttled_backlog'].reduce(
    (sum, reason) => sum + scrape.sum('sluice_component_discarded_events_total', { reason }),
    0,
  )

/** A daemon in which 40 of 60 events wait. */
async function started(t: Test, how: keyof typeof WAITS, shape: Shape = {}) {
  const config = configOf(WAITS[how], shape)
  const folder = testFolder(t, { 'app.log': '' })
  if (how === 'pace') {
    // What is read after a start is backlog if the file was known before.
    appendFileSync(join(folder, 'app.log'), '{"n":-1}\n')
    const first = await startDaemon(t, folder, config)
    await first.scrapedUntil(scrape => scrape.events('out').sent === 1)
    await first.stop(t)
    writeFileSync(join(folder, 'out.ndjson'), '')
  }
  appendFileSync(join(folder, 'app.log'), lines(0, 60))
  const daemon = await startDaemon(t, folder, config)
  await waiting(daemon, 40)
  return { folder, daemon }
}

/** No more and no less than the limit has passed, each once, and the rest still waits. */
async function isFull(t: Test, folder: string, daemon: Daemon, id = 'limit_app'): Promise<void> {
  const scrape = await waiting(daemon, 40)
  scrape.conserves(t)
  t.equal(scrape.events(id).inFlight, 40)
  t.equal(scrape.events('app').received, 60)
  t.same(numbersIn(folder), all(LIMIT))
}

/** After a reload that gives the rest room: everything has passed once, in order. */
async function ends(t: Test, folder: string, daemon: Daemon): Promise<void> {
  await daemon.until(() => numbersIn(folder).length >= 60)
  t.equal(throttled(await waiting(daemon, 0)), 0)
  await daemon.stop(t)
  t.same(numbersIn(folder), all(60), 'each event once, in order')
  t.ok(
    writtenIn(folder).every(({ marked }) => marked === 'yes'),
    'with what was changed before the throttle',
  )
}

for (const how of ['wait', 'pace'] as const) {
  t.test(`over_limit or on_backlog: ${how}: a reload passes on the buckets, and what waits for them`, async t => {
    const { folder, daemon } = await started(t, how)
    // Reads other fields.
    const other = {
      processor: 'odd: { type: filter, inputs: [limit_app], condition: "if (.odd equal \'x\' AND .n greater 3)" }',
      destination: 'more: { type: blackhole, inputs: [odd] }',
    }
    for (const shape of [other, {}, other]) {
      t.equal(await reload(daemon, configOf(WAITS[how], shape)), 'configuration reloaded')
      await isFull(t, folder, daemon)
    }
    t.match(await reload(daemon, configOf('limit: nonsense')), /cannot apply/)
    await isFull(t, folder, daemon)
    // Another limit has buckets of its own, with what waits.
    await reload(daemon, configOf(WAITS[how].replace(`limit: ${LIMIT}`, 'limit: 10'), other))
    await daemon.until(() => numbersIn(folder).length >= LIMIT + 10)
    await waiting(daemon, 30)
    await reload(daemon, configOf('limit: 60, window: 1 Hours'))
    await ends(t, folder, daemon)
  })

  t.test(`${how}: so does one that renames the throttle`, async t => {
    const { folder, daemon } = await started(t, how)
    await reload(daemon, configOf(WAITS[how], { id: 'limit_all', more: 'renamed_from: limit_app' }))
    await isFull(t, folder, daemon, 'limit_all')
    await reload(daemon, configOf('limit: 60, window: 1 Hours', { id: 'limit_all', more: 'renamed_from: limit_app' }))
    await ends(t, folder, daemon)
  })
}

t.test('a reload that fails when it starts gives back the buckets, and what waits for them', async t => {
  const { folder, daemon } = await started(t, 'wait')
  const plugin = `import { defineProcessor, z } from '@sluice-logs/sluice/plugin'
export const broken = defineProcessor({
  contract: 1, type: 'broken', summary: 'Does not start.', options: z.strictObject({}),
  examples: [{ title: 'All', yaml: '' }],
  create: () => ({ process() {}, start() { throw new Error('not here') } }),
})
`
  writeFileSync(join(folder, 'broken.js'), plugin)
  const processor = 'broken: { type: broken, inputs: [mark] }'
  const destination = 'never: { type: blackhole, inputs: [broken] }'
  const config = configOf(WAITS.wait, { top: 'plugins: [./broken.js]', processor, destination })
  await reload(daemon, config)
  await daemon.until(() => daemon.stderr.includes('cannot start: not here'))
  await daemon.scrapedUntil(
    scrape => !scrape.text.includes('component_id="never"') || scrape.events('broken').inFlight === 0,
  )
  await isFull(t, folder, daemon)
  await reload(daemon, configOf('limit: 60, window: 1 Hours'))
  await ends(t, folder, daemon)
})

t.test('what waits of a source that cannot read it again stays, too', async t => {
  const port = await ownPort()
  const source = `app: { type: tcp, listen: "${HOST}:${port}", decode: json }`
  const config = configOf(WAITS.wait, { source })
  const folder = testFolder(t, {})
  const daemon = await startDaemon(t, folder, config)
  await daemon.until(() => daemon.stderr.includes(`:${port}`))
  const client = net.connect(port, HOST)
  t.teardown(() => client.destroy())
  client.write(lines(0, 60))
  await waiting(daemon, 40)
  await reload(daemon, configOf(WAITS.wait, { source, destination: 'more: { type: blackhole, inputs: [limit_app] }' }))
  await isFull(t, folder, daemon)
  await reload(daemon, configOf('limit: 60, window: 1 Hours', { source }))
  await ends(t, folder, daemon)
})

t.test(
  'what waits of a source that a reload changes is read again, and other throttles keep their buckets',
  async t => {
    const shape = (include: string): Shape => ({
      source: `app: { type: file, include: [${include}], decode: json }\n  few: { type: file, include: [few.log] }`,
      // Behind a pause of a busy machine, credit would pass more.
      processor: 'limit_few: { type: throttle, inputs: [few], limit: 3, window: 1 Hours, on_backlog: as_live }',
      destination: 'few_out: { type: file, inputs: [limit_few], path: few.ndjson, encoding: raw }',
    })
    const { folder, daemon } = await started(t, 'wait', shape('app.log'))
    const few = async (from: number, to: number) => {
      appendFileSync(join(folder, 'few.log'), lines(from, to))
      await daemon.scrapedUntil(scrape => scrape.events('limit_few').received === to)
    }
    await few(0, 5)
    await reload(daemon, configOf(WAITS.wait, shape('app.log, more.log')))
    await few(5, 10)
    await waiting(daemon, 20)
    await reload(daemon, configOf('limit: 600, window: 1 Hours', shape('app.log, more.log')))
    await daemon.until(() => new Set(numbersIn(folder)).size === 60)
    t.equal(throttled(await waiting(daemon, 0)), 7, 'of the other throttle')
    await daemon.stop(t)
    t.equal(readFileSync(join(folder, 'few.ndjson'), 'utf8').trimEnd().split('\n').length, 3)
  },
)
