import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Tailer } from '../../../../src/components/file/reading/tailer.js'
import type { Place } from '../../../../src/components/file/rotation/candidates.js'
import type { Relation } from '../../../../src/components/file/rotation/match.js'
import type { Listed } from '../../../../src/components/file/rotation/owners.js'
import { Owners } from '../../../../src/components/file/rotation/owners.js'
import {
  type Looked,
  type Newcomer,
  type NewFileVerdict,
  type PossibleOriginal,
  planOf,
  type Step,
  splitNames,
  unseenOf,
  verdictOf,
} from '../../../../src/components/file/rotation/plan.js'
import type { Subject } from '../../../../src/components/file/rotation/subjects.js'
import type { Entry } from '../../../../src/components/file/saved.js'
import { systemClock } from '../../../../src/lib/time.js'
import { TimeSlices } from '../../../../src/lib/time-slices.js'

/** `t`: a file that is read; `e`: one of which only the position is saved. `claimed`: the key of its copy. */
function file(name: string, claimed?: string): Subject {
  const known = {
    claimed,
    offset: name.startsWith('e') ? 10 : 0,
    head: { bytes: 0, hash: 0 },
    tail: { bytes: 0, hash: 0 },
    birth: 0n,
    size: 100,
    path: `/${name}`,
    origin: {},
    name,
  }
  return (name.startsWith('t')
    ? { tailer: { ...known, known }, claimed }
    : { entry: known, claimed }) as unknown as Subject
}

const place = (key: string, changedAt: number, isCompressed = false) =>
  ({ key, changedAt, isCompressed }) as unknown as Place

const [t1, t2, e1, e2] = [file('t1'), file('t2', 'old'), file('e1'), file('e2', 'old')]
const [a, b, gz] = [place('a', 1), place('b', 2), place('gz', 3, true)]

type Row = [
  title: string,
  claims: [Subject, Place, Exclude<Relation, 'other'>][],
  missing: Subject[],
  compared: string[],
  steps: string[],
]

const ROWS: Row[] = [
  ['nothing is missing', [], [], ['a'], []],
  ['a file that exists has a copy', [[t1, a, 'prefix']], [], ['a'], ['note t1 a']],
  ['a copy has the rest', [[t1, a, 'rest']], [t1], ['a'], ['note t1 a', 'continue t1 a', 'release t1']],
  ['a plain copy may grow', [[e1, a, 'whole']], [e1], ['a'], ['note e1 a', 'continue e1 a']],
  ['a compressed copy has all', [[e1, gz, 'whole']], [e1], ['gz'], ['note e1 gz', 'end e1 gz', 'claim e1 gz']],
  ['no copy', [], [t1, e1], ['a'], ['release t1', 'lose e1']],
  [
    'the oldest copy comes first',
    [
      [t1, b, 'rest'],
      [e1, a, 'rest'],
    ],
    [t1, e1],
    ['a', 'b'],
    ['note e1 a', 'continue e1 a', 'note t1 b', 'continue t1 b', 'release t1'],
  ],
  [
    'a copy that two files claim was compressed',
    [[e2, gz, 'whole']],
    [e2],
    ['gz'],
    ['note e2 gz', 'end e2 gz', 'claim e2 gz', 'claim t2 gz'],
  ],
  ['the inode of a copy that is gone belongs to another file', [], [], ['old'], ['claim t2 -', 'claim e2 -']],
]

const uids = new Owners()
uids.add(7, '/app.log')
const NOTHING_THERE: Looked = {
  subjects: [],
  missing: new Set(),
  free: new Set(),
  claims: [],
  readers: [],
  listed: [],
  byKey: new Map(),
  isListed: true,
  isGone: false,
  unexamined: new Set(),
  unreadable: [],
  owners: uids,
}
const nameOf = ({ tailer, entry }: Step['file']) => ((tailer ?? entry) as unknown as { name: string }).name

for (const [title, claims, missing, compared, steps] of ROWS)
  t.test(title, async t => {
    const of = claims.map(([file, candidate, relation]) => ({ file, candidate, relation }))
    const known = { claims: of, subjects: [t1, t2, e1, e2], missing: new Set(missing), free: new Set(compared) }
    const plan = [...planOf({ ...NOTHING_THERE, ...known })]
    const shown = plan.map(step => {
      const at = 'place' in step ? ` ${step.place.key}` : step.do === 'claim' ? ` ${step.claimed ?? '-'}` : ''
      return `${step.do} ${nameOf(step.file)}${at}`
    })
    t.same(shown, steps)
  })

