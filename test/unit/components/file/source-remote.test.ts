import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs, {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { MessagePort } from 'node:worker_threads'
import { gzipSync } from 'node:zlib'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { calls, type FileCalls } from '../../../../src/components/file/appended-file.js'
import { FileDestination, fileDestination } from '../../../../src/components/file/destination.js'
import { compileReads } from '../../../../src/components/file/discovery/glob.js'
import { includeWarnings } from '../../../../src/components/file/discovery/include-warnings.js'
import { readTable, type TableOptions } from '../../../../src/components/processors/enrich/read-table.js'
import { LimitsFile } from '../../../../src/components/processors/throttle/limits-file.js'
import { throttle } from '../../../../src/components/processors/throttle.js'
import type { ComponentContext } from '../../../../src/core/component.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { notifyProgram } from '../../../../src/daemon/systemd/notifier.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import {
  closeSync,
  existsSync,
  fstatSync,
  guardBy,
  openSync,
  prepareCalls,
  readdirSync,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
} from '../../../../src/lib/files/disk/disk.js'
import {
  FileSystems,
  fileSystems,
  MountProbe,
  type SilentFileSystem,
} from '../../../../src/lib/files/disk/file-systems.js'
import { Mounts } from '../../../../src/lib/files/disk/mounts.js'
import { HelperProcess } from '../../../../src/lib/files/helper-process.js'
import { systemClock } from '../../../../src/lib/time.js'
import { AccessKey, auth } from '../../../../src/net/key.js'
import { readTls } from '../../../../src/net/tls-check.js'
import { batchesOf, originOf } from '../../../support/batches.js'
import { built } from '../../../support/checkout.js'
import { testFolder } from '../../../support/folder.js'
import { longTest } from '../../../support/long-test.js'
import { ManualTime, settle } from '../../../support/manual-time.js'
import {
  arrived,
  type MemoryCheckpoints,
  pauseAtEachStat,
  Receiver,
  settled,
  TestTime,
  tail,
} from '../../../support/tailing.js'
import { turns, until } from '../../../support/until.js'

const never = new AbortController().signal

/** Mounts as /proc/self/mountinfo has them: pairs of a folder and a type. */
function mountinfo(...mounts: readonly (readonly [string, string])[]): string {
  const all = [['/', 'ext4'] as const, ...mounts]
  return all.map(([at, type], n) => `${n} 1 0:${n} / ${at} rw,relatime shared:1 - ${type} server:/x rw\n`).join('')
}

/** File systems of a test: those at `folders` are remote. While `isHung`, probes do not return. */
function remoteAt(t: Test, ...folders: readonly string[]) {
  const it = {
    isHung: false,
    probes: [] as string[],
    waiting: [] as (() => void)[],
    /** Lets all probes return. */
    answer() {
      it.isHung = false
      for (const done of it.waiting.splice(0)) done()
    },
    systems: new FileSystems({
      // An answer counts at that moment only, and patience is short.
      clock: {
        wall: systemClock.wall,
        now: (
          () => () =>
            (now += 2000)
        )(),
      },
      after: (_ms, fn) => {
        const timer = setTimeout(fn, 20)
        return () => clearTimeout(timer)
      },
      readMounts: () => mountinfo(...folders.map(folder => [folder, 'nfs4'] as const)),
      async probe(mount) {
        it.probes.push(mount)
        if (it.isHung) await new Promise<void>(resolve => it.waiting.push(resolve))
      },
    }),
  }
  let now = 0
  t.teardown(guardBy(it.systems))
  return it
}

/** Notes the synchronous calls about what `isFar` accepts, by path or by descriptor, and those of other threads, while `isHung`. */
function touches(t: Test, isFar: (path: string) => boolean, it: { readonly isHung: boolean }): string[] {
  const found: string[] = []
  const far = new Set<number>()
  const calls = fs as unknown as Record<string, (...args: unknown[]) => unknown>
  const names = ['statSync', 'readdirSync', 'openSync', 'fstatSync', 'readSync', 'readvSync', 'closeSync', 'watch']
  const originals = names.map(name => [name, calls[name]!] as const)
  for (const [name, call] of originals) {
    calls[name] = (...args) => {
      const [what] = args
      const isTouch = typeof what === 'string' ? isFar(what) : far.has(what as number)
      if (isTouch && it.isHung) found.push(`${name} ${what}`)
      const result = call(...args)
      if (name === 'openSync' && isTouch) far.add(result as number)
      return result
    }
  }
  syncBuiltinESMExports()
  const { postMessage } = MessagePort.prototype
  MessagePort.prototype.postMessage = function (message, ...rest) {
    if (it.isHung) found.push(JSON.stringify(message))
    Reflect.apply(postMessage, this, [message, ...rest])
  }
  t.teardown(() => {
    MessagePort.prototype.postMessage = postMessage
    for (const [name, call] of originals) calls[name] = call
    syncBuiltinESMExports()
  })
  return found
}

function foldersOf(t: Test): { dir: string; far: string; near: string } {
  const dir = testFolder(t, { far: { 'a.log': 'far 1\n' }, near: { 'b.log': 'near 1\n' } })
  return { dir, far: join(dir, 'far'), near: join(dir, 'near') }
}

t.test('which mounts are remote, and which paths lead there', async t => {
  const dir = testFolder(t, { local: { 'a.log': '' } })
  symlinkSync(join(dir, 'far'), join(dir, 'local/link'))
  symlinkSync('link/deeper', join(dir, 'local/again'))
  symlinkSync('.', join(dir, 'local/self'))
  symlinkSync('loop', join(dir, 'loop'))
  const mounts = new Mounts(
    mountinfo(
      [join(dir, 'far'), 'nfs4'],
      [join(dir, 'far/inner'), 'ext4'],
      [join(dir, 'a\\040b'), 'fuse.sshfs'],
      [join(dir, 'lx'), 'fuse.lxcfs'],
      [join(dir, 'twice'), 'cifs'],
      [join(dir, 'twice'), 'tmpfs'],
    ),
  )
  const cases: [string, string | undefined][] = [
    ['far', 'far'],
    ['far/x/y.log', 'far'],
    ['far/inner/y.log', 'far'],
    ['farther/y.log', undefined],
    ['a b/y.log', 'a b'],
    ['lx/y.log', undefined],
    ['twice/y.log', undefined],
    ['local/a.log', undefined],
    ['local/link/a.log', 'far'],
    ['local/self/self/again/a.log', 'far'],
    ['local/../far', 'far'],
    ['none/a.log', undefined],
    ['loop/a.log', undefined],
  ]
  for (const [path, mount] of cases) t.equal(mounts.remoteOn(`${dir}/${path}`), mount && join(dir, mount), path)
  t.equal(new Mounts('1 1 0:1 / / rw - 9p x rw\n').remoteOn(dir), undefined, 'without its root nothing works')
  t.equal(new FileSystems().mountOf('/proc/self/status'), undefined, 'of this machine')
})

t.test('a file system is asked once at a time, and nobody waits longer than a moment', async t => {
  const time = new ManualTime()
  const answers: (() => void)[] = []
  const systems = new FileSystems({
    clock: time,
    after: time.after,
    readMounts: () => mountinfo(['/a', 'nfs4'], ['/b', 'cifs'], ['/c', 'nfs4'], ['/d', 'nfs4']),
    probe: () => new Promise(resolve => answers.push(resolve)),
  })
  t.equal(systems.silentAt('/a/x'), undefined, 'not asked yet')
  const both = Promise.all([systems.answers('/a'), systems.answers('/a')])
  t.equal(answers.length, 1)
  await time.advance(3000)
  t.same(await both, [false, false])
  t.equal(systems.silentAt('/a/x/y'), '/a')
  t.equal(await systems.answers('/a'), false, 'at once')
  t.equal(answers.length, 1, 'the same probe')
  await t.rejects(
    systems.run('/a/x', async () => 1),
    { code: 'SLUICE_FILE_SYSTEM_SILENT' },
  )
  answers[0]!()
  await settle()
  t.equal(systems.silentAt('/a/x'), undefined)
  t.equal(await systems.answers('/a'), true, 'it answered just now')
  answers.length = 0

  const began: string[] = []
  const returns = new Map<string, () => void>()
  const call = (path: string) => {
    const result = systems.run(path, () => {
      began.push(path)
      return new Promise<void>(resolve => returns.set(path, resolve))
    })
    for (const answer of answers.splice(0)) answer()
    return result
  }
  const reply = async () => {
    await settle()
    for (const answer of answers.splice(0)) answer()
    await settle()
  }
  const calls = ['/b/1', '/b/2', '/c/1', '/d/1', '/local'].map(call)
  const failed = Promise.all(
    [calls[1], calls[3]].map(call =>
      t.rejects(call!, /has to wait: calls to it or to other file systems do not return/),
    ),
  )
  await reply()
  t.same(began.sort(), ['/b/1', '/c/1', '/local'], 'one of each file system, two in all; local ones at once')
  await time.advance(10_000)
  await failed
  returns.get('/b/1')!()
  await settle()
  void call('/d/2')
  await reply()
  t.ok(began.includes('/d/2'), 'a call that returns makes room')
})

t.test('file systems are asked by one process, or by a thread where there is none', async t => {
  const folder = testFolder(t, { bin: {} })
  const calls = join(folder, 'calls')
  // It is ended by a signal once, and asked again.
  const stat = `#!/bin/sh\necho "$@" >> ${calls}\n[ $(wc -l < ${calls}) -gt 1 ] || kill -TERM $$\n`
  writeFileSync(join(folder, 'bin/stat'), stat, { mode: 0o755 })
  const { PATH } = process.env
  t.teardown(() => (process.env.PATH = PATH))
  process.env.PATH = `${folder}/bin:${PATH}`
  // Nobody is kept from ending by a probe.
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  const probe = new MountProbe()
  await probe.ask("/not there's one")
  await Promise.all([probe.ask('/a'), probe.ask('/b')])
  const asked = readFileSync(calls, 'utf8').trimEnd().split('\n')
  t.same(asked.slice(0, 2), ["-f -- /not there's one", "-f -- /not there's one"])
  t.same(asked.slice(2).sort(), ['-f -- /a', '-f -- /b'])
  process.env.PATH = folder

  // What is told to systemd goes the same way, with a helper that runs.
  const helper = new HelperProcess()
  process.env.PATH = PATH
  const notify = '#!/bin/sh\nprintf "%s,$NOTIFY_SOCKET,$(ps -o comm= $PPID) " "$@" >> "${0%/*}/../told"\n'
  writeFileSync(join(folder, 'bin/systemd-notify'), notify, { mode: 0o755 })
  const send = notifyProgram('/run/x', `${folder}/bin:${PATH}`, helper)
  await send({ READY: '1' })
  helper.start()
  await send({ STATUS: 'it is\n "fine" $HOME' })
  const [first, second] = readFileSync(join(folder, 'told'), 'utf8').split('--').slice(1)
  t.match(first, /READY=1,\/run\/x,node(-MainThread)? $/)
  t.match(second, /STATUS=it is {2}"fine" \$HOME,\/run\/x,timeout $/)
  writeFileSync(join(folder, 'bin/systemd-notify'), '#!/bin/sh\nexit 3\n')
  await t.rejects(send({ READY: '1' }), { message: 'systemd-notify: exit code 3' })
  process.env.PATH = folder
  const alone = new MountProbe()
  await alone.ask('/')
  await alone.ask('/none')
})

t.test('a probe that cannot be made is made again, and by a thread while no process can be started', async t => {
  const script = `
import { openSync } from 'node:fs'
import { MountProbe } from '${built}/src/lib/files/disk/file-systems.js'
import { HelperProcess } from '${built}/src/lib/files/helper-process.js'
const helper = new HelperProcess()
try {
  for (;;) openSync('/dev/null', 'r')
} catch {}
await new MountProbe(helper).ask('/')
console.log(helper.isRunning)
`
  const child = spawn('sh', ['-c', 'ulimit -n 64; exec "$0" --input-type=module --eval "$1"', process.execPath, script])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += data))
  await once(child, 'close')
  t.equal(output, 'false\n', 'without a free descriptor')

  // A variable that is longer than the kernel allows.
  process.env.LONG = 'x'.repeat(200_000)
  const helper = new HelperProcess()
  try {
    await new MountProbe(helper).ask('/')
  } finally {
    delete process.env.LONG
  }
  t.notOk(helper.isRunning)

  let now = 0
  let probes = 0
  const probe = () => (++probes === 1 ? Promise.reject(new Error('EMFILE')) : Promise.resolve())
  const systems = new FileSystems({
    clock: { now: () => (now += 2000), wall: () => 0 },
    readMounts: () => mountinfo(['/a', 'nfs4']),
    probe,
  })
  for (let i = 0; i < 2; i++) t.equal(await systems.answers('/a'), true)
  t.equal(probes, 2)
})

