import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { finalPath } from './final-path.js'

/** File systems of the kernel in which nobody can keep files, by the number that statfs gives them. */
const KERNEL: Readonly<Record<number, string>> = {
  40864: 'proc',
  1650812274: 'sysfs',
  1667723888: 'cgroup2',
  2613483: 'cgroup',
  1684170528: 'debugfs',
  1953653091: 'tracefs',
  1935894131: 'securityfs',
}

/** Why no file can be kept at `path`, if it is in such a file system. The nearest folder that exists decides. */
export function kernelFolder(path: string): string | undefined {
  for (let at = finalPath(path); ; at = dirname(at)) {
    try {
      const type = KERNEL[Number(statfsSync(at).type)]
      return type && `${at} belongs to the kernel (${type}), and files cannot be kept there`
    } catch {
      // Nothing is there yet, or it cannot be examined.
    }
    if (at === dirname(at)) return undefined
  }
}
