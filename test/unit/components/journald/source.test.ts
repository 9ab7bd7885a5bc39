import { chmodSync, closeSync, existsSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { EntryReader } from '../../../../src/components/journald/entries.js'
import { type JournalEntry, lineOf } from '../../../../src/components/journald/fields.js'
import { filterArgs } from '../../../../src/components/journald/options.js'
import { journald } from '../../../../src/components/journald/source.js'
import type { SourceContext } from '../../../../src/core/component.js'
import type { EventBatch } from '../../../../src/core/event/batch.js'
import { eventId } from '../../../../src/core/event/event-id.js'
import { ComponentCounters } from '../../../../src/engine/flow/counters.js'
import { FileSystems } from '../../../../src/lib/files/disk/file-systems.js'
import { WantedNames } from '../../../../src/lib/formats/json-scan.js'
import { systemClock } from '../../../../src/lib/time.js'
import { limitOpenFiles } from '../../../support/file-limit.js'
import { testFolder } from '../../../support/folder.js'
import { needs } from '../../../support/needs.js'
import { MemoryCheckpoints, Receiver } from '../../../support/tailing.js'
import { turns, until } from '../../../support/until.js'

t.test('what an event says', async t => {
  const event = (entry: JournalEntry, included?: string[], cut: string[] = []) =>
    JSON.parse(lineOf(entry, { host: 'here', included: included && new Set(included) }, cut))
  t.same(
    event({
      __CURSOR: 's=1',
      __REALTIME_TIMESTAMP: '1763640000001234',
      __MONOTONIC_TIMESTAMP: '5',
      MESSAGE: 'ready',
      PRIORITY: '4',
      _HOSTNAME: 'web-1',
      SYSLOG_IDENTIFIER: 'nginx',
      _PID: '7',
      _SYSTEMD_UNIT: 'nginx.service',
      _COMM: 'nginx',
    }),
    {
      timestamp: '2025-11-20T12:00:00.001234Z',
      host: 'web-1',
      severity: 'warning',
      severity_code: 4,
      app: 'nginx',
      pid: '7',
      unit: 'nginx.service',
      message: 'ready',
      PRIORITY: '4',
      _HOSTNAME: 'web-1',
      SYSLOG_IDENTIFIER: 'nginx',
      _PID: '7',
      _SYSTEMD_UNIT: 'nginx.service',
      _COMM: 'nginx',
    },
  )
  const table: [what: string, entry: JournalEntry, expected: object][] = [
    ['nothing', {}, {}],
    ['no message', { A: 'x' }, { A: 'x' }],
    ['a message that was left out', { MESSAGE: null }, {}],
    ['colours', { MESSAGE: [27, 91, 109, 195, 188] }, { message: '\x1b[mü' }],
    ['not UTF-8', { MESSAGE: [97, 255] }, { message: 'a\ufffd', raw: 'Yf8=' }],
    ['several', { MESSAGE: ['a', [255], 'b'], A: ['1', '2'] }, { message: 'a\n\ufffd\nb', A: ['1', '2'] }],
    ['bytes elsewhere', { A: [0, 1], B: [[0], 'x', null] }, { A: '\0\x01', B: ['\0', 'x', null] }],
    ['no number', { PRIORITY: '9', _PID: ['1', '2'] }, { pid: '1', PRIORITY: '9', _PID: ['1', '2'] }],
    ['a time that is none', { __REALTIME_TIMESTAMP: 'soon' }, {}],
    ['quotes', { MESSAGE: '"\n\\', 'A"': '"' }, { message: '"\n\\', 'A"': '"' }],
  ]
  for (const [what, entry, expected] of table) t.same(event(entry), { host: 'here', ...expected }, what)
  t.same(event({ MESSAGE: 'm', _COMM: 'c', _EXE: 'e' }, ['_EXE']), { host: 'here', message: 'm', _EXE: 'e' })
  t.same(event({ MESSAGE: 'm' }, [], ['A']), { host: 'here', message: 'm', truncated: ['A'] })
})

t.test('entries from bytes in any portions, and too long ones', async t => {
  const entries = (bytes: Buffer, portion: number, most = 1 << 20) => {
    const reader = new EntryReader(most)
    const taken = []
    for (let at = 0; at < bytes.length; at += portion) taken.push(...reader.push(bytes.subarray(at, at + portion)))
    return { taken, invalidLines: reader.invalidLines }
  }
  const text = '{"__CURSOR":"c1","MESSAGE":"ü\\n"}\n-- No entries --\n{"__CURSOR":"c2","A":["x",[1,2]]}\n{"torn'
  for (const portion of [1, 7, 1000]) {
    const { taken, invalidLines } = entries(Buffer.from(text), portion)
    t.same(
      taken.map(({ entry }) => entry),
      [
        { __CURSOR: 'c1', MESSAGE: 'ü\n' },
        { __CURSOR: 'c2', A: ['x', [1, 2]] },
      ],
    )
    t.equal(invalidLines, 1)
  }

  const long = {
    BIG: `"{[,:]}\\${'ä"\n'.repeat(20_000)}`,
    A: 'x',
    BYTES: Array.from({ length: 30_000 }, (_, i) => i % 256),
    LIST: ['y'.repeat(70_000), 'z'],
    TWO: ['a', 'b'],
    NOTHING: null,
    MORE: '\u0001'.repeat(30_000),
    __CURSOR: 'c3',
    ...Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`N${i}`, 'n'.repeat(2000)])),
  }
  const bytes = Buffer.from(`${JSON.stringify(long)}\n{"__CURSOR":"c4"}\n`)
  for (const portion of [101, 65_536, bytes.length]) {
    const [{ entry, cut } = { entry: {} as JournalEntry, cut: [] as readonly string[] }, next] = entries(
      bytes,
      portion,
      65_536,
    ).taken
    t.match(entry, { A: 'x', TWO: ['a', 'b'], NOTHING: null, __CURSOR: 'c3' }, 'the short ones are whole')
    t.same(cut.slice(0, 4), ['BIG', 'BYTES', 'LIST', 'MORE'])
    t.ok(long.BIG.startsWith(entry.BIG as string) && (entry.BIG as string).length > 5000)
    t.ok((entry.BYTES as number[]).length > 3000 && (entry.BYTES as number[]).every((byte, i) => byte === i % 256))
    t.match(entry.MORE, /^\u0001{100,}$/)
    t.match(entry.N49, /^n{1000,}$/, 'something of everything')
    t.ok(JSON.stringify(entry).length < 65_536 + 60 * 1100)
    t.same(next?.entry, { __CURSOR: 'c4' })
  }
})

