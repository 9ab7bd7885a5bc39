import { appendFileSync, existsSync, readFileSync, renameSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import type { Destination, DestinationContext } from '../../../src/core/component.js'
import { DeliveryError } from '../../../src/core/errors.js'
import { blackhole } from '../../../src/destinations/blackhole.js'
import { file } from '../../../src/destinations/file.js'
import { stdout } from '../../../src/destinations/stdout.js'
import { linesOf, originOf } from '../../support/lines.js'

const signal = new AbortController().signal
const lines = (text: string) => linesOf(text, originOf('text', '/x'))

function contextOf(clock = { now: 0 }, out: NodeJS.WritableStream = new PassThrough()) {
  const log = pino({ level: 'silent' })
  return {
    id: 'out',
    log,
    clock: { now: () => clock.now, wall: () => 0 },
    stdout: out,
  } as unknown as DestinationContext
}

async function create(options: Record<string, unknown>, clock?: { now: number }): Promise<Destination> {
  return file.create(file.options.parse(options), contextOf(clock))
}

t.test('appends, makes folders, keeps what is there', async t => {
  const path = join(t.testdir(), 'a', 'b', 'out.log')
  const first = await create({ path })
  await first.start!(signal)
  t.ok(existsSync(path), 'made at the start, so that a wrong path is seen at once')
  t.equal(statSync(path).mode & 0o777, 0o640)
  await first.write(lines('one\r\ntwo\n'), signal)
  await first.write(lines('unfinished'), signal)
  await first.stop!(signal)
  await first.stop!(signal)
  const second = await create({ path, fsync: true, mode: '0600' })
  await second.write(lines('three\n'), signal)
  await second.stop!(signal)
  t.equal(readFileSync(path, 'utf8'), 'one\r\ntwo\nunfinished\nthree\n', 'a torn last line is ended first')
  const json = await create({ path: join(t.testdirName, 'json'), encoding: 'json' })
  await json.write(lines('x\n'), signal)
  t.same(JSON.parse(readFileSync(join(t.testdirName, 'json'), 'utf8')).message, 'x')
  await json.stop!(signal)
})

t.test('opens a rotated or removed file again', async t => {
  const path = join(t.testdir(), 'out.log')
  const clock = { now: 0 }
  const destination = await create({ path }, clock)
  await destination.write(lines('one\n'), signal)
  renameSync(path, `${path}.1`)
  clock.now += 1000
  await destination.write(lines('two\n'), signal)
  t.equal(readFileSync(`${path}.1`, 'utf8'), 'one\n')
  t.equal(readFileSync(path, 'utf8'), 'two\n')
  unlinkSync(path)
  clock.now += 1000
  await destination.write(lines('three\n'), signal)
  t.equal(readFileSync(path, 'utf8'), 'three\n')
  writeFileSync(path, '')
  await destination.write(lines('four\n'), signal)
  appendFileSync(path, 'theirs\n')
  await destination.write(lines('five\n'), signal)
  t.equal(readFileSync(path, 'utf8'), 'four\ntheirs\nfive\n', 'copied and truncated: it appends')
  await destination.stop!(signal)
})

t.test('a failed write is tried again and says what is wrong', async t => {
  const dir = t.testdir({ blocker: 'a file' })
  const blocked = await create({ path: join(dir, 'blocker', 'out.log') })
  const error = await blocked.start!(signal).then(
    () => undefined,
    e => e,
  )
  t.ok(error instanceof DeliveryError)
  t.match(error, { failure: 'retry', message: /cannot write .*blocker/ })
  const full = await create({ path: '/dev/full' })
  const failed = await full.write(lines('x\n'), signal).then(
    () => undefined,
    e => e,
  )
  t.match(failed, { failure: 'retry', reason: 'enospc', message: /free some space/ })
})

t.test('stdout', async t => {
  const out = new PassThrough()
  const destination = await stdout.create(stdout.options.parse({}), contextOf(undefined, out))
  await destination.write(lines('a\nb\n'), signal)
  await destination.write([], signal)
  t.equal(String(out.read()), 'a\nb\n')
  const json = await stdout.create(stdout.options.parse({ encoding: 'json' }), contextOf(undefined, out))
  await json.write(linesOf('{"a":1}\n', originOf('json')), signal)
  t.equal(String(out.read()), '{"a":1}\n')
  out.on('error', () => {})
  out.destroy()
  await t.rejects(destination.write(lines('x\n'), signal), { failure: 'retry' } as never)
})

t.test('blackhole takes everything', async () => {
  const destination = await blackhole.create({}, contextOf())
  await destination.write(lines('a\n'), signal)
})
