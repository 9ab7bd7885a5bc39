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

type Times = { birthtimeNs?: bigint; ctimeNs?: bigint }

/**
 * As on a file system that stores no birth times: a file that is overwritten is like a new one with the same inode.
 * `shown`: the birth time that the system shows instead.
 */
export function hideBirthTimes(t: Test, shown: (stat: Times) => bigint = () => 0n): void {
  const calls = fs as unknown as Record<'statSync' | 'fstatSync', (...args: unknown[]) => Times>
  const { statSync, fstatSync } = calls
  const hide =
    (look: typeof statSync) =>
    (...args: unknown[]) => {
      const stat = look(...args)
      return stat?.birthtimeNs === undefined ? stat : Object.assign(stat, { birthtimeNs: shown(stat) })
    }
  Object.assign(calls, { statSync: hide(statSync), fstatSync: hide(fstatSync) })
  t.teardown(() => Object.assign(calls, { statSync, fstatSync }))
}
