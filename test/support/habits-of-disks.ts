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

/** As on a file system that stores no birth times: a file that is overwritten is like a new one with the same inode. */
export function hideBirthTimes(t: Test): void {
  const calls = fs as unknown as Record<'statSync' | 'fstatSync', (...args: unknown[]) => { birthtimeNs?: bigint }>
  const { statSync, fstatSync } = calls
  const hide =
    (look: typeof statSync) =>
    (...args: unknown[]) => {
      const stat = look(...args)
      return stat?.birthtimeNs === undefined ? stat : Object.assign(stat, { birthtimeNs: 0n })
    }
  Object.assign(calls, { statSync: hide(statSync), fstatSync: hide(fstatSync) })
  t.teardown(() => Object.assign(calls, { statSync, fstatSync }))
}
