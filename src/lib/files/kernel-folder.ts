import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { finalPath } from './final-path.js'

/** File systems of the kernel that cannot store files, by their statfs type. */
const KERNEL: Readonly<Record<number, string>> = {
  40864: 'proc',
  1650812274: 'sysfs',
  1667723888: 'cgroup2',
  2613483: 'cgroup',
  1684170528: 'debugfs',
  1953653091: 'tracefs',
  1935894131: 'securityfs',
}

/** Explains why no file can be stored at `path`, if it is on such a file system. Checks the nearest existing folder. */
export function kernelFolder(path: string): string | undefined {
  for (let at = finalPath(path); ; at = dirname(at)) {
    try {
      const type = KERNEL[Number(statfsSync(at).type)]
      return type && `${at} belongs to the kernel (${type}), and files cannot be kept there`
    } catch {
      // It does not exist yet, or it cannot be examined.
    }
    if (at === dirname(at)) return undefined
  }
}
