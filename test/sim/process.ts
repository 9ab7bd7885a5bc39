import { PassThrough } from 'node:stream'
import type { Logger } from 'pino'
import type { Kind } from '../../src/core/component.js'
import type { Runtime } from '../../src/engine/runtime.js'
import { ComponentCounters, type CounterSet } from '../../src/flow/counters.js'
import { systemClock } from '../../src/lib/time.js'
import type { World } from './world.js'

/** What the engine needs from outside, for a simulated process. */

/** A log that goes into the trace. */
function tracingLog(world: World, bound: object = {}): Logger {
  const write = (level: string) => (fields: object | string, message?: string) =>
    world.say(() => {
      const more = typeof fields === 'string' ? {} : fields
      return `${level}: ${message ?? fields} ${JSON.stringify({ ...bound, ...more }, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}`
    })
  const log = {
    level: 'info',
    child: (more: object, options?: { level?: string }) =>
      options?.level === 'silent' ? SILENT : tracingLog(world, { ...bound, ...more }),
    debug: () => {},
    trace: () => {},
    info: write('info'),
    warn: write('warn'),
    error: write('error'),
    fatal: write('fatal'),
    isLevelEnabled: () => true,
  }
  return log as unknown as Logger
}

const nothing = () => {}
const SILENT = {
  level: 'silent',
  child: () => SILENT,
  debug: nothing,
  trace: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
  isLevelEnabled: () => false,
} as unknown as Logger

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
    log: world.trace ? tracingLog(world) : SILENT,
    clock: systemClock,
    random: () => world.random.next(),
    metrics: new Counters(),
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    env: {},
  }
}
