import { appendFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { keyOf } from '../../../../src/components/file/identity.js'
import { type FolderSnapshot, Look } from '../../../../src/components/file/rotation/look.js'
import { systemClock } from '../../../../src/lib/time.js'
import { TimeSlices } from '../../../../src/lib/time-slices.js'
import { testFolder } from '../../../support/folder.js'

const ROWS: [title: string, change: (dir: string) => void, isStill: boolean][] = [
  ['nothing', () => {}, true],
  ['the content of an unknown file', dir => appendFileSync(join(dir, 'app.log.1'), 'one\n'), false],
  ['the name of an unknown file', dir => renameSync(join(dir, 'app.log.1'), join(dir, 'app.log.2')), false],
  ['a new file that may be a copy', dir => writeFileSync(join(dir, 'app.log.2'), ''), false],
  ['a file that is not relevant', dir => writeFileSync(join(dir, 'other.txt'), ''), true],
]

for (const [title, change, isStill] of ROWS)
  t.test(`what changed since the look: ${title}`, async t => {
    const path = testFolder(t, { 'app.log.1': '' })
    const one = { name: 'app.log.1', path: join(path, 'app.log.1') }
    const stat = statSync(one.path, { bigint: true })
    const look = new Look({ files: {} } as unknown as ConstructorParameters<typeof Look>[0])
    const snapshot: Partial<FolderSnapshot> = {
      path,
      listed: [{ key: keyOf(stat), ...one, stat }],
      isListed: true,
      waiting: [],
      gone: new Set(),
      originals: new Map(),
      comparison: { unknown: new Set([keyOf(stat)]), claims: [] } as Partial<
        FolderSnapshot['comparison'] & object
      > as FolderSnapshot['comparison'],
      isWanted: ({ name }) => name.startsWith('app.log'),
    }
    change(path)
    t.equal(await look.isStill(snapshot as FolderSnapshot, new TimeSlices(systemClock)), isStill)
  })
