import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { testFolder } from '../support/folder.js'
import { type Certificates, makeCertificates } from './certificates.js'
import { type Outcome, run } from './run.js'
import { PLAIN, type Scenario, type Setup, type Step } from './scenario.js'

const PATIENCE_MS = 30_000

const certificates = new Map<string, Certificates | undefined>()

/** Performs a scenario in a test, asserts that nothing is wrong, and returns what happened. */
export async function performIn(t: Test, scenario: Scenario): Promise<Outcome> {
  const root = testFolder(t)
  if (scenario.setup.tls) certificates.set(root, makeCertificates(root))
  const folder = join(root, 'run')
  const around = { folder, certificates: certificates.get(root), patienceMs: PATIENCE_MS }
  const outcome = await run(scenario, around)
  const { failure } = outcome
  t.equal(failure && `${failure.kind}: ${failure.message}\n${outcome.journal}`, undefined, scenario.note)
  rmSync(folder, { recursive: true, force: true })
  return outcome
}

/** A scenario written by hand: what differs from a plain setup, and the steps. */
export function scenario(note: string, setup: Partial<Setup>, steps: readonly Step[]): Scenario {
  return { note, setup: { ...PLAIN, ...setup }, steps }
}
