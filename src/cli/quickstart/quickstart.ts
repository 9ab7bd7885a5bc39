import { writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { errorText } from '../../core/errors.js'
import type { Running } from '../../daemon/run.js'
import type { Totals } from '../../engine/measure/totals.js'
import { makeFolderSync } from '../../lib/files/make-folder.js'
import { every, systemClock } from '../../lib/time.js'
import { packageFolder } from '../../lib/version.js'
import type { Io } from '../../terminal/command-line.js'
import { startApps } from './apps.js'
import { APPS_LOG, announce, FOLDER, freePort, makePlan, type Plan, planYaml, receiverOf, USUAL_LOGS } from './plan.js'
import { startOwnService } from './service.js'
import { LiveView } from './view.js'

const SERVICE_PORT = 8080
const VIEW_MS = 1000

/** Throttles simulated apps, and ships them with a log of this machine. Resolves with the exit code after Ctrl-C. */
export async function quickstart(io: Io): Promise<number> {
  const folder = join(process.cwd(), FOLDER)
  makeFolderSync(folder, 0o700)
  const warn = (text: string) => io.stderr.write(`sluice: ${text}\n`)
  const found = makePlan(USUAL_LOGS, join(packageFolder, 'README.md'), io.env, folder, await freePort())
  const service = found.http
    ? undefined
    : await startOwnService(folder, await freePort(SERVICE_PORT), io.env).catch(error => {
        warn(`cannot start a service, events go to a file instead: ${errorText(error)}`)
        return undefined
      })
  const stopApps = startApps(join(folder, APPS_LOG), error => warn(`the made-up apps stopped: ${errorText(error)}`))
  try {
    return await runPlan(service ? { ...found, service } : found, io)
  } finally {
    stopApps()
    await service?.stop()
  }
}

async function runPlan(plan: Plan, io: Io): Promise<number> {
  const file = join(plan.folder, 'sluice.yaml')
  writeFileSync(file, planYaml(plan))
  io.stdout.write(announce(plan, io.env))
  const began = systemClock.now()
  let view: LiveView | undefined
  let totals: (() => Totals) | undefined
  const follow = ({ pipeline, metrics, totals: totalsNow }: Running) => {
    totals = totalsNow
    const read = () => metrics.components.get('log')?.received.events ?? 0
    const live = new LiveView({ watch: () => pipeline.watchKeys('limit_apps'), read }, plan.log)
    view = live
    const stop = every(VIEW_MS, () => io.stdout.write(live.next(timeText(systemClock.wall()))))
    return async () => stop()
  }
  const { run } = await import('../../daemon/run.js')
  const code = await run({ configPath: file, follow, log: { format: 'text', level: 'warn' } }, io)
  if (view && totals) {
    const config = relative(process.cwd(), file)
    io.stdout.write(view.summary(systemClock.now() - began, totals(), receiverOf(plan, io.env), config))
  }
  return code
}

/** Local time of day as in 14:03:12. */
function timeText(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 8)
}
