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

interface Owned {
  readonly dev: number | bigint
  readonly ino: number | bigint
  readonly birthtimeMs: number | bigint
  uid: number | bigint
}

/** Files have these owners during the test, which need not run as root. Returns a function that changes the owner. */
export function giveOwners(t: Test): (path: string, uid: number) => void {
  const names = ['statSync', 'fstatSync', 'lstatSync'] as const
  const calls = fs as unknown as Record<(typeof names)[number], (...args: unknown[]) => Owned | undefined>
  const real = Object.fromEntries(names.map(name => [name, calls[name]])) as typeof calls
  const owners = new Map<string, number>()
  const keyOf = ({ dev, ino, birthtimeMs }: Owned) => [dev, ino, Math.floor(Number(birthtimeMs))].join()
  for (const name of names)
    calls[name] = (...args) => {
      const stat = real[name](...args)
      const uid = stat && owners.get(keyOf(stat))
      if (uid !== undefined) stat!.uid = typeof stat!.ino === 'bigint' ? BigInt(uid) : uid
      return stat
    }
  t.teardown(() => Object.assign(calls, real))
  return (path, uid) => owners.set(keyOf(real.lstatSync(path)!), uid)
}
