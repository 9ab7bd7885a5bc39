import { errorText } from '../../../../core/errors.js'
import { type Change, type Expected, portionsOf } from '../../store/store.js'
import type { Context } from '../context.js'
import { at, type PipelineRecord, type RevisionRecord } from '../records.js'
import type { Literals } from '../secrets/literals.js'
import { revisionSize } from './revisions.js'

/** Pipelines, and revisions of a pipeline, per read. */
const PORTION = 10

/**
 * Migrates data of earlier versions once: counts the revisions of every pipeline, and encrypts literal keys in them. If
 * the process is killed, the migration is repeated at the next start. It counts as done after the old texts have been
 * removed from the files of the store. If the store cannot be written, the service runs anyway and retries at its next
 * start.
 */
export async function prepareRevisions(context: Context, literals: Literals): Promise<void> {
  const { store, log } = context
  if ((await store.get(at.revisionsPrepared)) !== undefined) return
  try {
    let sealed = 0
    for await (const pipelines of portionsOf(store, at.allPipelines, PORTION))
      for (const { value } of pipelines) sealed += await preparePipeline(context, literals, value as PipelineRecord)
    await store.compact()
    await store.write([{ key: at.revisionsPrepared, value: { at: context.time() } }])
    if (sealed > 0)
      log.warn(
        { code: 'SLUICE_LITERALS_ENCRYPTED', records: sealed },
        'encrypted literal keys of pipelines that an earlier version stored as text; backups made before still have them as text, so rotate these keys',
      )
  } catch (error) {
    log.error(
      { code: 'SLUICE_LITERALS_NOT_ENCRYPTED', error: errorText(error) },
      'cannot encrypt literal keys of pipelines that an earlier version stored as text; retrying at the next start. Check the disk of data_dir',
    )
  }
}

/** Resolves with the number of records that had literal keys. */
async function preparePipeline(context: Context, literals: Literals, pipeline: PipelineRecord): Promise<number> {
  const { store } = context
  const { enterprise_id, account_id, id } = pipeline
  let bytes = 0
  let sealed = 0
  const replace = async (before: Expected, after: unknown, more: readonly Change[] = []) => {
    if (after !== before.value) sealed++
    const changes = after === before.value ? more : [{ key: before.key, value: after }, ...more]
    if (changes.length > 0) await store.write(changes, [before])
  }
  for await (const entries of portionsOf(store, at.revisions(id), PORTION))
    for (const { key, value } of entries) {
      const record = literals.seal(value as RevisionRecord, key)
      await replace({ key, value }, record)
      bytes += revisionSize(record)
    }
  const key = at.pipeline(enterprise_id, account_id, id)
  const counted = { key: at.revisionBytes(account_id, id), value: bytes }
  await replace({ key, value: pipeline }, literals.seal(pipeline, key), [counted])
  return sealed
}