/** A file that was last written at `at` (seconds), and born then. */
const listed = (name: string, at: number, { uid = 7, size = 100, birth = at, changed = at } = {}) => {
  const stat = {
    dev: 1n,
    ino: BigInt(at),
    size: BigInt(size),
    uid: BigInt(uid),
    mtimeNs: BigInt(at * 1e9),
    ctimeNs: BigInt(changed * 1e9),
    birthtimeNs: BigInt(birth * 1e9),
  }
  return { name, path: `/${name}`, stat } as unknown as Listed
}

t.test('a missing file whose rest no copy has', async t => {
  const known = { names: ['app.log'], birth: 50_000, uids: new Set([7]) }
  const tailer = (more: Partial<Tailer> = {}) => {
    const head = { bytes: 10, hash: 1 }
    return { ...known, tailer: { head, birth: 50_000_000_000n, size: 10, path: '/app.log', origin: {}, ...more } }
  }
  const entry = (more: Partial<Entry> = {}) => {
    const head = { bytes: 10, hash: 1 }
    return { ...known, entry: { path: '/app.log', birth: '50000000000', offset: 10, size: 20, head, ...more } }
  }
  const unopened = { head: { bytes: 0, hash: 0 } }
  const gz = { listed: [listed('app.log.1.gz', 60)] }
  const unreadable = (one: Listed) => ({
    unreadable: [{ ...one, error: Object.assign(new Error(), { code: 'EACCES' }) }],
  })
  const rows: [title: string, file: object, looked: Partial<Looked>, expected: string | undefined][] = [
    ['is closed', tailer(), {}, 'release'],
    ['is in a folder that cannot be listed', tailer(), { isListed: false }, 'miss'],
    ['may have a name that cannot be examined', tailer(), { unexamined: new Set(['/app.log.1']) }, 'miss'],
    ['another name cannot be examined', tailer(), { unexamined: new Set(['/other.log.1']) }, 'release'],
    ['was never opened, and a compressed file is younger', tailer(unopened), gz, 'seek'],
    [
      'was never opened, and a compressed file is older',
      tailer(unopened),
      { listed: [listed('app.log.1.gz', 40)] },
      'release',
    ],
    ['was opened', tailer(), gz, 'release'],
    ['was truncated before it was opened', tailer({ ...unopened, truncatedSince: 1 }), gz, 'release'],
    ['was never opened, and has no birth time', tailer({ ...unopened, birth: 0n }), gz, 'release'],
    [
      'was empty and is there',
      tailer({ ...unopened, size: 0, key: '1:9' }),
      { ...gz, byKey: new Map([['1:9', listed('app.log', 9)]]) },
      'release',
    ],
    ['was empty and is gone', tailer({ ...unopened, size: 0, key: '1:9' }), gz, 'seek'],
    ['has unread bytes', entry(), {}, 'lose'],
    ['has no unread bytes', entry({ size: 10 }), {}, undefined],
    ['was already lost', entry({ away: 1 }), {}, undefined],
    ['is in a folder that is gone', entry(), { isGone: true }, undefined],
    ['is in a folder that cannot be listed, with unread bytes', entry(), { isListed: false }, 'hide'],
    ['was already lost, and is in a folder that cannot be listed', entry({ away: 1 }), { isListed: false }, undefined],
    [
      'may have a name that cannot be examined, with unread bytes',
      entry(),
      { unexamined: new Set(['/app.log']) },
      'hide',
    ],
    ['may be in a file that cannot be read', entry(), unreadable(listed('app.log.1', 60)), 'hide'],
    ['may not be in a file that cannot be read and is older', entry(), unreadable(listed('app.log.1', 40)), 'lose'],
    ['may not be in a file of another user', entry(), unreadable(listed('app.log.1', 60, { uid: 8 })), 'lose'],
    ['may not be in a file with another name', entry(), unreadable(listed('other.log.1', 60)), 'lose'],
    ['could not be opened, and a compressed file is younger', entry({ ...unopened, offset: 0 }), gz, 'seek'],
    [
      'could not be opened, and another user has a compressed file',
      entry({ ...unopened, offset: 0 }),
      { listed: [listed('app.log.1.gz', 60, { uid: 8 })] },
      'lose',
    ],
  ]
  for (const [title, file, looked, expected] of rows) {
    const subject = file as unknown as Subject
    const steps = [...planOf({ ...NOTHING_THERE, subjects: [subject], missing: new Set([subject]), ...looked })]
    t.same(
      steps.map(step => step.do),
      expected === undefined ? [] : [expected],
      title,
    )
  }
})