t.test('options', async t => {
  const args = (given: object) => filterArgs(journald.options.parse(given))
  t.same(args({ units: ['a', 'b.timer'], priority: 'err', matches: ['_PID=1', 'A=x y'], include_fields: ['_EXE'] }), [
    '--unit=a',
    '--unit=b.timer',
    '--priority=err',
    '--output-fields=MESSAGE,PRIORITY,_HOSTNAME,SYSLOG_IDENTIFIER,_PID,_SYSTEMD_UNIT,_EXE',
    '_PID=1',
    'A=x y',
  ])
  const wrong = [
    { units: ['a*'] },
    { units: ['--file=/x'] },
    { matches: ['+'] },
    { matches: ['--boot'] },
    { include_fields: ['a'] },
    { priority: 'loud' },
    { directory: '/a', files: ['/b'] },
  ]
  for (const given of wrong) t.notOk(journald.options.safeParse(given).success, JSON.stringify(given))
})

const entry = (n: number, more = {}) => `${JSON.stringify({ __CURSOR: `c${n}`, MESSAGE: `m${n}`, ...more })}\n`

const NOW = Date.UTC(2026, 0, 1)

/** Computes the ids of all events that come, as a destination does. */
class Ids extends Receiver {
  override readonly usesIds = true
  readonly ids: string[] = []
  override send(batch: EventBatch): Promise<void> {
    for (let i = 0; i < batch.length; i++) this.ids.push(eventId(batch, i))
    return super.send(batch)
  }
}

