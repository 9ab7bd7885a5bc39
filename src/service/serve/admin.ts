import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { InitResult } from '../../daemon/client/documents.js'
import type { InitOptions } from '../../daemon/client/inputs.js'
import type { Io } from '../../daemon/process/command-line.js'
import { EXIT } from '../../daemon/process/dispatch.js'
import { createLog } from '../../daemon/process/log.js'
import { ApiError } from '../api/domain/errors.js'
import { importState, KEYS_FOLDER, openState, restoreState } from '../api/store/state.js'
import { exportStore } from '../api/store/transfer.js'
import { backUpIngest, INGEST_FOLDER } from '../ingest/ingest-backup.js'
import { loadServiceConfig, openConfigured } from './serve.js'

/** Administration on the service's machine. The commands open the store directly, even while the service runs. */

export interface InitCall {
  readonly config: string
  readonly json: boolean
  readonly email?: string | undefined
  readonly enterprise?: string | undefined
  readonly account?: string | undefined
}

/** Creates the first enterprise, account, manager and keys, and prints them. The keys cannot be printed again. */
export async function init(call: InitCall, io: Io): Promise<number> {
  const input = { managerEmail: call.email, enterpriseTitle: call.enterprise, accountTitle: call.account }
  const made = await initialize(call.config, io, input).catch(error => {
    if (error instanceof ApiError && error.errors.length > 0)
      throw new Error(error.errors.map(({ path, message }) => `${path} ${message}`).join('; '), { cause: error })
    throw error
  })
  io.stdout.write(call.json ? `${JSON.stringify(made)}\n` : initText(made))
  return EXIT.done
}

/** Throws ApiError 409 if the service is already initialized. */
export async function initialize(config: string, io: Io, input: InitOptions = {}): Promise<InitResult> {
  const { options } = await loadServiceConfig(config, io.env)
  const { service, close } = await openConfigured(options, quietLog(io), { beside: true })
  try {
    return await service.init(input)
  } finally {
    await close()
  }
}

/** Logs only problems, since the output is for people, or for programs that read JSON. */
function quietLog(io: Io): Logger {
  return createLog(io, { level: 'warn' })
}

function initText({ enterprise, account, manager, service_account, enterprise_service_account }: InitResult): string {
  return [
    'Save these keys now: they are not shown again.',
    '',
    `enterprise                   ${enterprise.id}`,
    `account                      ${account.id} (${account.short_id})`,
    `manager                      ${manager.id} ${manager.email}`,
    `  key                        ${manager.key}`,
    `service account              ${service_account.id}`,
    `  key                        ${service_account.key}`,
    `enterprise service account   ${enterprise_service_account.id}`,
    `  key                        ${enterprise_service_account.key}`,
    '',
  ].join('\n')
}

/** Copies the store, its secret and the data of pipelines to a new folder. The service may run meanwhile. */
export async function backup(call: { config: string; to: string }, io: Io): Promise<number> {
  const { options } = await loadServiceConfig(call.config, io.env)
  const path = resolve(call.to)
  const { dataDir, store } = options
  const state = await openState(dataDir, randomBytes, { log: quietLog(io), beside: true, store })
  try {
    await state.backup(path, to => backUpIngest(dataDir, to))
  } finally {
    await state.close()
  }
  const parts = 'store, secret of the keys, and the buffers, dead-letter queues and idempotency keys of pipelines'
  io.stdout.write(`${path}: ${parts}. The configuration is not included. Keep the backup where only you can read it.\n`)
  return EXIT.done
}

/** Restores a backup. The service must not run. */
export async function restore(
  call: { config: string; from: string; replace: boolean; 'store-only': boolean },
  io: Io,
): Promise<number> {
  const { options } = await loadServiceConfig(call.config, io.env)
  if (options.store.type === 'postgresql')
    throw new Error(`the store is the database ${options.store.url}: restore it with pg_restore or psql`)
  await restoreState(resolve(call.from), options.dataDir, {
    replace: call.replace,
    folders: call['store-only'] ? [] : [KEYS_FOLDER, INGEST_FOLDER],
  })
  io.stdout.write(`${options.dataDir}: restored from ${resolve(call.from)}\n`)
  return EXIT.done
}

/** Writes all records of the store to a new file. The service may run meanwhile. */
export async function exportTo(file: string, config: string, io: Io): Promise<number> {
  const { options } = await loadServiceConfig(config, io.env)
  const { dataDir, store } = options
  const path = resolve(file)
  const state = await openState(dataDir, randomBytes, { log: quietLog(io), beside: true, store })
  try {
    const records = await exportStore(state.store, path)
    const needed = `An import needs ${dataDir}/secret, too. Keep both where only you can read them.`
    io.stdout.write(`${path}: ${records} records. ${needed}\n`)
  } finally {
    await state.close()
  }
  return EXIT.done
}

/** Saves the records of an export in an empty store. The service must not run. */
export async function importFrom(file: string, config: string, io: Io): Promise<number> {
  const { options } = await loadServiceConfig(config, io.env)
  const { dataDir, store } = options
  const path = resolve(file)
  const records = await importState(path, dataDir, { log: quietLog(io), store })
  const target = store.type === 'postgresql' ? store.url : dataDir
  io.stdout.write(`${target}: imported and compared ${records} records from ${path}\n`)
  return EXIT.done
}