t.test('calls about remote files: the same answers, and none is waited for long', async t => {
  const { dir, far } = foldersOf(t)
  symlinkSync('a.log', join(far, 'link'))
  mkdirSync(join(far, 'folder'))
  const file = join(far, 'a.log')
  const fifo = join(far, 'fifo')
  execFileSync('mkfifo', [fifo])
  let isHung = false
  let answer = () => {}
  const systems = new FileSystems({
    readMounts: () => mountinfo([far, 'nfs4']),
    probe: () => new Promise<void>(resolve => (isHung ? (answer = resolve) : resolve())),
  })
  t.teardown(guardBy(systems))
  await prepareCalls()
  t.same(statSync(file, { bigint: true }), fs.statSync(file, { bigint: true }))
  t.ok(statSync(file).isFile())
  t.equal(statSync(join(far, 'none'), { throwIfNoEntry: false }), undefined)
  t.same(readdirSync(far).sort(), ['a.log', 'fifo', 'folder', 'link'])
  const kinds = readdirSync(far, { withFileTypes: true }).map(
    one => `${one.name} ${one.isDirectory()} ${one.isSymbolicLink()}`,
  )
  t.same(kinds.sort(), ['a.log false false', 'fifo false false', 'folder true false', 'link false true'])
  t.equal(realpathSync(join(far, 'link')), file)
  t.equal(readlinkSync(join(far, 'link')), 'a.log')
  const fd = openSync(file, fs.constants.O_RDONLY)
  t.equal(fstatSync(fd).size, 6)
  const bytes = Buffer.alloc(8, '.')
  t.equal(readSync(fd, bytes, 1, 6, 2), 4)
  t.equal(String(bytes), '.r 1\n...')
  closeSync(fd)
  await until('closed', () => !fs.existsSync(`/proc/self/fd/${fd}`))
  const thrown = (call: () => unknown) => {
    try {
      call()
    } catch (error) {
      return { ...(error as Error), message: (error as Error).message }
    }
  }
  for (const path of [join(far, 'none'), join(file, 'x')])
    t.same(
      thrown(() => statSync(path)),
      thrown(() => fs.statSync(path)),
    )

  isHung = true
  // Without a writer, opening it does not return.
  const began = performance.now()
  t.throws(() => openSync(fifo, fs.constants.O_RDONLY), { code: 'SLUICE_FILE_SYSTEM_SILENT', mount: far })
  const took = performance.now() - began
  t.ok(took > 900, `${took} ms`)
  t.equal(systems.silentAt(file), far)
  const times = Array.from({ length: 5 }, () => {
    const began = performance.now()
    t.throws(() => statSync(file), { message: `the file system at ${far} does not answer` })
    return performance.now() - began
  })
  // A machine that does other things makes some of them late, and none of them early.
  t.ok(Math.min(...times) < 500, 'at once')
  t.ok(statSync(dir), 'others are at hand')
  t.equal(await systems.stuck(), far)
  answer()
  await settle()
  t.equal(systems.silentAt(file), far, 'the call has not returned')
  const writer = fs.openSync(fifo, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK)
  await systems.answered(far)
  t.equal(systems.silentAt(file), undefined)
  t.equal(await systems.stuck(), undefined)
  t.throws(() => fs.writeSync(writer, 'x'), { code: 'EPIPE' }, 'what was opened for nobody was closed')
  fs.closeSync(writer)
  t.ok(statSync(file), 'by another thread')
})

