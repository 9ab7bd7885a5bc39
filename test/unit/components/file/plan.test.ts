import t from 'tap'
import type { Place } from '../../../../src/components/file/rotation/candidates.js'
import type { Relation } from '../../../../src/components/file/rotation/match.js'
import { planOf } from '../../../../src/components/file/rotation/plan.js'
import type { Subject } from '../../../../src/components/file/rotation/subjects.js'

/** `t`: a file that is read; `e`: one of which only the position is saved. `claimed`: the key of its copy. */
function file(name: string, claimed?: string): Subject {
  const known = {
    claimed,
    offset: name.startsWith('e') ? 10 : 0,
    head: { bytes: 0, hash: 0 },
    tail: { bytes: 0, hash: 0 },
    name,
  }
  return (name.startsWith('t') ? { tailer: { known, name }, claimed } : { entry: known, claimed }) as unknown as Subject
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
  ['no copy', [], [t1, e1], ['a'], ['release t1', 'release e1']],
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

for (const [title, claims, missing, compared, steps] of ROWS)
  t.test(title, async t => {
    const of = claims.map(([file, candidate, relation]) => ({ file, candidate, relation }))
    const plan = planOf(of, [t1, t2, e1, e2], new Set(missing), new Set(compared))
    const nameOf = ({ tailer, entry }: Subject) => ((tailer ?? entry) as unknown as { name: string }).name
    const shown = plan.map(step => {
      const at = 'place' in step ? ` ${step.place.key}` : step.do === 'claim' ? ` ${step.claimed ?? '-'}` : ''
      return `${step.do} ${nameOf(step.file)}${at}`
    })
    t.same(shown, steps)
  })
