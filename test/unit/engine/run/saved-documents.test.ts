import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { RevisionCache } from '../../../../src/daemon/fleet/revision-cache.js'
import { surveyFile } from '../../../../src/engine/run/dead-letter/resend.js'
import { CheckpointStore } from '../../../../src/engine/run/state/checkpoints.js'
import { systemClock } from '../../../../src/lib/time.js'
import { testFolder } from '../../../support/folder.js'

/** A user of saved documents. */
interface User {
  readonly file: string
  readonly save: (folder: string) => Promise<unknown>
  readonly read: (folder: string) => unknown
  /** What `read` gives for an intact file, and for a damaged one. */
  readonly whole: unknown
  readonly lost: unknown
}

const log = pino({ enabled: false })
const ID = '0123456789abcdef01234567'
const LETTER = '{"reason":"r","event":{}}\n'

async function savePositions(folder: string, id: string, document: unknown): Promise<void> {
  const store = new CheckpointStore(folder, log, systemClock)
  const checkpoints = store.forSource(id)
  checkpoints.provide(() => document)
  checkpoints.changed()
  await store.flush()
  store.close()
}

const users: Record<string, User> = {
  positions: {
    file: 'checkpoints/a.json',
    save: folder => savePositions(folder, 'a', { offset: 7 }),
    read: folder => new CheckpointStore(folder, log, systemClock).forSource('a').read(),
    whole: { offset: 7 },
    lost: null,
  },
  'progress of sluice resend': {
    file: 'out.ndjson.sending/checkpoints/dead_letters.json',
    save: async folder => {
      const sending = join(folder, 'out.ndjson.sending')
      await savePositions(sending, 'dead_letters', { done: LETTER.length })
      writeFileSync(join(sending, 'records.ndjson'), LETTER.repeat(3))
    },
    read: async folder => (await surveyFile(join(folder, 'out.ndjson'))).events,
    whole: 2,
    lost: 3,
  },
  'cached revision': {
    file: `managed/${ID}.json`,
    save: folder => new RevisionCache(folder, { url: 'u', id: ID, log }).write({ revision: 3, config: {}, etag: '' }),
    read: folder => new RevisionCache(folder, { url: 'u', id: ID, log }).read(),
    whole: { revision: 3, config: {}, etag: '' },
    lost: undefined,
  },
}

const damages: [string, (file: string, text: string) => void][] = [
  ['empty', file => writeFileSync(file, '')],
  ['torn in its head', (file, text) => writeFileSync(file, text.slice(0, 10))],
  ['torn at its end', (file, text) => writeFileSync(file, text.slice(0, -3))],
  ['zeros', (file, text) => writeFileSync(file, Buffer.alloc(text.length))],
  [
    'another digit',
    (file, text) =>
      writeFileSync(
        file,
        text.replace(/\d(?=\D*$)/, digit => String((+digit + 1) % 10)),
      ),
  ],
  ['another document', file => writeFileSync(file, '{}\n')],
]

const obstacles: [string, (file: string, text: string) => void, RegExp][] = [
  ['a newer format', (file, text) => writeFileSync(file, text.replace(/(format|checkpoint)":1/, '$1":2')), /format 2/],
  ['a folder', file => mkdirSync(file), /EISDIR/],
  ['a loop', file => symlinkSync(file, file), /ELOOP/],
]

for (const [name, { file, save, read, whole, lost }] of Object.entries(users)) {
  t.test(`${name}: damaged is not missing, and what cannot be read now is neither`, async t => {
    const folder = testFolder(t)
    const path = join(folder, file)
    await save(folder)
    const text = readFileSync(path, 'utf8')
    t.same(await read(folder), whole)
    for (const [what, damage] of damages) {
      damage(path, text)
      t.same(await read(folder), lost, what)
    }
    for (const [what, spoil, why] of obstacles) {
      rmSync(path, { recursive: true, force: true })
      spoil(path, text)
      for (let n = 0; n < 2; n++)
        await t.rejects(async () => read(folder), { message: new RegExp(`cannot read ${path}: .*${why.source}`) }, what)
    }
    rmSync(path, { recursive: true })
    writeFileSync(path, text)
    t.same(await read(folder), whole, 'read when that is possible')
  })
}
