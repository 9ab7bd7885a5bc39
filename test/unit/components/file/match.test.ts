import t from 'tap'
import { FINGERPRINT_BYTES, type Fingerprint, fingerprint, NO_BYTES } from '../../../../src/components/file/identity.js'
import { assign, type Candidate, type MatchedFile } from '../../../../src/components/file/rotation/match.js'
import { Trail } from '../../../../src/components/file/rotation/trail.js'

/** Which file of a folder holds the rest of which known one: the table of vectors, each in both orders of listing. */

const LINE = 64
const lines = (seed: string, count: number) =>
  Buffer.from(Array.from({ length: count }, (_, i) => `${`${seed} ${i} `.padEnd(LINE - 1, '.')}\n`).join(''))
const lastOf = (bytes: Buffer, end: number): Fingerprint =>
  fingerprint(bytes, Math.max(0, end - FINGERPRINT_BYTES), end)

/** A file of which `read` bytes were read. */
function file(bytes: Buffer, read: number, more: Partial<MatchedFile> & { size?: never } = {}): MatchedFile {
  const trail = new Trail()
  trail.add(0, read, bytes.subarray(0, read), offset => lastOf(bytes, offset))
  const position = { offset: read, tail: lastOf(bytes, read) }
  const closed = (size: number) => (size >= read ? position : trail.within(size))
  return {
    names: ['app.log'],
    birth: 1000,
    head: fingerprint(bytes, 0, Math.min(FINGERPRINT_BYTES, bytes.length)),
    position,
    size: () => bytes.length,
    isThere: false,
    beginning: () => (more.isThere ? bytes.subarray(0, FINGERPRINT_BYTES) : [position, ...trail.marks]),
    markIn: more.isThere ? size => ({ offset: size, tail: lastOf(bytes, size) }) : closed,
    ...more,
  }
}

interface Content extends Candidate {
  readonly bytes: Buffer
}

function candidate(name: string, bytes: Buffer, more: Partial<Candidate> = {}): Content {
  return {
    key: name,
    name,
    isCompressed: name.endsWith('.gz'),
    size: bytes.length,
    birth: 2000,
    changedAt: 2000,
    uid: 1000,
    crc: fingerprint(bytes, 0, bytes.length).hash,
    bytes,
    first: bytes.subarray(0, FINGERPRINT_BYTES),
    head: count => fingerprint(bytes, 0, Math.min(count, bytes.length)),
    ...more,
  }
}

/** What each file claims, by its place in the list; and how many questions that took. */
function run(files: readonly MatchedFile[], candidates: readonly Content[]) {
  const asking = assign(files, candidates)
  let asked = 0
  for (let step = asking.next(); ; asked++) {
    if (step.done) {
      const claims = step.value.map(one => `${'ABC'[files.indexOf(one.file)]} ${one.relation} ${one.candidate.name}`)
      return { claims: claims.sort(), asked }
    }
    const { candidate, offset, bytes } = step.value ?? { offset: 0, bytes: 0 }
    if (!candidate) {
      step = asking.next()
      asked--
      continue
    }
    const content = (candidate as Content).bytes
    const end = Math.min(offset, content.length)
    const tail = fingerprint(content, Math.max(0, end - bytes), end)
    step = asking.next({ tail, ...(end < offset && { end }) })
  }
}

const a = lines('a', 100)
const b = lines('b', 100)
/** Begins like `a`, for fifty lines. */
const alike = Buffer.concat([a.subarray(0, 50 * LINE), lines('x', 50)])
const other = Buffer.concat([a.subarray(0, 50 * LINE), lines('z', 50)])
const all = a.length
const EMPTY = Buffer.alloc(0)

