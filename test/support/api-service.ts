import { join } from 'node:path'
import pino from 'pino'
import type { Test } from 'tap'
import { components } from '../../src/components/list.js'
import type { AnyDefinition } from '../../src/core/component.js'
import type { InitResult } from '../../src/daemon/client/documents.js'
import type { ServiceLimits } from '../../src/service/api/domain/context.js'
import { ApiError } from '../../src/service/api/domain/errors.js'
import type { Principal } from '../../src/service/api/domain/keys/principal.js'
import type { SharedRates } from '../../src/service/api/domain/keys/shared-rates.js'
import { Service } from '../../src/service/api/domain/service.js'
import { changedBy, type Store, StoreError } from '../../src/service/api/store/store.js'
import { testFolder } from './folder.js'
import { ManualTime } from './manual-time.js'
import { openTestStore } from './postgres.js'
import { Seeded } from './seeded.js'

export interface TestedService {
  readonly service: Service
  readonly store: Store
  readonly first: InitResult
  readonly time: ManualTime
  readonly logged: Record<string, unknown>[]
  /** All statements that changed the store, with their values. */
  readonly written: string[]
  /** A second service over the same store, or over another connection to it. */
  again(components?: readonly AnyDefinition[], store?: Store, rates?: SharedRates): Promise<Service>
  /** Changes that succeed before all others fail, and those that end before one fails there, with all of its commit. */
  readonly disk: { writesLeft: number; endsLeft: number }
}

/** A service that is initialised, over a store of its own, with a clock that stands still. */
export async function openService(
  t: Test,
  limits: Partial<ServiceLimits> = {},
  known: readonly AnyDefinition[] = components,
): Promise<TestedService> {
  const inner = await openTestStore(join(testFolder(t), 'store'))
  const disk = { writesLeft: Number.POSITIVE_INFINITY, endsLeft: Number.POSITIVE_INFINITY }
  const written: string[] = []
  const change: Store['change'] = async (owner, work) => {
    if (disk.writesLeft-- <= 0) throw new Error('no space left on device')
    return inner.change(owner, async sql => {
      const done = await work({
        all: (...statement) => recorded(() => sql.all(...statement), statement),
        get: (...statement) => recorded(() => sql.get(...statement), statement),
        run: (...statement) => recorded(() => sql.run(...statement), statement),
      })
      if (disk.endsLeft-- <= 0) throw new StoreError('SLUICE_STORE_UNUSABLE', 'no space left on device')
      return done
    })
  }
  const recorded = <T>(execute: () => Promise<T>, statement: readonly unknown[]) => {
    if (changedBy(String(statement[0]))) written.push(JSON.stringify(statement))
    return execute()
  }
  const store: Store = {
    all: (...statement) => inner.all(...statement),
    get: (...statement) => inner.get(...statement),
    run: (...statement) => change('', sql => sql.run(...statement)),
    change,
    watch: (tables, forget) => inner.watch(tables, forget),
    snapshot: work => inner.snapshot(work),
    backup: folder => inner.backup(folder),
    health: () => inner.health(),
    close: () => inner.close(),
  }
  const time = new ManualTime()
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const seeded = new Seeded(7)
  const random = (bytes: number) => Buffer.from(Array.from({ length: bytes }, () => seeded.below(256)))
  const open = (components = known, of = store, rates?: SharedRates) =>
    Service.open({
      store: of,
      secret: Buffer.alloc(32, 5),
      clock: time,
      random,
      log,
      components,
      limits,
      rates,
      background: false,
    })
  const service = await open()
  const first = await service.init({ managerEmail: 'First@Example.com' })
  t.teardown(() => inner.close())
  return { service, store, first, time, logged, written, again: open, disk }
}

/** Who has this key, perhaps within another account. */
export async function as(service: Service, key: string, delegateAccountId?: string): Promise<Principal> {
  return service.authenticate({
    authorization: `Token ${key}`,
    delegateAccountId,
    address: '192.0.2.1',
    requestId: 'r-1',
  })
}

/** `403 scope_missing`; `done` where nothing is refused. Anything but an ApiError is thrown on. */
export async function outcome(work: Promise<unknown>): Promise<string> {
  try {
    await work
    return 'done'
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return `${error.status} ${error.code}`
  }
}