/** A source with a journalctl that does, call by call, what `calls` say in the language of the shell. */
async function start(t: Test, calls: string[], given: object = {}, saved?: unknown, fileSystems?: FileSystems) {
  const folder = testFolder(t, { bin: {} })
  const program = join(folder, 'bin/journalctl')
  const prepare = (calls: string[]) => {
    const cases = calls.map((call, i) => `${i}) ${call} ;;`).join('\n')
    const script = `#!/bin/sh
PATH=/usr/bin:/bin; cd '${folder}'; n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) >n; echo "$@" >>calls
case $n in\n${cases}\n*) exec sleep 60 ;;\nesac\n`
    writeFileSync(program, script)
    chmodSync(program, 0o755)
  }
  if (calls.length > 0) prepare(calls)
  const { PATH } = process.env
  process.env.PATH = join(folder, 'bin')
  const counters = new ComponentCounters('in', 'source', 'journald')
  const log: { level: number; msg: string; why?: string; text?: string }[] = []
  const checkpoints = new MemoryCheckpoints()
  checkpoints.document = saved
  const context = {
    id: 'in',
    log: pino({ level: 'debug' }, { write: line => log.push(JSON.parse(line)) }),
    clock: { ...systemClock, wall: () => journal.now },
    metrics: counters,
    checkpoints,
    fileSystems,
    origin: codec => ({
      source: 'in',
      host: 'here',
      codec,
      wanted: Object.assign(new WantedNames(), { areIdsUsed: true }),
    }),
  } as Partial<SourceContext> as SourceContext
  const out = new Ids()
  const source = await journald.create(journald.options.parse(given), context)
  const abort = new AbortController()
  const run = () => {
    const running = source.run(out, abort.signal)
    running.catch(() => {})
    return running
  }
  const journal = {
    /** The wall clock. */
    now: NOW,
    folder,
    out,
    log,
    checkpoints,
    prepare,
    run,
    running: run(),
    messages: () => out.texts().map(text => JSON.parse(text).message as string),
    calls: () =>
      existsSync(join(folder, 'calls')) ? readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n') : [],
    value: (name: string, labels: Record<string, string> = {}) =>
      [...(counters.series.get(name) ?? [])]
        .flatMap(series => [...series.read()])
        .find(one => Object.entries(labels).every(([key, value]) => one.labels[key] === value))?.value,
    failures: (kind: string) => counters.failures.get(kind) ?? 0,
    async stop() {
      abort.abort()
      await journal.running.catch(() => {})
      process.env.PATH = PATH
    },
  }
  t.teardown(() => journal.stop())
  return journal
}

const print = (...lines: string[]) => `printf '%s' '${lines.join('')}'`

t.test('it ends, and goes on behind the last entry', async t => {
  const journal = await start(t, [
    `${print(entry(1), entry(2))}; exit 3`,
    'echo "cannot read it" >&2; exit 1',
    `${print(entry(2), entry(3), 'noise\n')}; exec sleep 60`,
  ])
  await until(() => journal.messages().length === 3, { show: () => JSON.stringify(journal.log) })
  t.same(journal.messages(), ['m1', 'm2', 'm3'])
  const [first, second, third] = journal.calls()
  t.match(first, /--output=json --all --no-pager --follow --no-tail --merge( _MACHINE_ID=\w{32})?$/)
  t.match(second, /--cursor=c2( |$)/)
  t.match(third, /--cursor=c2( |$)/)
  await until('the line that is none', () => journal.failures('not_an_entry') === 1)
  t.equal(journal.failures('journalctl'), 2)
  const told = journal.log.flatMap(({ why }) => why ?? [])
  t.same(told, ['journalctl ended with exit code 3', 'cannot read it; journalctl ended with exit code 1'])
  t.ok(journal.log.some(({ msg }) => msg === 'the journal can be read again'))
  await journal.checkpoints.flush()
  t.same(journal.checkpoints.document, { version: 1, cursor: 'c3' })
})

t.test('it ends behind an entry that was read, again and again: each time later', async t => {
  const journal = await start(t, [...Array(3).fill(`${print(entry(1))}; exit 3`), print(entry(1), entry(2))])
  await until('a new entry', () => journal.messages().length === 2, { show: () => JSON.stringify(journal.log) })
  const read = journal.log.filter(({ msg }) => msg === 'the journal can be read again')
  t.equal(read.length, 1, 'only a new entry shows that it can be read')
})

