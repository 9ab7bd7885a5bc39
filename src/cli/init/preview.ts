import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { Writable } from 'node:stream'
import type { Io } from '../../daemon/process/command-line.js'
import { beginning } from '../../daemon/process/wrap.js'
import { printableText } from '../../lib/printable.js'
import { explain } from '../check/explain/explain.js'
import type { KeyResult, SimulationResult } from '../check/simulate/result.js'
import { simulate } from '../check/simulate/simulate.js'
import { keyTable } from '../check/simulate/summary.js'
import { number, percent } from '../check/simulate/words.js'
import type { Log } from './machine.js'
import { LIMIT_ID } from './plan.js'

const SHOWN_APPS = 6

/** Shows what the newest line of each log becomes, and how many of the newest lines the limit would have discarded. */
export async function preview(config: string, logs: readonly Log[], columns: number, io: Io): Promise<string[]> {
  const shown = ['The newest line of each log becomes:']
  const uncounted: string[] = []
  const apps: KeyResult[] = []
  for (const { id, path, sample } of logs) {
    const lines = await sample()
    const text = lines === '' ? 'no line, or none that this user can read' : await eventOf(config, id, lines, io)
    shown.push(beginning(printableText(`  ${id}: ${text}`), columns))
    const result = await simulated(config, { id, path }, lines, io)
    if (result) apps.push(...result.results[0]!.by_key)
    else uncounted.push(id)
  }
  const sum = (of: 'passed' | 'discarded') => apps.reduce((total, app) => total + app[of], 0)
  const [discarded, all] = [sum('discarded'), sum('passed') + sum('discarded')]
  const by_key = apps.sort((a, b) => b.discarded - a.discarded || b.passed - a.passed).slice(0, SHOWN_APPS)
  if (all > 0)
    shown.push(
      ...[
        '',
        `Of ${number(all)} lines, the limit would have discarded ${number(discarded)} (${percent(discarded, all)}):`,
      ],
      ...keyTable({ by_key, others: null, more_keys: false }, { columns, colour: false }),
    )
  if (uncounted.length > 0) shown.push(beginning(`Without a time, so not counted: ${uncounted.join(', ')}`, columns))
  return shown
}

/** The JSON of the last line that continues no other as an event that reaches the destination. */
async function eventOf(config: string, source: string, lines: string, io: Io): Promise<string> {
  const line =
    lines
      .trimEnd()
      .split('\n')
      .findLast(line => !/^\s/.test(line)) ?? ''
  // The line end shows that this is not the name of a file.
  const event = `${line}\n`
  const text = await printed(io => explain({ config, source, event, json: true }, io), io)
  const { source: read, steps } = JSON.parse(text) as { source: { fields: object }; steps: { event?: object }[] }
  const { app, ...others } = (steps.findLast(step => step.event)?.event ?? read.fields) as Record<string, unknown>
  return JSON.stringify({ app, ...others })
}

/** What the limit would have done with these lines. Undefined: they have no time. */
async function simulated(
  config: string,
  { id, path }: Pick<Log, 'id' | 'path'>,
  lines: string,
  io: Io,
): Promise<SimulationResult | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-init-'))
  // .app may be in the name of the file.
  const copy = join(folder, basename(path))
  const none = { time: undefined, exclude: undefined, tap: undefined, for: undefined, socket: undefined }
  const goals = { suggest: undefined, budget: undefined, 'time-zone': undefined, report: undefined }
  const lists = { limit: [], window: [], key: [], 'limit-bytes': [], 'window-mode': undefined }
  const flags = {
    ...none,
    ...goals,
    ...lists,
    config,
    component: LIMIT_ID,
    backlog: false,
    decisions: false,
    json: true,
  }
  try {
    writeFileSync(copy, lines, { mode: 0o600 })
    return JSON.parse(await printed(io => simulate(flags, [`${id}=${copy}`], io), io))
  } catch {
    return undefined
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What a command writes to standard output. */
async function printed(command: (io: Io) => Promise<number>, { stdin, env }: Io): Promise<string> {
  let text = ''
  const into = (take: (chunk: unknown) => void) =>
    new Writable({ write: (chunk, _encoding, done) => done(void take(chunk)) }) as unknown as Io['stdout']
  await command({ stdin, env, stdout: into(chunk => (text += chunk)), stderr: into(() => {}) })
  return text
}
