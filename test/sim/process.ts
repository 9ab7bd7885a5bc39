import { PassThrough } from 'node:stream'
import type { Logger } from 'pino'
import type { Kind } from '../../src/core/component.js'
import { ComponentCounters, type CounterSet } from '../../src/engine/flow/counters.js'
import type { Runtime } from '../../src/engine/run/runtime.js'
import { systemClock } from '../../src/lib/time.js'
import type { World } from './world.js'

/** What the engine needs from outside, for a simulated process. */

/** What a crash or a failing disk must never lead to, by the code that is logged. */
const NEVER = new Set(['SLUICE_CHECKPOINT_DAMAGED', 'SLUICE_DELIVERY_FAILED'])

const text = (value: unknown) =>
  JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? `${one}` : one))

/** A log that goes into the trace. */
export function logIn(world: World, bound: object = {}): Logger {
  const write = (level: string) => (fields: { code?: string } | string, message?: string) => {
    const more = typeof fields === 'string' ? {} : fields
    world.say(() => `${level}: ${message ?? fields} ${text({ ...bound, ...more })}`)
    if (more.code !== undefined && NEVER.has(more.code)) world.violate(`${more.code}: ${text({ ...bound, ...more })}`)
  }
  const nothing = () => {}
  const log = {
    level: 'info',
    child: (more: object, options?: { level?: string }) =>
      options?.level === 'silent' ? { ...log, ...SILENT } : logIn(world, { ...bound, ...more }),
    debug: nothing,
    trace: nothing,
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    fatal: write('fatal'),
    isLevelEnabled: () => true,
  }
  return log as unknown as Logger
}

const SILENT = { child: () => SILENT, info: () => {}, warn: () => {}, error: () => {}, fatal: () => {} }

export class Counters implements CounterSet {
  readonly components = new Map<string, ComponentCounters>()

  component(id: string, kind: Kind, type: string): ComponentCounters {
    let counters = this.components.get(id)
    if (!counters) this.components.set(id, (counters = new ComponentCounters(id, kind, type)))
    return counters
  }
}

export function runtimeIn(world: World): Runtime & { readonly metrics: Counters } {
  return {
    log: logIn(world),
    clock: systemClock,
    random: () => world.random.next(),
    metrics: new Counters(),
    stdin: new PassThrough(),
    stdout: new PassThrough(),
  }
}