t.test('an entry has the same id whenever it is read', async t => {
  const first = await start(t, [`${print(entry(1), entry(2), entry(3))}; exec sleep 60`])
  await until('three entries', () => first.out.ids.length === 3)
  await first.stop()
  const second = await start(t, [`${print(entry(2))}; exit 3`, `${print(entry(2), entry(3))}; exec sleep 60`])
  await until('two of them', () => second.out.ids.length === 2)
  t.equal(new Set(first.out.ids).size, 3)
  t.same(second.out.ids, first.out.ids.slice(1))
})

t.test('it is not there, and comes', async t => {
  const journal = await start(t, [])
  await until('told', () => journal.log.length > 0)
  t.match(journal.log[0], { level: 50, why: 'journalctl is not in the PATH' })
  journal.prepare([`${print(entry(1))}; exec sleep 60`])
  await until(() => journal.messages().length === 1, { show: () => JSON.stringify(journal.log) })
})

t.test('it cannot be started while too many files are open, and then nothing comes twice', async t => {
  const prlimit = needs(t, 'prlimit')
  if (!prlimit) return
  const journal = await start(t, [
    `${print(entry(1))}; until [ -e end ]; do sleep 0.05; done; exit 3`,
    `${print(entry(1), entry(2))}; exec sleep 60`,
  ])
  await until('the first', () => journal.messages().length === 1)
  writeFileSync(join(journal.folder, 'end'), '')
  const restore = limitOpenFiles(prlimit, 100)
  const files: number[] = []
  t.throws(() => {
    for (;;) files.push(openSync('/dev/null', 'r'))
  })
  await until('the reason', () => journal.log.some(({ why = '' }) => /cannot be run: .*EMFILE/.test(why))).finally(
    () => {
      for (const file of files) closeSync(file)
      restore()
    },
  )
  await until('the second', () => journal.messages().length === 2)
  t.same(journal.messages(), ['m1', 'm2'])
})

t.test('it is not started while a file system that is in use does not answer', async t => {
  let answer = () => {}
  const systems = new FileSystems({
    readMounts: () => '1 1 0:1 / /far rw - fuse.sshfs x rw\n',
    probe: () => new Promise(resolve => (answer = resolve)),
    after: (_ms, done) => {
      const timer = setImmediate(done)
      return () => clearImmediate(timer)
    },
  })
  t.notOk(await systems.answers('/far'))
  const journal = await start(t, [`${print(entry(1))}; exec sleep 60`], {}, undefined, systems)
  await until('told', () => journal.log.length > 0)
  t.match(journal.log[0], { code: 'SLUICE_FILE_SYSTEM_SILENT', folder: '/far' })
  t.same(journal.calls(), [])
  answer()
  await until('the entry', () => journal.messages().length === 1)
  t.equal(journal.log.length, 1)
})

t.test('it complains without end', async t => {
  const journal = await start(t, [
    `(head -c 5000 /dev/zero | tr '\\0' x; echo; seq 500) >&2; ${print(entry(1))}; exec sleep 60`,
  ])
  await until('the entry', () => journal.messages().length === 1)
  await until('the warnings', () => journal.log.length >= 20)
  await journal.stop()
  const texts = journal.log.map(({ text = '' }) => text)
  t.equal(texts.length, 20)
  t.ok(texts.every(text => text.length <= 500))
  t.same(
    texts.filter(text => !text.startsWith('x')).slice(0, 19),
    Array.from({ length: 19 }, (_, i) => String(i + 1)),
  )
})

