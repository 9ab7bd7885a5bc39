import { join } from 'node:path'
import pino from 'pino'
import type { Test } from 'tap'
import { components } from '../../src/components/list.js'
import type { AnyDefinition } from '../../src/core/component.js'
import type { ServiceLimits } from '../../src/service/api/domain/context.js'
import type { InitResult } from '../../src/service/api/domain/documents.js'
import { ApiError } from '../../src/service/api/domain/errors.js'
import type { Principal } from '../../src/service/api/domain/keys/principal.js'
import { Service } from '../../src/service/api/domain/service.js'
import { openLevelStore } from '../../src/service/api/store/level.js'
import type { Change, Expected, Store } from '../../src/service/api/store/store.js'
import { testFolder } from './folder.js'
import { ManualTime } from './manual-time.js'
import { Seeded } from './seeded.js'

export interface TestedService {
  readonly service: Service
  readonly first: InitResult
  readonly time: ManualTime
  readonly logged: Record<string, unknown>[]
  /** Everything that was written to the store, as text. */
  readonly written: string[]
  /** A second service over the same store. */
  again(components?: readonly AnyDefinition[]): Promise<Service>
  /** Writes that succeed before all others fail. */
  readonly disk: { writesLeft: number }
}

/** A service that is initialised, over a store of its own, with a clock that stands still. */
export async function openService(
  t: Test,
  limits: Partial<ServiceLimits> = {},
  known: readonly AnyDefinition[] = components,
): Promise<TestedService> {
  const level = await openLevelStore(join(testFolder(t), 'store'))
  const disk = { writesLeft: Number.POSITIVE_INFINITY }
  const written: string[] = []
  const store: Store = {
    get: key => level.get(key),
    list: (prefix, options) => level.list(prefix, options),
    write: async (changes: readonly Change[], expected?: readonly Expected[]) => {
      if (disk.writesLeft-- <= 0) throw new Error('no space left on device')
      written.push(...changes.map(change => JSON.stringify(change)))
      return level.write(changes, expected)
    },
    watch: (prefix, changed) => level.watch(prefix, changed),
    check: () => level.check(),
    backup: path => level.backup(path),
    health: () => level.health(),
    close: () => level.close(),
  }
  const time = new ManualTime()
  const logged: Record<string, unknown>[] = []
  const log = pino({}, { write: line => logged.push(JSON.parse(line)) })
  const seeded = new Seeded(7)
  const random = (bytes: number) => Buffer.from(Array.from({ length: bytes }, () => seeded.below(256)))
  const open = (components = known) =>
    Service.open({
      store,
      secret: Buffer.alloc(32, 5),
      clock: time,
      random,
      log,
      components,
      limits,
      background: false,
    })
  const service = await open()
  const first = await service.init({ managerEmail: 'First@Example.com' })
  t.teardown(() => level.close())
  return { service, first, time, logged, written, again: open, disk }
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