t.test('a folder that does not answer stops nobody else, and is read again by itself', async t => {
  const { far, near } = foldersOf(t)
  const it = remoteAt(t, far)
  it.isHung = true
  const touched = touches(t, path => path.startsWith(far), it)
  const source = await tail({ include: [`${far}/*.log`] }, undefined, undefined, undefined, undefined, it.systems)
  const other = await tail({ include: [`${near}/*.log`] }, undefined, undefined, undefined, undefined, it.systems)
  await until('the other source', () => other.out.texts().length === 1)
  const silent = () => source.value('sluice_file_systems_silent')
  await until('seen', () => silent() === 1)
  await until('reported', () => it.systems.silentAt(far) === far && source.log.length > 0)
  appendFileSync(join(near, 'b.log'), 'near 2\n')
  await until('the other source goes on', () => other.out.texts().length === 2)
  t.same(source.out.texts(), [])
  t.same(it.probes, [far], 'one probe, however often it was looked for')
  const told = () => source.log.map(({ level, msg }) => `${level} ${msg}`)
  t.same(told(), ['50 file system does not answer; its files are read when it answers again'])
  t.match(source.log[0], { code: 'SLUICE_FILE_SYSTEM_SILENT', folder: far })
  it.answer()
  await until('read', () => source.out.texts().length === 1)
  t.match(told().join(), /,30 file system answers again/)
  t.equal(silent(), 0)

  it.isHung = true
  await until('silent again', () => silent() === 1)
  // What was under way when the server went away is not meant.
  touched.length = 0
  appendFileSync(join(far, 'a.log'), 'far 2\n')
  writeFileSync(join(far, 'c.log'), 'new\n')
  const probes = it.probes.length
  await until('still', () => source.value('sluice_file_systems_silent') === 1)
  await source.scanned(2)
  t.same(source.out.texts(), ['far 1'])
  t.same(touched, [], 'nothing of it is touched')
  t.equal(it.probes.length, probes)
  it.answer()
  await until('all is read', () => source.out.texts().length === 3)
  t.same(source.out.texts().sort(), ['far 1', 'far 2', 'new'])
  await Promise.all([source.stop(), other.stop()])
})

