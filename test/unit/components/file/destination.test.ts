import { execFileSync } from 'node:child_process'
import fs, {
  appendFileSync,
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { pino } from 'pino'
import t from 'tap'
import { blackhole } from '../../../../src/components/blackhole/destination.js'
import { calls, type FileCalls, writeDirectly } from '../../../../src/components/file/appended-file.js'
import { FileDestination, fileDestination } from '../../../../src/components/file/destination.js'
import { Stdout, stdout } from '../../../../src/components/stdio/destination.js'
import { JSON_OBJECTS } from '../../../../src/core/codecs/json.js'
import type { Destination, DestinationContext } from '../../../../src/core/component.js'
import { DeliveryError } from '../../../../src/core/errors.js'
import { FileSystems } from '../../../../src/lib/files/disk/file-systems.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { testFolder } from '../../../support/folder.js'
import { until } from '../../../support/until.js'

const signal = new AbortController().signal
const lines = (text: string) => batchesOf(text, originOf('text', '/x'))

function contextOf(clock = { now: 0 }, out: NodeJS.WritableStream = new PassThrough()) {
  const log = pino({ level: 'silent' })
  return {
    id: 'out',
    log,
    clock: { now: () => clock.now, wall: () => 0 },
    stdout: out,
  } as unknown as DestinationContext
}

function create(
  options: Record<string, unknown>,
  clock?: { now: number },
  os?: FileCalls,
  counted = { value: 0 },
): Destination {
  const metrics = { counter: () => counted }
  return new FileDestination(
    fileDestination.options.parse(options),
    { ...contextOf(clock), metrics, isAlone: true } as never,
    os,
  )
}

t.test('appends, makes folders, keeps what is there', async t => {
  const path = join(testFolder(t), 'a', 'b', 'out.log')
  const first = create({ path })
  await first.start!(signal)
  t.ok(existsSync(path), 'made at the start, so that a wrong path is seen at once')
  t.equal(statSync(path).mode & 0o777, 0o640)
  await first.write(lines('one\r\ntwo\n'), signal)
  await first.write(lines('unfinished'), signal)
  await first.stop!(signal)
  await first.stop!(signal)
  const second = create({ path, fsync: true, mode: '0600' })
  await second.write(lines('three\n'), signal)
  await second.stop!(signal)
  t.equal(readFileSync(path, 'utf8'), 'one\r\ntwo\nunfinished\nthree\n', 'a torn last line is ended first')
  const json = create({ path: join(t.testdirName, 'json'), encoding: 'json' })
  await json.write(lines('x\n'), signal)
  t.same(JSON.parse(readFileSync(join(t.testdirName, 'json'), 'utf8')).message, 'x')
  await json.stop!(signal)
})

t.test('a write may begin at any moment after the one before', async t => {
  const path = join(testFolder(t), 'out.log')
  const destination = create({ path })
  for (let ticks = 0; ticks < 20; ticks++) {
    await destination.write(lines('one\n'), signal)
    for (let i = 0; i < ticks; i++) await undefined
    await destination.write(lines('two\n'), signal)
  }
  t.equal(readFileSync(path, 'utf8'), 'one\ntwo\n'.repeat(20))
  await destination.stop!(signal)
})

t.test('opens a rotated or removed file again', async t => {
  const path = join(testFolder(t), 'out.log')
  const clock = { now: 0 }
  const destination = create({ path }, clock)
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
  const dir = testFolder(t, { blocker: 'a file' })
  const blocked = create({ path: join(dir, 'blocker', 'out.log') })
  const error = await blocked.start!(signal).then(
    () => undefined,
    e => e,
  )
  t.ok(error instanceof DeliveryError)
  t.match(error, { failure: 'retry', message: /cannot write .*blocker/ })
  const path = join(dir, 'full.log')
  const failing = (code: string) => {
    const destination = create({ path }, undefined, { ...calls, writev: () => Promise.reject(systemError(code)) })
    return failureOf(destination.write(lines('x\n'), signal))
  }
  t.match(await failing('ENOSPC'), { failure: 'retry', reason: 'enospc', message: /free some space/ })
  t.match(await failing('EFBIG'), { failure: 'retry', reason: 'efbig', message: /rotate it.*LimitFSIZE=.*EFBIG/ })
})

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code })
}

const failureOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    error => error,
  )

/** What happens at one call of writev: it fails before, or after a part of the bytes. */
type Fault = { readonly code: string; readonly partial: boolean }

/** Calls of which the `at`th writev, and every one after it until `faults` are used up, goes wrong. */
function faulty(at: number, faults: readonly Fault[], between = () => {}): FileCalls {
  let count = 0
  let broken: string | undefined
  return {
    ...calls,
    async writev(fd: number, parts: readonly NodeJS.ArrayBufferView[]) {
      if (broken !== undefined) {
        const code = broken
        broken = undefined
        throw systemError(code)
      }
      const fault = faults[count++ - at]
      if (!fault) return calls.writev(fd, parts)
      if (!fault.partial) throw systemError(fault.code)
      const first = parts[0] as Buffer
      broken = fault.code
      const result = await calls.writev(fd, [first.subarray(0, Math.ceil(first.length / 2))])
      between()
      return result
    },
  } as FileCalls
}

const FAULTS: readonly (readonly Fault[])[] = [
  [{ code: 'ENOSPC', partial: true }],
  [{ code: 'EIO', partial: true }],
  [{ code: 'ENOSPC', partial: false }],
  [
    { code: 'ENOSPC', partial: true },
    { code: 'EDQUOT', partial: false },
    { code: 'ENOSPC', partial: true },
  ],
]

t.test('a fault at any write loses no line and tears none', async t => {
  const folder = testFolder(t)
  let number = 0
  for (const [encoding, fsync] of [['raw', false] as const, ['json', true] as const]) {
    for (const faults of FAULTS) {
      for (let at = 0; at < 6; at++) {
        const path = join(folder, `${number++}.log`)
        const link = `${path}.link`
        writeFileSync(path, 'before\n')
        linkSync(path, link)
        const os = faulty(at, faults)
        const pair = [
          create({ path, encoding, fsync }, undefined, os),
          create({ path: link, encoding, fsync }, undefined, os),
        ]
        const requests = Array.from({ length: 8 }, (_, n) => `${n} ${'x'.repeat(50)}\n${n} end\n`)
        // As with max_in_flight: 4 at each of two destinations on one fileDestination; what fails is tried again.
        await Promise.all(
          requests.map(async (text, n) => {
            const request = lines(text)
            while (await failureOf(pair[n % 2]!.write(request, signal))) {}
          }),
        )
        for (const destination of pair) await destination.stop!(signal)
        const found = readFileSync(path, 'latin1').split('\n').slice(0, -1)
        const expected = requests.flatMap(text => text.split('\n').slice(0, -1))
        const messages = found.slice(1).map(line => (encoding === 'json' ? JSON.parse(line).message : line))
        if (found[0] !== 'before') t.fail('what was there is still there')
        if (messages.sort().join() !== expected.sort().join()) t.same(messages, expected, `${encoding}, write ${at}`)
      }
    }
  }
  t.ok(number > 40)
})

