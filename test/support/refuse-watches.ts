import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { Test } from 'tap'

/** The system refuses all watches during the test. */
export function refuseWatches(t: Test): void {
  const { watch } = fs
  const use = (instead: typeof watch) => {
    fs.watch = instead
    syncBuiltinESMExports()
  }
  use(() => {
    throw Object.assign(new Error('no watch'), { code: 'ENOSPC' })
  })
  t.teardown(() => use(watch))
}