const VECTORS: readonly [
  what: string,
  files: readonly MatchedFile[],
  candidates: readonly Content[],
  claims: string[],
  asked?: number,
][] = [
  ['plain, all read', [file(a, all)], [candidate('app.log.1', a)], ['A whole app.log.1']],
  ['plain, with a rest', [file(a, 40 * LINE)], [candidate('app.log.1', a)], ['A rest app.log.1']],
  ['gzip, with a rest', [file(a, 40 * LINE)], [candidate('app.log.1.gz', a)], ['A rest app.log.1.gz']],
  ['gzip, all read: not inflated', [file(a, all)], [candidate('app.log.1.gz', a)], ['A whole app.log.1.gz'], 0],
  [
    'lines came during the copy',
    [file(a, all)],
    [candidate('app.log.1', a.subarray(0, 90 * LINE))],
    ['A prefix app.log.1'],
  ],
  ['the same, gzip', [file(a, all)], [candidate('app.log.1.gz', a.subarray(0, 90 * LINE))], ['A prefix app.log.1.gz']],
  ['the same, small', [file(a, all)], [candidate('app.log.1', a.subarray(0, 5 * LINE))], ['A prefix app.log.1']],
  [
    'the same, small gzip',
    [file(a, all)],
    [candidate('app.log.1.gz', a.subarray(0, 20 * LINE))],
    ['A prefix app.log.1.gz'],
  ],
  ['small, and ends within a line', [file(a, all)], [candidate('app.log.1', a.subarray(0, 20 * LINE + 5))], []],
  [
    'small, ends where a line of the file ends, and is alike for a line only',
    [file(a, all)],
    [candidate('app.log.1', Buffer.concat([a.subarray(0, LINE), b.subarray(LINE, 2 * LINE)]))],
    [],
  ],
  ['too small to be known', [file(a, all)], [candidate('app.log.1', a.subarray(0, LINE - 1))], []],
  [
    'the same, while its copy is being made',
    [file(a, all, { isThere: true, isNamed: true })],
    [candidate('app.log.1', a.subarray(0, LINE - 1)), candidate('other.log', a.subarray(0, LINE - 1))],
    ['A prefix app.log.1'],
  ],
  [
    'the same, while the file was renamed',
    [file(a, all, { isThere: true })],
    [candidate('app.log.1', a.subarray(0, LINE - 1))],
    [],
  ],
  [
    'the same, older than the file',
    [file(a, all, { isThere: true, isNamed: true })],
    [candidate('app.log.1', a.subarray(0, LINE - 1), { birth: 500 })],
    [],
  ],
  [
    'one byte of a file is known, which cannot be read',
    [file(a, 0, { isThere: true, head: fingerprint(a, 0, 1), markIn: () => ({ offset: 0, tail: NO_BYTES }) })],
    [candidate('app.log.1', lines('an', 2))],
    [],
  ],
  ['shorter and alike, but another file', [file(a, all)], [candidate('app.log.1', alike.subarray(0, 95 * LINE))], []],
  ['another file', [file(a, 40 * LINE)], [candidate('app.log.1', b)], []],
  [
    'the position decides',
    [file(a, 80 * LINE)],
    [candidate('app.log.1', alike), candidate('app.log.2', a, { changedAt: 1900 })],
    ['A rest app.log.2'],
  ],
  ['made with the file', [file(a, 40 * LINE)], [candidate('app.log.1', a, { birth: 1000 })], ['A rest app.log.1']],
  ['made before the file', [file(a, 40 * LINE)], [candidate('old.log', a, { birth: 500 })], []],
  [
    'gzip that lost its times',
    [file(a, 40 * LINE)],
    [candidate('app.log.1.gz', a, { changedAt: 500 })],
    ['A rest app.log.1.gz'],
  ],
  [
    'gzip of before the file, of which little was read',
    [file(a, 4 * LINE)],
    [candidate('app.log.1.gz', a, { changedAt: 500 })],
    [],
  ],
  [
    'no births, little read, changed before it was seen whole',
    [file(a, 4 * LINE, { notBefore: 1800 })],
    [candidate('app.log.1', a, { birth: 0, changedAt: 1700 })],
    [],
  ],
  [
    'no births, little read, changed since it was seen whole',
    [file(a, 4 * LINE, { notBefore: 1800 })],
    [candidate('app.log.1', a, { birth: 0 })],
    ['A rest app.log.1'],
  ],
  [
    'no births, much read',
    [file(a, 40 * LINE, { notBefore: 1800 })],
    [candidate('app.log.1', a, { birth: 0, changedAt: 1700 })],
    ['A rest app.log.1'],
  ],
  ['an empty file: nothing can be known', [file(EMPTY, 0)], [candidate('app.log.1', a)], []],
  [
    'two files, a copy each',
    [file(a, 80 * LINE), file(alike, 80 * LINE)],
    [candidate('app.log.1', alike), candidate('app.log.2', a)],
    ['A rest app.log.2', 'B rest app.log.1'],
  ],
  [
    'same head and size, other CRC: inflated to decide',
    [file(a, all)],
    [candidate('app.log.1.gz', other, { changedAt: 1400 }), candidate('app.log.2.gz', a, { changedAt: 1500 })],
    ['A whole app.log.2.gz'],
  ],
  [
    'plain too short, gzip has all',
    [file(a, 40 * LINE)],
    [candidate('app.log.1', a.subarray(0, 50 * LINE)), candidate('app.log.2.gz', a)],
    ['A rest app.log.2.gz'],
  ],
  [
    'plain too short is better than nothing',
    [file(a, 40 * LINE)],
    [candidate('app.log.1', a.subarray(0, 50 * LINE))],
    ['A rest app.log.1'],
  ],
  [
    'rotated twice: the newer one was never seen',
    [file(a, 40 * LINE)],
    [candidate('app.log.2.gz', a, { changedAt: 1500 }), candidate('app.log.1.gz', b, { changedAt: 2500 })],
    ['A rest app.log.2.gz'],
  ],
  [
    'a claim stays',
    [file(a, 40 * LINE, { claimed: 'app.log.3.gz' })],
    [candidate('app.log.2.gz', a), candidate('app.log.3.gz', a)],
    ['A rest app.log.3.gz'],
  ],
  [
    'the claimed copy was compressed since',
    [file(a, 40 * LINE, { claimed: 'app.log.1' })],
    [candidate('app.log.1.gz', a)],
    ['A rest app.log.1.gz'],
  ],
  [
    'a claim stays when another file has read more',
    [file(a, 40 * LINE, { claimed: 'app.log.1.gz' }), file(a, 80 * LINE)],
    [candidate('app.log.1.gz', a)],
    ['A rest app.log.1.gz'],
  ],
  [
    'after a claim, no other file is a part of it',
    [file(a, all, { claimed: 'gone' })],
    [candidate('app.log.2', a.subarray(0, 90 * LINE))],
    [],
  ],
  [
    'a short head does not take the copy of a long one',
    [file(a.subarray(0, 2 * LINE), 2 * LINE), file(a.subarray(0, 90 * LINE), 80 * LINE)],
    [candidate('app.log.1.gz', a)],
    ['B rest app.log.1.gz'],
  ],
  [
    'a copy being made of an open file',
    [file(a, 90 * LINE, { isThere: true })],
    [candidate('app.log.1', a.subarray(0, 70 * LINE))],
    ['A prefix app.log.1'],
  ],
  [
    'a copy of an open file with more than was read',
    [file(a, 10 * LINE, { isThere: true })],
    [candidate('app.log.1', a.subarray(0, 70 * LINE))],
    ['A rest app.log.1'],
  ],
  [
    'no copy is longer than the open file',
    [file(a.subarray(0, 50 * LINE), 50 * LINE, { isThere: true })],
    [candidate('app.log.1', a)],
    [],
  ],
  [
    'a file that is gone takes what an open one cannot have',
    [file(a.subarray(0, 50 * LINE), 50 * LINE, { isThere: true }), file(a, 50 * LINE)],
    [candidate('app.log.1.gz', a)],
    ['B rest app.log.1.gz'],
  ],
  [
    'two copies of an open file',
    [file(a, all, { isThere: true })],
    [candidate('one.log', a), candidate('two.log', a.subarray(0, 70 * LINE))],
    ['A prefix two.log', 'A whole one.log'],
  ],
  [
    'gzip of several members is longer than its size says',
    [file(a, 80 * LINE)],
    [candidate('app.log.1.gz', a, { size: 20 * LINE })],
    ['A rest app.log.1.gz'],
  ],
  [
    'a copy that another user made',
    [file(a, 40 * LINE, { uids: new Set([1000]) })],
    [candidate('app.log.1', a, { uid: 666 }), candidate('app.log.2.gz', a, { uid: 666 })],
    [],
    0,
  ],
  [
    'a copy that root made',
    [file(a, 40 * LINE, { uids: new Set([1000]) })],
    [candidate('app.log.1', a, { uid: 0 })],
    ['A rest app.log.1'],
  ],
  [
    'each copy belongs to the file of its owner',
    [file(a, 40 * LINE, { uids: new Set([1000]) }), file(a, 40 * LINE, { uids: new Set([666]) })],
    [candidate('app.log.1', a, { uid: 666 }), candidate('app.log.2', a, { uid: 1000 })],
    ['A rest app.log.2', 'B rest app.log.1'],
  ],
  [
    'kubelet: renamed and compressed',
    [file(a, 40 * LINE, { names: ['0.log', '0.log.20260101-030000'] })],
    [candidate('0.log.20260101-030000.gz', a)],
    ['A rest 0.log.20260101-030000.gz'],
  ],
  [
    'docker: compressed under the next number',
    [file(a, 40 * LINE, { names: ['c-json.log', 'c-json.log.1'] })],
    [candidate('c-json.log.1.gz', b, { changedAt: 3000 }), candidate('c-json.log.2.gz', a)],
    ['A rest c-json.log.2.gz'],
  ],
]

