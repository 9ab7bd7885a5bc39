import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Io } from '../../daemon/process/command-line.js'
import { wrap } from '../../daemon/process/wrap.js'
import type { KeyResult, SimulationResult } from '../../simulate/wing.js'
import { loadSimulation } from '../wings.js'
import type { ConfigPlan } from './plan.js'

const SHOWN_APPS = 6

/** Runs a command of this program. */
export type Obey = (args: readonly string[], io: Io) => Promise<unknown>

/** Shows what the newest line of each log becomes, and how many of the newest lines the limit would have discarded. */
export async function preview(
  config: string,
  { logs, limit }: Pick<ConfigPlan, 'logs' | 'limit'>,
  columns: number,
  io: Io,
  obey: Obey,
): Promise<string[]> {
  const { keyTable, number, percent } = await loadSimulation()
  const shown = ['The newest line of each log becomes:']
  const uncounted: string[] = []
  const apps = new Map<string | null, KeyResult>()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-init-'))
  try {
    for (const { id, path, isTimed, sample } of logs) {
      const lines = await sample()
      if (lines === '') shown.push(`  ${id}: no line, or none that this user can read`)
      else shown.push(`  ${id}: ${await eventOf(config, id, lines, io, obey)}`)
      if (!isTimed && lines !== '') uncounted.push(id)
      if (!isTimed || lines === '') continue
      // The name of the file may have .app.
      const copy = join(folder, basename(path))
      writeFileSync(copy, lines, { mode: 0o600 })
      // With --limit, the lines count as live: as backlog, the throttle would only delay them.
      const args = ['simulate', '-c', config, '--limit', String(limit), '--json', `${id}=${copy}`]
      const result = await printed<SimulationResult>(args, io, obey)
      for (const app of result?.results[0]?.by_key ?? []) {
        // Several logs may have lines of one app.
        const { passed, discarded, busiest } = apps.get(app.key) ?? { passed: 0, discarded: 0, busiest: 0 }
        const sums = { passed: passed + app.passed, discarded: discarded + app.discarded }
        apps.set(app.key, { ...app, ...sums, busiest: Math.max(busiest, app.busiest) })
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const by_key = [...apps.values()].sort((a, b) => b.discarded - a.discarded || b.passed - a.passed)
  const discarded = by_key.reduce((sum, app) => sum + app.discarded, 0)
  const all = by_key.reduce((sum, app) => sum + app.passed, discarded)
  const share = `${number(discarded)} (${percent(discarded, all)})`
  const table = { by_key: by_key.slice(0, SHOWN_APPS), others: null, more_keys: false }
  if (all > 0) shown.push('', `Of the newest ${number(all)} lines, the limit would have discarded ${share}:`)
  if (all > 0) shown.push(...keyTable(table, { columns, colour: false }))
  const without = `Not counted, because no time was found in the fields of the events: ${uncounted.join(', ')}. If the lines have a time, a processor of type parse can put it into .timestamp`
  if (uncounted.length > 0) shown.push(...wrap(without, columns, '  '))
  return shown
}

/** The JSON of the last line that continues no other as an event that reaches the destination. */
async function eventOf(config: string, source: string, lines: string, io: Io, obey: Obey): Promise<string> {
  const line = lines.split('\n').findLast(line => /^\S/.test(line)) ?? lines
  // The line end shows that this is not the name of a file.
  const args = ['explain', '-c', config, '--source', source, '--json', '--', `${line}\n`]
  const result = await printed<{ source: { fields: object }; steps: { event?: object }[] }>(args, io, obey)
  const event = result?.steps.findLast(step => step.event)?.event ?? result?.source.fields
  const { app, ...others } = (event ?? {}) as Record<string, unknown>
  return JSON.stringify({ app, ...others })
}

/** The JSON that a command prints; undefined if it fails. */
async function printed<T>(args: readonly string[], io: Io, obey: Obey): Promise<T | undefined> {
  let text = ''
  const streams = { stdout: { value: { write: (part: string) => (text += part) } }, stderr: { value: { write() {} } } }
  await obey(args, Object.create(io, streams) as Io)
  return text === '' ? undefined : (JSON.parse(text) as T)
}