t.test('the inode of a compressed copy that is read belongs to another file', async t => {
  const readers = [{ claimed: '1:5' }, { claimed: '1:6' }, {}] as unknown as Tailer[]
  const steps = [...planOf({ ...NOTHING_THERE, readers, free: new Set(['1:5']) })]
  t.same(
    steps.map(({ file, do: what }) => [what, readers.indexOf(file.tailer!)]),
    [['claim', 0]],
  )
})

t.test('which unclaimed files had a displaced name', async t => {
  interface More {
    readonly first?: string
    readonly isCompressed?: boolean
    readonly birth?: number
    readonly changed?: number
  }
  const place = (name: string, at: number, { first = 'x'.repeat(64), isCompressed = false, ...more }: More = {}) =>
    ({ ...listed(name, at, more), first: Buffer.from(first), isCompressed, changedAt: at * 1000 }) as unknown as Place
  const original = (birth: number, isNew = true, first = 'line 1\nline 2\n'): PossibleOriginal => ({
    tailer: { birth: BigInt(birth) * 1_000_000_000n, isNew, head: { bytes: first.length, hash: 0 } },
    first: Buffer.from(first),
  })
  const gz = { isCompressed: true }
  const rows: [
    title: string,
    current: PossibleOriginal | undefined,
    places: Place[],
    now: number,
    read: string[] | undefined,
  ][] = [
    ['none', undefined, [], 100, []],
    ['one', undefined, [place('app.log.1', 60)], 100, ['app.log.1']],
    ['the oldest first', undefined, [place('app.log.1', 62), place('app.log.2', 61)], 100, ['app.log.2', 'app.log.1']],
    [
      'equally old ones, by their numbers',
      undefined,
      [place('app.log.1', 60), place('app.log.2', 60)],
      100,
      ['app.log.2', 'app.log.1'],
    ],
    ['older than the displacement', undefined, [place('app.log.1', 40)], 100, []],
    ['born before the displacement', undefined, [place('app.log.1', 60, { birth: 40 })], 100, []],
    ['without a birth time', undefined, [place('app.log.1', 60, { birth: 0 })], 100, ['app.log.1']],
    ['with another name', undefined, [place('other.log.1', 60)], 100, []],
    ['compressed and at rest', undefined, [place('app.log.1.gz', 60, gz)], 100, ['app.log.1.gz']],
    ['compressed and just written', undefined, [place('app.log.1.gz', 99, gz)], 100, undefined],
    [
      'compressed, just changed, by a clock that is ahead',
      undefined,
      [place('app.log.1.gz', 99, { ...gz, changed: 200 })],
      100,
      ['app.log.1.gz'],
    ],
    ['plain and just written', undefined, [place('app.log.1', 99)], 100, ['app.log.1']],
    [
      'just written, begins like the current file',
      original(10),
      [place('app.log.1', 99, { first: 'line 1\n' })],
      100,
      undefined,
    ],
    ['begins like the current file', original(10), [place('app.log.1', 60, { first: 'line 1\n' })], 100, ['app.log.1']],
    [
      'just written, begins otherwise',
      original(10),
      [place('app.log.1', 99, { first: 'line 2\n' })],
      100,
      ['app.log.1'],
    ],
    ['empty, before the current file', original(70), [place('app.log.1', 60, { first: '' })], 100, ['app.log.1']],
    ['empty, after the current file', original(55), [place('app.log.1', 60, { first: '' })], 100, []],
    ['empty, as old as a new current file', original(60), [place('app.log.1', 60, { first: '' })], 100, ['app.log.1']],
    ['empty, as old as a known current file', original(60, false), [place('app.log.1', 60, { first: '' })], 100, []],
  ]
  for (const [title, current, places, now, read] of rows) {
    const found = unseenOf({ path: '/app.log', since: 50_000 }, current, places, [], now * 1000)
    t.same(
      found?.read.map(({ name }) => name),
      read,
      title,
    )
  }
  const unreadable = ['app.log.1', 'app.log.2', 'other.log.1'].map((name, n) => ({
    ...listed(name, 60 - n * 15),
    error: 1,
  }))
  const found = unseenOf({ path: '/app.log', since: 50_000 }, undefined, [], unreadable, 100_000)
  t.same(
    found?.hidden.map(({ name }) => name),
    ['app.log.1'],
    'unreadable',
  )
})

