import { resolve } from 'node:path'
import type { Logger } from 'pino'
import type { Config } from '../../engine/config/load.js'
import { sleep } from '../../lib/time.js'
import type { InitResult } from '../../service/api/domain/documents.js'
import { ApiError } from '../../service/api/domain/errors.js'
import type { OpenService } from '../../service/api/open-service.js'
import { restoreState } from '../../service/api/store/state.js'
import { StoreError } from '../../service/api/store/store.js'
import { backUpIngest, INGEST_FOLDER } from '../../service/ingest/ingest-backup.js'
import type { Io } from '../process/command-line.js'
import { EXIT } from '../process/dispatch.js'
import { createLog } from '../process/log.js'
import { callControl } from './control.js'
import { loadServiceConfig, openConfigured } from './serve.js'

/** Administration on the machine of the service: over its socket while it runs, else with the store itself. */

/** A service that is starting has the store already, and its socket soon. */
const TRIES = 20
const BETWEEN_MS = 100

type ServiceConfig = NonNullable<Config['service']>

interface Work<T> {
  /** What the socket calls it. */
  readonly name: string
  readonly input: Readonly<Record<string, unknown>>
  /** The same without a service that runs. */
  here(opened: OpenService): Promise<T>
}

/** Does it where the store is open, or opens it. */
async function administer<T>(options: ServiceConfig, log: Logger, work: Work<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    const asked = await callControl(options.dataDir, work.name, work.input)
    if (asked) return asked.body as T
    try {
      const opened = await openConfigured(options, log)
      try {
        return await work.here(opened)
      } finally {
        await opened.close()
      }
    } catch (error) {
      const inUse = error instanceof StoreError && error.code === 'SLUICE_STORE_IN_USE'
      if (!inUse || tried === TRIES) throw error
    }
    await sleep(BETWEEN_MS)
  }
}

export interface InitCall {
  readonly config: string
  readonly json: boolean
  readonly email?: string | undefined
  readonly enterprise?: string | undefined
  readonly account?: string | undefined
}

/** Makes the first enterprise, account, manager and keys, and prints them: nothing ever prints them again. */
export async function init(call: InitCall, io: Io): Promise<number> {
  const { options } = await loadServiceConfig(call.config, io.env)
  const input = { managerEmail: call.email, enterpriseTitle: call.enterprise, accountTitle: call.account }
  const made = await administer<InitResult>(options, quietLog(io), {
    name: 'init',
    input,
    here: ({ service }) => service.init(input),
  }).catch(error => {
    if (error instanceof ApiError && error.errors.length > 0)
      throw new Error(error.errors.map(({ path, message }) => `${path} ${message}`).join('; '), { cause: error })
    throw error
  })
  io.stdout.write(call.json ? `${JSON.stringify(made)}\n` : initText(made))
  return EXIT.done
}

/** Only what goes wrong: the output is for people, or for programs that read JSON. */
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

/** Copies the store, its secret and what the pipelines keep to a new folder, while the service runs or not. */
export async function backup(call: { config: string; to: string }, io: Io): Promise<number> {
  const { options } = await loadServiceConfig(call.config, io.env)
  const path = resolve(call.to)
  await administer<unknown>(options, quietLog(io), {
    name: 'backup',
    input: { path },
    here: ({ state }) => state.backup(path, to => backUpIngest(options.dataDir, to)),
  })
  const parts = 'store, secret of the keys, and the buffers, dead-letter queues and idempotency keys of pipelines'
  io.stdout.write(`${path}: ${parts}. The configuration is not included. Keep the backup where only you can read it.\n`)
  return EXIT.done
}

/** Puts a backup in place. The service must not run. */
export async function restore(
  call: { config: string; from: string; replace: boolean; 'store-only': boolean },
  io: Io,
): Promise<number> {
  const { options } = await loadServiceConfig(call.config, io.env)
  if (await callControl(options.dataDir, 'ping', {}).then(Boolean, () => true))
    throw new Error(`a service runs on ${options.dataDir}: stop it first`)
  await restoreState(resolve(call.from), options.dataDir, {
    log: quietLog(io),
    replace: call.replace,
    folders: call['store-only'] ? [] : [INGEST_FOLDER],
  })
  io.stdout.write(`${options.dataDir}: restored from ${resolve(call.from)}\n`)
  return EXIT.done
}