t.test('the entry up to which was read', async t => {
  const saved = { version: 1, cursor: 'c5' }
  const gone = await start(t, [`${print(entry(7))}; exec sleep 60`, print(entry(7))], {}, saved)
  await until('the oldest behind it', () => gone.messages().length === 1)
  t.equal(gone.value('sluice_journal_lost_positions_total'), 1)
  t.match(gone.log, [{ level: 40, code: 'SLUICE_JOURNAL_POSITION_LOST' }])
  t.match(gone.calls()[1], /--cursor=c5 --lines=1 --output-fields=PRIORITY$/)
  await gone.stop()

  const other = await start(t, [`${print(entry(7))}; exec sleep 60`, print(entry(5))], { units: ['x'] }, saved)
  await until('the next that fits', () => other.messages().length === 1)
  t.equal(other.value('sluice_journal_lost_positions_total'), 0, 'it is there, but not looked for')
  await other.stop()

  const unknown = await start(t, [`${print(entry(7))}; exec sleep 60`, 'exit 1'], {}, saved)
  await until('the next', () => unknown.messages().length === 1)
  t.equal(unknown.value('sluice_journal_lost_positions_total'), 0, 'it may be there')
  await unknown.stop()

  const damaged = await start(t, [`${print(entry(1))}; exec sleep 60`], { read_from: 'end' }, null)
  await until('all of it', () => damaged.messages().length === 1)
  t.notMatch(damaged.calls()[0], /cursor/)
})

t.test('where it begins', async t => {
  const end = await start(t, [print(entry(9)), `${print(entry(9), entry(10))}; exec sleep 60`], { read_from: 'end' })
  await until('what is new', () => end.messages().length === 1)
  t.same(end.messages(), ['m10'])
  t.match(end.calls()[0], /--lines=1/)
  t.same(end.checkpoints.document, { version: 1, cursor: 'c9' }, 'saved before anything is delivered')
  await end.stop()

  const empty = await start(t, ['exit 0', `${print(entry(1))}; exec sleep 60`], { read_from: 'end', directory: '/d' })
  await until('all of it is new', () => empty.messages().length === 1)
  t.same(empty.calls(), [
    '--output=json --all --no-pager --directory=/d --lines=1 --output-fields=PRIORITY',
    '--output=json --all --no-pager --directory=/d --follow --no-tail --merge',
  ])
  t.same(empty.checkpoints.document, { version: 1, cursor: null })
  await empty.stop()

  const boot = await start(t, [print(entry(4)), `${print(entry(4), entry(5))}; exec sleep 60`], { read_from: 'boot' })
  await until('with the first', () => boot.messages().length === 2)
  t.match(boot.calls(), [/--boot/, /--cursor=c4/])
  t.same(boot.checkpoints.document, { version: 1, cursor: 'c4', at: true })
  await boot.stop()

  const young = ['echo "No journal boot entry found (+0)." >&2; exit 1', print(entry(6)), 'exec sleep 60']
  const later = await start(t, young, { read_from: 'boot' })
  await until('it follows', () => later.calls().length === 3)
  t.match(later.calls(), [/--boot/, /--lines=1/, /--cursor=c6/])
  await later.stop()
  const broken = await start(t, ['echo "not for you" >&2; exit 1'], { read_from: 'boot' })
  await t.rejects(broken.running, { message: 'not for you; journalctl ended with exit code 1' }, 'no entry is skipped')
  await broken.stop()

  const failing = await start(t, ['echo "not for you" >&2; exit 1'], { read_from: 'end' })
  await t.rejects(failing.running, { message: 'not for you; journalctl ended with exit code 1' })
})

t.test('what is given back is read again, and only what is delivered is behind the position', async t => {
  const journal = await start(t, [
    `${print(entry(1))}; while [ ! -e go ]; do sleep 0.02; done; ${print(entry(2))}; exec sleep 60`,
    `${print(entry(1), entry(2))}; exec sleep 60`,
  ])
  await until('the first', () => journal.out.batches === 1)
  journal.out.hold = true
  writeFileSync(join(journal.folder, 'go'), '')
  await until('the second', () => journal.out.held.length === 1)
  await journal.checkpoints.flush()
  t.same(journal.checkpoints.document, { version: 1, cursor: 'c1' })
  journal.out.settle('errored')
  await t.rejects(journal.running, /was not delivered/)
  journal.out.hold = false
  journal.running = journal.run()
  await until('again', () => journal.out.batches === 3)
  t.same(journal.messages(), ['m1', 'm2', 'm2'])
  t.match(journal.calls()[1], /--cursor=c1( |$)/)
})