t.test('files elsewhere are rotated and found while a folder of the same source does not answer', async t => {
  const { far, near } = foldersOf(t)
  const it = remoteAt(t, far)
  const include = [`${far}/*`, `${near}/*.log`]
  const run = await tail({ include }, undefined, undefined, undefined, undefined, it.systems)
  await until('both are read', () => run.out.texts().length === 2)
  // It waits until it is complete.
  writeFileSync(join(far, 'a.log.1.gz'), gzipSync('compressed\n'))
  await run.scanned(1)
  it.isHung = true
  await until('it is silent', () => run.value('sluice_file_systems_silent') === 1)
  const touched = touches(t, path => path.startsWith(far), it)
  renameSync(join(near, 'b.log'), join(near, 'b.log.1'))
  writeFileSync(join(near, 'b.log'), 'rotated\n')
  writeFileSync(join(near, 'c.log'), 'new\n')
  await until('the files elsewhere are read', () => run.out.texts().length === 4)
  t.same(run.out.texts().slice(2).sort(), ['new', 'rotated'])
  t.same(touched, [])
  appendFileSync(join(far, 'a.log'), 'far 2\n')
  it.answer()
  await until('it is read on', () => run.out.texts().length === 6)
  t.same(run.out.texts().slice(4).sort(), ['compressed', 'far 2'])
  await run.stop()
})

t.test('a call that was late is waited for longer when it is made again', async t => {
  const { far } = foldersOf(t)
  const systems = new FileSystems({ readMounts: () => mountinfo([far, 'nfs4']), probe: async () => {} })
  const waited: number[] = []
  let isLate = true
  const thread = {
    ready: Promise.resolve(),
    ended: Promise.resolve(),
    hasFailed: false,
    call(_call: unknown, ms: number) {
      waited.push(ms)
      return isLate ? undefined : { result: true }
    },
  }
  t.teardown(guardBy(systems, () => thread))
  const call = async (path: string) => {
    try {
      existsSync(join(far, path))
    } catch {
      await systems.answered(far)
    }
  }
  for (const path of ['a', 'a', 'a', 'a', 'b']) await call(path)
  isLate = false
  for (const path of ['a', 'a', 'b']) await call(path)
  t.same(waited, [1000, 2000, 4000, 5000, 1000, 5000, 1000, 2000])
})