t.test('which file holds what', async t => {
  for (const [what, files, candidates, claims, asked] of VECTORS)
    for (const order of [candidates, candidates.toReversed()]) {
      const found = run(files, order)
      t.same(found.claims, claims, what)
      if (asked !== undefined) t.equal(found.asked, asked, what)
    }
})

t.test('equal files and equal copies: one each, the rest was never seen', async t => {
  const two = [candidate('app.log.1.gz', a), candidate('app.log.2.gz', a)]
  t.equal(run([file(a, 40 * LINE), file(a, 40 * LINE)], two).claims.length, 2)
  t.equal(run([file(a, all)], two).claims.length, 1)
})

t.test('a compressed file that cannot be inflated so far is none', async t => {
  const asking = assign([file(a, 40 * LINE)], [candidate('app.log.1.gz', a)])
  t.equal(asking.next().done, false)
  t.same(asking.next(undefined).value, [])
})

t.test('of a damaged copy the bytes before the damage are compared', async t => {
  const damaged = (content: Buffer) => {
    const asking = assign([file(a, 80 * LINE)], [candidate('app.log.1.gz', a)])
    const end = 40 * LINE
    const { value } = asking.next()
    t.match(value, { offset: 80 * LINE })
    // Up to the mark before the damage.
    const { value: next } = asking.next({ tail: NO_BYTES, end, isDamaged: true })
    if (!next || Array.isArray(next)) return next
    t.ok(next.offset <= end)
    return asking.next({ tail: lastOf(content, next.offset) }).value
  }
  t.match(damaged(a), [{ relation: 'prefix' }])
  t.same(damaged(b), [])
})