t.test('it waits while nobody takes its entries, and ends with the run', async t => {
  const many = `i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo "{\\"__CURSOR\\":\\"c$i\\",\\"MESSAGE\\":\\"m$i\\"}"; done; echo >written; exec sleep 60`
  const journal = await start(t, [`echo $$ >pid; ${many}`])
  let room = () => {}
  journal.out.room = new Promise(resolve => {
    room = resolve
  })
  await until('the first', () => journal.out.batches === 1)
  const shell = readFileSync(join(journal.folder, 'pid'), 'utf8').trim()
  // It does nothing but write: it sleeps when the pipe is full.
  await until('a full pipe', () => /\) S /.test(readFileSync(`/proc/${shell}/stat`, 'latin1')))
  await turns()
  t.equal(journal.out.batches, 1)
  t.notOk(existsSync(join(journal.folder, 'written')), 'it waits')
  room()
  await until('all', () => journal.messages().length === 20_000)
  t.equal(journal.messages().at(-1), 'm20000')
  const pid = Number(readFileSync(join(journal.folder, 'pid'), 'utf8'))
  await journal.stop()
  t.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'nothing is left of it')
})

t.test('how far behind it is', async t => {
  const aged = (n: number, seconds: number) => entry(n, { __REALTIME_TIMESTAMP: `${NOW - seconds * 1000}000` })
  const whenThere = (name: string) => `while [ ! -e ${name} ]; do sleep 0.02; done`
  const many = Array.from({ length: 2000 }, (_, i) => aged(4 + i, 50)).join('')
  const journal = await start(t, [
    [
      `${whenThere('first')}; ${print(aged(1, 100), aged(2, 90))}`,
      `${whenThere('second')}; ${print(aged(3, -5), entry(4))}`,
      `${whenThere('many')}; cat entries; ${whenThere('end')}`,
    ].join('; '),
  ])
  writeFileSync(join(journal.folder, 'entries'), many)
  const lag = () => journal.value('sluice_journal_lag_seconds')
  const next = async (name: string, entries: number) => {
    writeFileSync(join(journal.folder, name), '')
    await until(name, () => journal.messages().length === entries)
  }
  await until('it runs', () => journal.calls().length === 1)
  t.equal(lag(), undefined, 'nothing is known yet')
  await next('first', 2)
  t.equal(lag(), 90)
  journal.now += 10_000
  t.equal(lag(), 90, 'nothing more waits: as it was when it was read')
  await next('second', 4)
  t.equal(lag(), 5, 'an entry without a time changes nothing')
  journal.now = NOW
  let room = () => {}
  journal.out.room = new Promise(resolve => {
    room = resolve
  })
  writeFileSync(join(journal.folder, 'many'), '')
  await until('the first of many', () => journal.messages().length > 4)
  await until('when they were read', () => lag() === 50)
  journal.now += 3_000_000
  await until('more wait', () => lag() === 3050)
  room()
  await until('all', () => journal.messages().length === 2004)
  await until('they have waited, too', () => lag() === 3050)
  journal.now += 1000
  t.equal(lag(), 3050)
  await next('end', 2004)
  await until('journalctl has ended: nobody knows', () => lag() === 3051)
})

t.test('entries from before a start are backlog until the first later one', async t => {
  const at = (n: number, ms: number) => entry(n, { __REALTIME_TIMESTAMP: `${NOW + ms}000` })
  const call = `${print(at(1, -5000), at(2, -2), at(3, -1), at(4, 0), at(5, -3))}; exec sleep 60`
  const known = await start(t, [call], {}, { version: 1, cursor: 'c1' })
  await until('the entries', () => known.messages().length === 4)
  t.same(
    known.out.backlog.map(text => JSON.parse(text).message),
    ['m2', 'm3'],
  )
  t.same(known.messages(), ['m2', 'm3', 'm4', 'm5'])
  await known.stop()
  const first = await start(t, [call], { read_from: 'beginning' })
  await until('the entries', () => first.messages().length === 5)
  t.same(
    first.out.backlog.map(text => JSON.parse(text).message),
    ['m1', 'm2', 'm3'],
    'the first start, too',
  )
})