t.test('a call that does not return is not made again, and takes no threads from other file systems', async t => {
  const { far, near } = foldersOf(t)
  const systems = new FileSystems({
    after: (_ms, fn) => {
      const timer = setTimeout(fn, 1)
      return () => clearTimeout(timer)
    },
    readMounts: () => mountinfo([far, 'nfs4'], [near, 'cifs']),
    probe: async () => {},
  })
  const made: string[] = []
  const ends: (() => void)[] = []
  const newThread = () => ({
    ready: Promise.resolve(),
    ended: new Promise<void>(resolve => ends.push(resolve)),
    hasFailed: false,
    call({ args }: { readonly args: readonly unknown[] }) {
      made.push(String(args[0]))
      return String(args[0]).includes('stuck') ? undefined : { result: true }
    },
  })
  t.teardown(guardBy(systems, newThread))
  const call = async (path: string) => {
    try {
      return existsSync(path)
    } catch (error) {
      await systems.answered((error as SilentFileSystem).mount)
      return undefined
    }
  }
  const stuck = Array.from({ length: 8 }, (_, n) => join(far, `stuck ${n}`))
  for (const path of stuck) for (let i = 0; i < 3; i++) t.equal(await call(path), undefined)
  t.same(made.splice(0), stuck, 'each of them once')
  t.equal(await call(join(far, 'a.log')), undefined, 'no more threads for this one')
  t.equal(await call(join(near, 'b.log')), true)
  t.same(made.splice(0), [join(near, 'b.log')])
  ends[0]!()
  await settle()
  t.equal(await call(join(far, 'a.log')), true, 'one has returned')
  t.equal(await call(stuck[0]!), undefined)
  t.same(made, [join(far, 'a.log'), stuck[0]])
})

/** A thread that makes the calls at once, and leaves those that `isForgotten` accepts without an answer for a moment. */
function forgetful(isForgotten: (nth: number, name: string, file: unknown) => boolean) {
  const it = { calls: 0, name: '', newThread }
  const calls = fs as unknown as Record<string, (...args: unknown[]) => unknown>
  function newThread() {
    let end = () => {}
    const ended = new Promise<void>(resolve => (end = resolve))
    const call = ({ name, args }: { name: string; args: readonly unknown[] }) => {
      if (isForgotten(++it.calls, name, args[0])) {
        it.name = `${name} ${args[0]}`
        setImmediate(end)
        return undefined
      }
      try {
        if (name !== 'readSync') return { result: calls[name]!(...args) }
        const [fd, length, at] = args as [number, number, number]
        const bytes = new Uint8Array(length)
        return { result: bytes.subarray(0, fs.readSync(fd, bytes, 0, length, at)) }
      } catch (error) {
        return { error: error as Error }
      }
    }
    return { ready: Promise.resolve(), ended, hasFailed: false, call }
  }
  return it
}

/** Reads a file through rotations of all kinds, while nothing reads it and while something does: how many calls that takes. */
async function rotate(t: Test, folder: string, nth: number): Promise<number> {
  mkdirSync(folder)
  const path = (name = '') => join(folder, `app.log${name}`)
  const thread = forgetful(n => n === nth)
  const systems = new FileSystems({ readMounts: () => mountinfo([folder, 'nfs4']), probe: async () => {} })
  const undo = guardBy(systems, thread.newThread)
  const options = { include: [`${folder}/*`], exclude: ['*.gz'], scan_interval: '30ms', max_open_files: 1 + (nth % 3) }
  const out = new Receiver()
  const has = (...numbers: number[]) =>
    until(() => numbers.every(number => out.texts().includes(String(number))), {
      show: () => `call ${nth} (${thread.name}): ${out.texts()}`,
    })
  writeFileSync(path(), '1\n2\n')
  const first = await tail(options, undefined, out, undefined, undefined, systems)
  await has(1, 2)
  // It is not delivered before the end, and renamed meanwhile.
  out.hold = true
  writeFileSync(join(folder, 'b.log'), '0\n')
  await has(0)
  await first.stop()
  out.hold = false
  out.lines.pop()
  renameSync(join(folder, 'b.log'), join(folder, 'b.log.1'))
  writeFileSync(path('.2.gz'), gzipSync('1\n2\n3\n'))
  rmSync(path())
  writeFileSync(path('.1'), '4\n')
  writeFileSync(path(), '5\n')
  const source = await tail(options, first.checkpoints, out, undefined, undefined, systems)
  await has(0, 3, 4, 5)
  // One that was just compressed holds up what comes behind it.
  rmSync(path('.2.gz'))
  appendFileSync(path(), '6\n')
  copyFileSync(path(), path('.3'))
  writeFileSync(path(), '7\n')
  await has(6, 7)
  appendFileSync(path(), '8\n')
  renameSync(path(), path('.4'))
  writeFileSync(path(), '9\n')
  await has(8, 9)
  await source.stop()
  undo()
  const told = source.log.filter(({ level, code }) => level >= 50 && code !== 'SLUICE_FILE_SYSTEM_SILENT')
  t.same(told, [], `call ${nth}: nothing is lost, nothing is given up`)
  t.same(out.texts().map(Number).sort(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], `call ${nth}: ${thread.name}`)
  t.same(out.texts().slice(-2), ['8', '9'], `call ${nth}: what was renamed comes before what took its name`)
  return thread.calls
}