t.test('what another process appends during a failed write stays', async t => {
  const path = join(testFolder(t), 'out.log')
  const counted = { value: 0 }
  const os = faulty(0, [{ code: 'ENOSPC', partial: true }], () => appendFileSync(path, 'theirs\n'))
  const destination = create({ path }, undefined, os, counted)
  const request = lines('first line\n')
  t.match(await failureOf(destination.write(request, signal)), { failure: 'retry', reason: 'enospc' })
  t.equal(counted.value, 1, 'counted')
  await destination.write(request, signal)
  t.equal(readFileSync(path, 'utf8'), 'first theirs\nfirst line\n', 'nothing is cut off, and all of it written again')
  appendFileSync(path, 'torn')
  await destination.write(lines('second line\n'), signal)
  t.equal(
    readFileSync(path, 'utf8').slice(24),
    'torn\nsecond line\n',
    'a line that another process left unfinished is ended',
  )
  await destination.stop!(signal)

  const joined = join(t.testdirName, 'joined.log')
  let writes = 0
  const inTwoParts = {
    ...calls,
    async writev(fd: number, parts: Buffer[]) {
      if (writes++ > 0) return calls.writev(fd, parts)
      const result = await calls.writev(fd, [parts[0]!.subarray(0, 5)])
      appendFileSync(joined, 'theirs\n')
      return result
    },
  } as FileCalls
  const other = create({ path: joined }, undefined, inTwoParts, counted)
  t.ok(await failureOf(other.write(request, signal)), 'written in two parts with something in between: not written')
  await other.stop!(signal)

  const json = join(t.testdirName, 'torn.ndjson')
  writeFileSync(json, '{"message":"to')
  const whole = create({ path: json, encoding: 'json' })
  await whole.write(lines('x\n'), signal)
  t.equal(JSON.parse(readFileSync(json, 'utf8').split('\n')[1]!).message, 'x', 'a torn line of JSON is ended, too')
  await whole.stop!(signal)
})

t.test('a line that another process is still writing is not ended', async t => {
  const path = join(testFolder(t), 'out.log')
  let looks = 0
  const os: FileCalls = {
    ...calls,
    // Half a line each time somebody looks, as of a large write.
    size: async fd => {
      if (looks < 4) appendFileSync(path, looks++ % 2 === 0 ? 'half of a line' : ' and the rest\n')
      return await calls.size(fd)
    },
  }
  const destination = create({ path }, undefined, os)
  await destination.start!(signal)
  await destination.write(lines('one\n'), signal)
  await destination.write(lines('two\n'), signal)
  t.equal(readFileSync(path, 'utf8'), 'half of a line and the rest\none\nhalf of a line and the rest\ntwo\n')
  await destination.stop!(signal)
})

t.test('writes are made directly, but not those to a disk that was slow, nor to remote file systems', async t => {
  const path = join(testFolder(t), 'out.log')
  const fd = openSync(path, 'a')
  let now = 0
  let stepMs = 0
  const clock = { now: () => (now += stepMs), wall: () => 0 }
  let inThreads = 0
  const counting = {
    ...calls,
    writev: (...args: Parameters<FileCalls['writev']>) => {
      inThreads++
      return calls.writev(...args)
    },
  }
  let isLocal = true
  const os = writeDirectly(counting, () => isLocal, clock)
  const write = (text: string) => os.writev(fd, [Buffer.from(text)])
  t.same(write('a'), { bytesWritten: 1 }, 'at once')
  isLocal = false
  t.match(await write('b'), { bytesWritten: 1 })
  t.equal(inThreads, 1)
  isLocal = true
  stepMs = 5
  await write('c')
  t.equal(inThreads, 1)
  await write('d')
  t.equal(inThreads, 2)
  closeSync(fd)
  t.equal(readFileSync(path, 'utf8'), 'abcd')
  const closed = writeDirectly(calls, () => true, { now: () => 0, wall: () => 0 })
  t.throws(() => closed.writev(fd, [Buffer.from('x')]), { code: 'EBADF' })
})

t.test('a disk that hangs stops no other destination: only one that is alone writes directly', async t => {
  const folder = testFolder(t)
  const { writevSync } = fs
  const direct: number[] = []
  fs.writevSync = (fd, parts) => {
    direct.push(fd)
    return writevSync(fd, parts)
  }
  t.teardown(() => {
    fs.writevSync = writevSync
  })
  for (const isAlone of [true, false]) {
    const path = join(folder, `${isAlone}.log`)
    const metrics = { counter: () => ({ value: 0 }) }
    const context = { ...contextOf(), metrics, isAlone } as never
    const destination: Destination = new FileDestination(fileDestination.options.parse({ path }), context)
    await destination.write(lines('one\n'), signal)
    t.equal(readFileSync(path, 'utf8'), 'one\n')
    t.equal(direct.length, 1)
    await destination.stop!(signal)
  }
})