t.test('displaced names that an unknown file may have had', async t => {
  const names = ['/app.log', '/db.log', '/web.log'].map(path => ({ path, since: 50_000 }))
  const unknown = [listed('app.log.1', 60), listed('app.log.2', 40), listed('web.log.1', 49)]
  const { names: found, over } = await splitNames(names, unknown, new TimeSlices(systemClock))
  t.same(
    found.map(({ path }) => path),
    ['/app.log'],
  )
  t.same(
    over.map(({ path }) => path),
    ['/db.log', '/web.log'],
  )
})

t.test('what becomes of a new file', async t => {
  const text = (first: string): Partial<Newcomer> => ({ first: Buffer.from(first), size: BigInt(first.length) })
  const original = (first: string | undefined, bytes = 100): PossibleOriginal => ({
    tailer: { birth: 0n, isNew: false, head: { bytes, hash: 0 } },
    first: first === undefined ? undefined : Buffer.from(first),
  })
  const gz: Partial<Newcomer> = {
    first: gzipSync('one\n'),
    isAtRest: true,
    inflated: Buffer.from('one\n'),
    isUnclaimed: true,
  }
  const utf16 = Buffer.from('\ufeffone', 'utf16le')
  const of = '/app.log'
  const rows: [title: string, file: Partial<Newcomer>, expected: NewFileVerdict][] = [
    ['compared', {}, 'new'],
    ['not compared', { isCompared: false }, 'wait'],
    ['not compared and empty', { isCompared: false, ...text('') }, 'new'],
    ['read meanwhile', { isCompared: false, isRead: true }, 'new'],
    ['waits for a search', { isDelayed: true }, 'wait'],
    ['claimed', { of }, 'copy'],
    ['claimed by a file with another name', { of: '/other.log' }, 'copy'],
    ['claimed by a file with another name, for long', { of: '/other.log', quietMs: 10_000 }, 'new'],
    ['claimed for long', { of, quietMs: 10_000 }, 'copy'],
    ['empty, and an original is read', { ...text(''), originals: [original('one\n')] }, 'copy'],
    ['empty, and an original cannot be read', { ...text(''), originals: [original(undefined)] }, 'copy'],
    ['cannot be read', { first: undefined }, 'unread'],
    ['begins like an original', { ...text('one\n'), originals: [original('one\ntwo\n')] }, 'copy'],
    [
      'begins like an original, for long',
      { ...text('one\n'), originals: [original('one\ntwo\n')], quietMs: 2000 },
      'new',
    ],
    ['begins otherwise', { ...text('two\n'), originals: [original('one\ntwo\n')] }, 'new'],
    ['is longer than an original', { ...text('one\ntwo\nthree\n'), originals: [original('one\ntwo\n')] }, 'new'],
    ['may begin like an original that cannot be read', { ...text('one\n'), originals: [original(undefined)] }, 'copy'],
    ['is longer than what is known of it', { ...text('one\n'), originals: [original(undefined, 2)] }, 'new'],
    ['compressed', gz, 'inflate'],
    ['compressed and claimed', { ...gz, of }, 'copy'],
    ['compressed and just written', { ...gz, isAtRest: false }, 'wait'],
    ['compressed and not examined', { ...gz, inflated: undefined, isUnclaimed: false }, 'wait'],
    ['compressed and empty', { ...gz, inflated: Buffer.alloc(0), isUnclaimed: false }, 'copy'],
    ['compressed and old', { ...gz, isOld: true }, 'old'],
    ['xz', { ...gz, first: Buffer.from('\xfd7zXZ\0', 'latin1') }, 'format'],
    ['UTF-16', { first: utf16, isAtRest: false }, 'UTF-16'],
    ['compressed UTF-16', { ...gz, inflated: utf16 }, 'UTF-16'],
  ]
  for (const [title, file, expected] of rows) {
    const plain = { ...text('x'.repeat(64)), quietMs: 0, names: [of], originals: [], of: undefined }
    const state = { isDelayed: false, isCompared: true, isRead: false, isAtRest: true, isOld: false }
    const all = { ...plain, ...state, inflated: undefined, isUnclaimed: false, ...file }
    t.equal(verdictOf(all as Newcomer), expected, title)
  }
})