longTest('wherever in a sweep a file system stops to answer, every line is read once', async t => {
  const dir = testFolder(t)
  const calls = await rotate(t, join(dir, 'none'), 0)
  t.ok(calls > 100, `${calls} calls`)
  // Each of them was tried when this was written; one in ten takes three seconds.
  for (let nth = 1; nth <= calls; nth += 10) await rotate(t, join(dir, String(nth)), nth)
})

t.test('a file waits for the one whose name it took, when that cannot be read', async t => {
  const folder = testFolder(t, { 'app.log': '1\n' })
  const path = join(folder, 'app.log')
  const opened = new Set<unknown>()
  let [isRenamed, isForgotten] = [false, false]
  // The first call about the renamed file after the new one was opened is not answered.
  const { newThread } = forgetful((_nth, name, file) => {
    if (isRenamed && name === 'openSync') opened.add('next')
    if (name !== 'fstatSync' || isForgotten || opened.size === 0) return false
    if (opened.delete('next')) opened.add(file)
    if (opened.has(file)) return false
    return (isForgotten = true)
  })
  const systems = new FileSystems({ readMounts: () => mountinfo([folder, 'nfs4']), probe: async () => {} })
  t.teardown(guardBy(systems, newThread))
  const source = await tail({ include: [`${folder}/*`] }, undefined, undefined, undefined, undefined, systems)
  await arrived(source, 1)
  pauseAtEachStat(t)
  appendFileSync(path, '2\n')
  renameSync(path, `${path}.1`)
  writeFileSync(path, '3\n')
  isRenamed = true
  await settled(source, 3)
  t.ok(isForgotten)
  t.same(source.out.texts(), ['1', '2', '3'])
  await source.stop()
})

t.test('a mount point or a link among the copies that does not answer keeps no other file waiting', async t => {
  const { far, near } = foldersOf(t)
  const [path, mount] = [join(near, 'b.log'), join(near, 'aaa.gz')]
  const it = remoteAt(t, far, mount)
  const start = (checkpoints?: MemoryCheckpoints) =>
    tail({ include: [path] }, checkpoints, undefined, undefined, undefined, it.systems)
  const run = await start()
  await settled(run, 1)
  await run.stop()
  appendFileSync(path, 'near 2\n')
  writeFileSync(`${path}.1.gz`, gzipSync(readFileSync(path)))
  rmSync(path)
  mkdirSync(mount)
  symlinkSync(join(far, 'a.log'), join(near, 'aab.gz'))
  symlinkSync(far, join(near, 'archive-2026'))
  it.isHung = true
  for (const folder of [far, mount]) t.equal(await it.systems.answers(folder), false)
  const next = await start(run.checkpoints)
  await settled(next, 1)
  t.same(next.out.texts(path), ['near 2'])
  writeFileSync(path, 'near 3\n')
  await settled(next, 2)
  it.answer()
  await next.stop()
})

t.test('compressed files that do not answer leave their inflaters to another one', async t => {
  const dir = testFolder(t, { far: {}, near: {} })
  const [far, near] = [join(dir, 'far'), join(dir, 'near')]
  const count = 16
  const bytes = gzipSync(`${'x'.repeat(63 * 1024)}\n`.repeat(40))
  for (let i = 0; i < count; i++) writeFileSync(join(far, `${i}.gz`), bytes)
  const it = remoteAt(t, far)
  let open: (() => void) | undefined
  const begun = new Set<string>()
  const out = new (class extends Receiver {
    override async send(batch: EventBatch): Promise<void> {
      await super.send(batch)
      begun.add(batch.origin.path!)
      if (begun.size === count && !open) await new Promise<void>(resolve => (open = resolve))
    }
  })()
  const clock = new TestTime()
  clock.ms = 2000
  const run = await tail({ include: [join(dir, '*/*.gz')] }, undefined, out, clock, undefined, it.systems)
  await until('all inflaters to be in use', () => open !== undefined)
  const path = join(near, 'last.gz')
  writeFileSync(path, gzipSync('near\n'))
  await until('the other file to be found', () => run.log.some(({ file, level }) => file === path && level === 30))
  it.isHung = true
  t.equal(await it.systems.answers(far), false)
  open?.()
  await until('the other file', () => out.texts().includes('near'))
  it.answer()
  await until('the rest', () => out.lines.length === 40 * count + 1)
  await run.stop()
})

