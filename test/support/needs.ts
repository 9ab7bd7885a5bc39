import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { checkout } from './checkout.js'

/** Where administrators' programs are, also for users whose PATH does not say so. */
const ALSO = ['/usr/local/sbin', '/usr/sbin', '/sbin']

/** The path of a program; undefined: it is not installed. */
export function programPath(program: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  for (const folder of [...(env.PATH ?? '').split(':').filter(Boolean), ...ALSO]) {
    const path = join(folder, program)
    try {
      accessSync(path, constants.X_OK)
      return path
    } catch {}
  }
  return undefined
}

/**
 * The path of a program that a test cannot do without. Missing: skips what is left of the test with the reason, and
 * fails it under CI, where nothing may be skipped, unless `SLUICE_WITHOUT` names it among those that cannot be had.
 * Use: `const promtool = needs(t, 'promtool'); if (!promtool) return`.
 */
export function needs(t: Test, program: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const path = programPath(program, env)
  return path ?? missing(t, program, `${program} is not installed`, env)
}

/** As `needs`, for a server of `.ci/servers`. */
export function needsServer(t: Test, name: string, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const { status, stdout } = spawnSync(join(checkout, '.ci/servers'), ['where', name], { encoding: 'utf8', env })
  return status === 0 ? stdout.trim() : missing(t, name, `needs ${name}: .ci/servers bring ${name}`, env)
}

function missing(t: Test, program: string, reason: string, env: NodeJS.ProcessEnv): undefined {
  if (env.SLUICE_WITHOUT?.split(' ').includes(program)) t.pass(`${reason}, and cannot be`)
  else if (env.CI) t.fail(`${reason}, and under CI no test may be skipped`)
  else t.pass(`needs ${program}`, { skip: reason })
}
