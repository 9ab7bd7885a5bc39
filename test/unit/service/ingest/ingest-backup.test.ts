import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import fs from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { KEYS_FOLDER, openState, restoreState } from '../../../../src/service/api/store/state.js'
import type { Sql } from '../../../../src/service/api/store/store.js'
import { backUpIngest, INGEST_FOLDER } from '../../../../src/service/ingest/ingest-backup.js'
import { testFolder } from '../../../support/folder.js'
import { until } from '../../../support/until.js'
import { valuesOf } from '../../../support/values-of.js'

const log = pino({ enabled: false })
const ID = '0123456789abcdef01234567'
const KEPT = {
  'state/buffer/out/ledger': 'ledger',
  'state/buffer/out/00000001.seg': 'events',
  'state/dead-letter/out.ndjson': 'dead letters',
}

function write(dataDir: string, files: Readonly<Record<string, string>>) {
  for (const [name, text] of Object.entries(files)) {
    const path = join(dataDir, INGEST_FOLDER, ID, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text, { mode: 0o600 })
  }
}

function found(dataDir: string): Record<string, string> {
  const folder = join(dataDir, INGEST_FOLDER, ID)
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return Object.fromEntries(
    names
      .filter(name => statSync(join(folder, name)).isFile())
      .map(name => [name, readFileSync(join(folder, name), 'utf8')]),
  )
}

const keep = (keys: Sql, key: string) => keys.run("INSERT INTO idempotency VALUES ('p', $1, 'a', 'body', 1, 1)", key)

t.test('a backup has what the pipelines keep, and a restore puts it back', async t => {
  const folder = testFolder(t, { service: {}, other: {} })
  const dataDir = join(folder, 'service')
  const backup = join(folder, 'backup')
  write(dataDir, { ...KEPT, 'state/lock.3': 'of a process' })
  const state = await openState(dataDir, randomBytes, { log })
  await keep(state.keys, 'before')
  await state.backup(backup, async to => {
    // Its events may not be in the copy.
    await keep(state.keys, 'meanwhile')
    await backUpIngest(dataDir, to)
  })
  await state.close()
  t.same(found(backup), KEPT)
  t.equal(statSync(join(backup, INGEST_FOLDER)).mode & 0o077, 0, 'for its owner alone')

  const other = join(folder, 'other')
  const folders = [KEYS_FOLDER, INGEST_FOLDER]
  await restoreState(backup, other, { folders })
  t.same(found(other), KEPT)
  write(other, { 'revision.json': 'later' })
  await t.rejects(restoreState(backup, other, { folders }), { message: /exists; restore into an empty data_dir/ })
  await restoreState(backup, other, { folders, replace: true })
  t.same(found(other), KEPT)
  t.match(found(join(other, 'replaced-1')), { 'revision.json': 'later' }, 'what was there is kept beside it')
  write(other, { 'revision.json': 'later' })
  await restoreState(backup, other, { replace: true })
  t.match(found(other), { 'revision.json': 'later' }, 'the store alone')
  const restored = await openState(other, randomBytes, { log })
  t.same(valuesOf(await restored.keys.all<{ key: string }>('SELECT key FROM idempotency'), 'key'), ['before'])
  await restored.close()

  const none = join(folder, 'none')
  mkdirSync(none)
  await backUpIngest(none, join(folder, 'of-none'))
  t.notOk(existsSync(join(folder, 'of-none')), 'a service without pipelines')
})

t.test('a ledger is copied before its segments', async t => {
  const folder = testFolder(t, { service: {}, backup: {} })
  write(join(folder, 'service'), KEPT)
  const copied: string[] = []
  const { copyFile } = fs
  const put = (copy: typeof copyFile) => {
    fs.copyFile = copy
    syncBuiltinESMExports()
  }
  t.teardown(() => put(copyFile))
  put(async (from, ...rest) => {
    copied.push(relative(join(folder, 'service', INGEST_FOLDER, ID), String(from)))
    await copyFile(from, ...rest)
  })
  await backUpIngest(join(folder, 'service'), join(folder, 'backup'))
  t.same(copied, Object.keys(KEPT))
})

t.test('a file that is renamed while its folder is copied is in the backup', async t => {
  const folder = testFolder(t, { service: {}, backup: {} })
  const dataDir = join(folder, 'service')
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`state/dead-letter/a${i}.ndjson`, `${i}`]))
  write(dataDir, { ...many, 'state/dead-letter/z.ndjson': 'moved' })
  const letters = join(INGEST_FOLDER, ID, 'state/dead-letter')
  const copying = backUpIngest(dataDir, join(folder, 'backup'))
  // The folder has been listed as soon as the first copy is there.
  await until('the first copy', () => existsSync(join(folder, 'backup', letters, 'a0.ndjson')), { every: 0 })
  renameSync(join(dataDir, letters, 'z.ndjson'), join(dataDir, letters, '0.ndjson'))
  await copying
  t.match(found(join(folder, 'backup')), { 'state/dead-letter/0.ndjson': 'moved' })
})