t.test('a link to a folder that does not answer; what is open elsewhere is read on; an end is an end', async t => {
  const { dir, far, near } = foldersOf(t)
  mkdirSync(join(dir, 'links'))
  symlinkSync(join(far, 'a.log'), join(dir, 'links/a.log'))
  symlinkSync(join(near, 'b.log'), join(dir, 'links/b.log'))
  const it = remoteAt(t, far)
  const touched = touches(t, path => path.startsWith(far) || path === join(dir, 'links/a.log'), it)
  const include = { include: [`${dir}/links/*.log`] }
  const source = await tail(include, undefined, undefined, undefined, undefined, it.systems)
  await until('both', () => source.out.texts().length === 2)
  it.isHung = true
  await until('seen', () => source.value('sluice_file_systems_silent') === 1)
  touched.length = 0
  appendFileSync(join(near, 'b.log'), 'near 2\n')
  await until('a file of another file system', () => source.out.texts().length === 3)
  appendFileSync(join(far, 'a.log'), 'far 2\n')
  await source.stop()
  t.notOk(source.out.texts().includes('far 2'))
  t.same(touched, [], 'at the end, too')
  it.answer()
  const next = await tail(include, source.checkpoints, undefined, undefined, undefined, it.systems)
  await until('where it was', () => next.out.texts().length === 1)
  t.same(next.out.texts(), ['far 2'])
  await next.stop()
})

t.test('follow: false waits for the answer; a read that does not return keeps nobody from stopping', async t => {
  const { far } = foldersOf(t)
  const it = remoteAt(t, far)
  it.isHung = true
  const options = { include: [`${far}/*.log`], follow: false }
  const source = await tail(options, undefined, undefined, undefined, undefined, it.systems)
  await until('seen', () => source.value('sluice_file_systems_silent') === 1)
  let isOver = false
  void source.run.then(() => (isOver = true))
  await turns()
  t.notOk(isOver)
  it.answer()
  await source.run
  t.same(source.out.texts(), ['far 1'])
  await source.stop()

  const hung = remoteAt(t, far)
  void hung.systems.run(join(far, 'x'), () => new Promise(() => {}))
  await settle()
  const reading = await tail({ include: [`${far}/*.log`] }, undefined, undefined, undefined, undefined, hung.systems)
  await until('opened', () => reading.value('sluice_files_open') === 1)
  hung.isHung = true
  await reading.stop()
  t.same(reading.out.texts(), [])
})

t.test('a read that does not return keeps no other file of its source waiting', async t => {
  const { far, near } = foldersOf(t)
  const it = remoteAt(t, far)
  const { readv } = fs
  let isArmed = false
  let release = () => {}
  const calls = fs as { readv: unknown }
  calls.readv = (...args: Parameters<typeof readv>) => {
    if (!isArmed) return readv(...args)
    isArmed = false
    it.isHung = true
    release = () => readv(...args)
  }
  syncBuiltinESMExports()
  t.teardown(() => {
    calls.readv = readv
    syncBuiltinESMExports()
  })
  const options = { include: [`${far}/*.log`, `${near}/*.log`] }
  const source = await tail(options, undefined, undefined, undefined, undefined, it.systems)
  await until('both', () => source.out.texts().length === 2)
  isArmed = true
  appendFileSync(join(far, 'a.log'), 'far 2\n')
  await until('it is read', () => it.isHung)
  appendFileSync(join(near, 'b.log'), 'near 2\n')
  await until('the other file', () => source.out.texts().includes('near 2'))
  release()
  it.answer()
  await until('the rest', () => source.out.texts().includes('far 2'))
  t.same(source.out.texts().sort(), ['far 1', 'far 2', 'near 1', 'near 2'])
  t.notOk(source.log.some(({ msg }) => msg.startsWith('cannot read file')))
  await source.stop()
})

t.test('a destination in a folder that does not answer fails, and tries again', async t => {
  const { far } = foldersOf(t)
  const it = remoteAt(t, far)
  const path = join(far, 'out.log')
  const context = {
    id: 'out',
    log: pino({ level: 'silent' }),
    clock: systemClock,
    metrics: new ComponentCounters('out', 'destination', 'file'),
    fileSystems: it.systems,
  }
  const destination = new FileDestination(fileDestination.options.parse({ path }), context as never)
  it.isHung = true
  await destination.claim()
  await t.rejects(destination.write(batchesOf('1\n', originOf('text')), never), {
    failure: 'retry',
    message: `cannot write ${path} (the file system at ${far} does not answer)`,
  })
  it.answer()
  await settle()
  await destination.write(batchesOf('1\n', originOf('text')), never)
  t.equal(readFileSync(path, 'utf8'), '1\n')
  t.same([...new Set(it.probes)], [far])
  await destination.stop(never)
})