t.test('a failed sync takes back what it was for, and only that', async t => {
  const path = join(testFolder(t), 'out.log')
  let fail = 0
  const os: FileCalls = {
    ...calls,
    fdatasync: (async (fd: number) => {
      if (fail-- > 0) throw systemError('EIO')
      await calls.fdatasync(fd)
    }) as FileCalls['fdatasync'],
  }
  const destination = create({ path, fsync: true }, undefined, os)
  await destination.write(lines('safe\n'), signal)
  fail = 1
  const failed = [
    failureOf(destination.write(lines('one\n'), signal)),
    failureOf(destination.write(lines('two\n'), signal)),
  ]
  t.match(await failed[0], { reason: 'eio' })
  await failed[1]
  t.match(readFileSync(path, 'utf8'), /^safe\n(two\n)?$/)
  await destination.write(lines('one\n'), signal)
  t.match(readFileSync(path, 'utf8'), /^safe\n(two\n)?one\n$/)
  await destination.stop!(signal)
})

t.test('after a failed sync the file is opened again, whatever else fails', async t => {
  for (const also of ['fstat', 'ftruncate'] as const) {
    const path = join(testFolder(t), 'out.log')
    const opened: unknown[] = []
    let fails = false
    const failing = (name: 'fdatasync' | 'fstat' | 'ftruncate') => ({
      [name]: (...args: [number]) => (fails ? Promise.reject(systemError(`E${name}`)) : calls[name](...args)),
    })
    const os = {
      ...calls,
      ...failing('fdatasync'),
      ...failing(also),
      open: (...args: Parameters<FileCalls['open']>) => {
        if (args[0] === path) opened.push(path)
        return calls.open(...args)
      },
    } as FileCalls
    const destination = create({ path, fsync: true }, undefined, os)
    await destination.write(lines('safe\n'), signal)
    fails = true
    t.match(await failureOf(destination.write(lines('one\n'), signal)), { failure: 'retry', reason: 'efdatasync' })
    fails = false
    await destination.write(lines('one\n'), signal)
    t.equal(opened.length, 2, also)
    t.equal(readFileSync(path, 'utf8'), 'safe\none\none\n', 'what could not be removed is there twice')
    await destination.stop!(signal)
  }
})

t.test('the size of a file is asked at once, and in another thread on a remote file system', async t => {
  const folder = testFolder(t)
  const appended = async (readMounts: () => string) => {
    const asked: string[] = []
    const os: FileCalls = {
      ...calls,
      fstat: ((fd: number) => {
        asked.push('in a thread')
        return calls.fstat(fd)
      }) as FileCalls['fstat'],
      size: fd => {
        asked.push('at once')
        return calls.size(fd)
      },
    }
    const fileSystems = new FileSystems({ readMounts, probe: () => Promise.resolve() })
    const context = { ...contextOf(), metrics: { counter: () => ({ value: 0 }) }, fileSystems } as never
    const out = new FileDestination(fileDestination.options.parse({ path: join(folder, 'out.log') }), context, os)
    await out.write(lines('x\n'), signal)
    await out.stop!(signal)
    return asked
  }
  t.same(await appended(() => ''), ['at once'])
  t.same(await appended(() => `1 0 0:1 / ${folder} rw - nfs4 server:/x rw\n`), ['in a thread'])
  t.equal(readFileSync(join(folder, 'out.log'), 'utf8'), 'x\nx\n')
})