t.test('a destination keeps its file while its folder does not answer, and closes what it cannot use', async t => {
  const { far } = foldersOf(t)
  const it = remoteAt(t, far)
  const path = join(far, 'out.log')
  const told: string[] = []
  let now = 0
  let hangsAt: string | undefined
  const os = {
    ...calls,
    open: async (...args: Parameters<FileCalls['open']>) => {
      const fd = await calls.open(...args)
      if (args[0] === hangsAt) it.isHung = true
      return fd
    },
  } as FileCalls
  const context = {
    id: 'out',
    log: pino({ level: 'info' }, { write: (line: string) => told.push(JSON.parse(line).msg) }),
    clock: { now: () => now, wall: () => 0 },
    metrics: new ComponentCounters('out', 'destination', 'file'),
    fileSystems: it.systems,
  }
  const destination = new FileDestination(fileDestination.options.parse({ path, fsync: true }), context as never, os)
  const write = (text: string) => destination.write(batchesOf(text, originOf('text')), never)
  const opened = () => {
    const leadsTo = (fd: string) => {
      try {
        return fs.readlinkSync(`/proc/self/fd/${fd}`)
      } catch {}
    }
    return fs.readdirSync('/proc/self/fd').filter(fd => [path, far].includes(leadsTo(fd) ?? '')).length
  }
  const silent = { failure: 'retry', message: `cannot write ${path} (the file system at ${far} does not answer)` }
  const answer = async () => {
    hangsAt = undefined
    it.answer()
    await until('it counts as answering', () => it.systems.silentAt(path) === undefined)
  }

  hangsAt = path
  await t.rejects(write('1\n'), silent, 'before it is known what was opened')
  await answer()
  await until('closed', () => opened() === 0)
  hangsAt = far
  await t.rejects(write('2\n'), silent, 'before its folder is synced')
  await answer()
  await write('3\n')
  await until('the folder and the first one are closed', () => opened() === 1)
  it.isHung = true
  now += 1000
  await t.rejects(write('4\n'), silent, 'when its path is checked')
  await answer()
  await write('5\n')
  t.equal(opened(), 1, 'kept')
  it.isHung = true
  await t.rejects(write('6\n'), silent, 'when it is written')
  await answer()
  await write('7\n')
  await until('the earlier one is closed', () => opened() === 1)
  it.isHung = true
  await destination.stop(never)
  await answer()
  await until('all are closed', () => opened() === 0)
  t.same(told, [])
  t.equal(readFileSync(path, 'utf8'), '2\n3\n5\n7\n', 'what was written before the folder was synced stays')
})

t.test('a key, certificates, a table and a limits file in a folder that does not answer', async t => {
  const { far } = foldersOf(t)
  const it = remoteAt(t, far)
  const { runInTime } = fileSystems
  t.teardown(() => Object.assign(fileSystems, { runInTime }))
  Object.assign(fileSystems, { runInTime: it.systems.runInTime.bind(it.systems) })
  const log = pino({ level: 'silent' })
  const key = new AccessKey(auth.parse({ type: 'token', key_file: join(far, 'key') }), log)
  writeFileSync(join(far, 'key'), 'abc')
  it.isHung = true
  await t.rejects(key.current(), {
    failure: 'hold',
    message: `no access key from ${far}/key: the file system at ${far} does not answer; put the key there`,
  })
  const { problems } = await readTls({ ca_file: join(far, 'ca.pem') }, 0, undefined)
  t.match(problems, [{ kind: 'absent', message: `cannot be read: the file system at ${far} does not answer` }])
  const table = await readTable(join(far, 'table.csv'), {} as TableOptions, undefined)
  t.match(table, { message: `cannot be read: the file system at ${far} does not answer` })
  const context = { log, clock: systemClock } as ComponentContext
  const limited = throttle.options.parse({ limit: 1, window: '1h' })
  const unread = await LimitsFile.open(join(far, 'limits.yaml'), limited, context).catch(error => error)
  t.match(unread.problems, [{ message: `cannot be read: the file system at ${far} does not answer` }])
  it.answer()
  await settle()
  t.equal(await key.current(), 'abc')
  // It goes away while a call is under way.
  const call = it.systems.runInTime(join(far, 'x'), () => {
    it.isHung = true
    return new Promise(() => {})
  })
  await t.rejects(call, { code: 'SLUICE_FILE_SYSTEM_SILENT' })
})

t.test('a configuration is read without a call to a remote file system', async t => {
  const { dir, far } = foldersOf(t)
  symlinkSync(far, join(dir, 'near/link'))
  const it = remoteAt(t, far)
  const include = [`${far}/*.none`, `${dir}/near/link/*.none`]
  t.same(includeWarnings(include, [], it.systems), [], 'nothing is known')
  t.equal(includeWarnings(include, []).length, 2, 'local ones')
  const linked = [`${dir}/near/link/*.log`]
  t.notOk(compileReads(linked, [], true, it.systems)(join(far, 'a.log')), 'its links are not followed')
  t.ok(compileReads(linked, [], true)(join(far, 'a.log')), 'local ones are')
})

t.test('a call that never returns does not keep the process from ending', async t => {
  const { far } = foldersOf(t)
  execFileSync('mkfifo', [join(far, 'fifo')])
  const script = `
import { open } from 'node:fs/promises'
import { exitWhenDone } from '${built}/src/cli/program.js'
import { FileSystems, fileSystems } from '${built}/src/lib/files/disk/file-systems.js'
const asked = []
let now = 0
const systems = new FileSystems({
  clock: { wall: () => 0, now: () => (now += 2000) },
  after: (_, fn) => (setTimeout(fn, 50), () => {}),
  readMounts: () => '1 1 0:1 / ${far} rw - nfs4 x rw\\n',
  probe: () => new Promise(resolve => (asked.push(1) === 1 ? resolve() : 0)),
})
// Without a writer, opening it blocks its thread.
void systems.run('${far}/fifo', () => open('${far}/fifo')).catch(() => {})
// Nothing tells that a thread waits in a system call.
setTimeout(() => void exitWhenDone(() => process.exit(), process.stderr, systems), 100)
`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', data => (stderr += data))
  const [, signal] = await once(child, 'exit')
  t.equal(signal, 'SIGKILL')
  t.match(stderr, `sluice: a call to the file system at ${far} does not return`)
})