t.test('only regular files are written, and nothing else is even opened', async t => {
  const folder = testFolder(t)
  const fifo = join(folder, 'fifo')
  execFileSync('mkfifo', [fifo])
  symlinkSync('/dev/null', join(folder, 'device'))
  const cases = { fifo: /FIFO/, device: /device/, '.': /folder/ }
  for (const [name, message] of Object.entries(cases)) {
    const destination = create({ path: join(folder, name) })
    t.match(await failureOf(destination.start!(signal)), { failure: 'hold', reason: 'not_a_regular_file', message })
    await destination.stop!(signal)
  }
  // Put there after the check: opening it must not wait for a reader.
  let hidden = true
  const stat = (async (path: string) => {
    if (hidden) throw systemError('ENOENT')
    return calls.stat(path)
  }) as FileCalls['stat']
  const late = create({ path: fifo }, undefined, { ...calls, stat })
  t.match(await failureOf(late.write(lines('x\n'), signal)), { failure: 'hold' })
  hidden = false
  unlinkSync(fifo)
  await late.write(lines('x\n'), signal)
  t.equal(readFileSync(fifo, 'utf8'), 'x\n', 'goes on when it is a file')
  await late.stop!(signal)
})

t.test('a write that is still running at the end keeps its file open', async t => {
  const path = join(testFolder(t), 'out.log')
  let proceed = () => {}
  const waiting = new Promise<void>(resolve => {
    proceed = resolve
  })
  let closed = 0
  const os = {
    ...calls,
    writev: async (fd: number, parts: Buffer[]) => {
      await waiting
      return calls.writev(fd, parts)
    },
    close: async (fd: number) => {
      closed++
      await calls.close(fd)
    },
  } as FileCalls
  const destination = create({ path }, undefined, os)
  const running = destination.write(lines('one\n'), signal)
  const late = new AbortController()
  const queued = failureOf(destination.write(lines('two\n'), late.signal))
  late.abort(new Error('the time to deliver is over'))
  await destination.stop!(AbortSignal.abort())
  t.equal(closed, 0)
  proceed()
  await running
  t.match(await queued, { message: /time to deliver/ }, 'what had not begun is not written')
  await until(() => closed > 0)
  t.equal(readFileSync(path, 'utf8'), 'one\n')
})

t.test('stdout', async t => {
  const out = new PassThrough()
  const destination = await stdout.create(stdout.options.parse({}), contextOf(undefined, out))
  await destination.write(lines('a\nb\n'), signal)
  await destination.write([], signal)
  t.equal(String(out.read()), 'a\nb\n')
  const json = await stdout.create(stdout.options.parse({ encoding: 'json' }), contextOf(undefined, out))
  await json.write(batchesOf('{"a":1}\n', originOf('json')), signal)
  t.equal(String(out.read()), '{"a":1}\n')
  out.on('error', () => {})
  out.destroy()
  await t.rejects(destination.write(lines('x\n'), signal), { failure: 'retry' } as never)
})

t.test('stdout that is a file on a full disk, or a terminal that stands still', async t => {
  const path = join(testFolder(t), 'out')
  const fd = openSync(path, 'w')
  const os = faulty(1, [
    { code: 'ENOSPC', partial: true },
    { code: 'ENOSPC', partial: false },
  ])
  for (const encoding of ['raw', JSON_OBJECTS] as const) {
    const destination = new Stdout({ encoding }, contextOf(undefined, { fd } as never), os)
    for (const text of ['one\n', 'two\n', 'three\n']) {
      while (await failureOf(destination.write(lines(text), signal))) {}
    }
  }
  const written = readFileSync(path, 'utf8').split('\n')
  t.same(written.slice(0, 4), ['one', 'tw', 'two', 'three'], 'a torn line is ended, and written again')
  t.same(
    written.slice(4, -1).map(line => JSON.parse(line).message),
    ['one', 'two', 'three'],
  )
  closeSync(fd)
  const blocking: boolean[] = []
  const terminal = { isTTY: true, _handle: { setBlocking: (on: boolean) => blocking.push(on) } }
  new Stdout({ encoding: 'raw' }, contextOf(undefined, terminal as never))
  t.same(blocking, [false])
})

t.test('blackhole takes everything', async () => {
  const destination = await blackhole.create({}, contextOf())
  await destination.write(lines('a\n'), signal)
})
