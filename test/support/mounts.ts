import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Small file systems of a run, which can be full, or only be read; gone with the process at the latest. */
export class Mounts {
  readonly #paths: string[] = []

  /** Makes `path` one, where this user can. */
  make(path: string, size: string): void {
    if (!mayMount()) return
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=0755`, 'tmpfs', path])
    if (this.#paths.push(path) === 1) process.once('exit', this.end)
  }

  has(path: string): boolean {
    return this.#paths.includes(path)
  }

  /** Throws while a file there is open to be written to. */
  onlyToBeRead(path: string): void {
    execFileSync('mount', ['-o', 'remount,ro', path], { stdio: 'pipe' })
  }

  toBeWritten(path: string): void {
    execFileSync('mount', ['-o', 'remount,rw', path])
  }

  readonly end = () => {
    for (const path of this.#paths.splice(0)) execFileSync('umount', ['-l', path])
    process.removeListener('exit', this.end)
  }
}

/** Lets a file grow until its file system has no room for anything; without the file there is as much as before. */
export function fill(path: string): void {
  for (let size = 65_536; size >= 1; ) {
    try {
      appendFileSync(path, Buffer.alloc(size))
    } catch {
      size = size > 4096 ? 4096 : 0
    }
  }
}

let mounting: boolean | undefined
/** Whether this user can make small file systems: root, and not in every container. */
export function mayMount(): boolean {
  mounting ??= tryMount()
  return mounting
}

function tryMount(): boolean {
  if (process.getuid?.() !== 0) return false
  const folder = mkdtempSync(join(tmpdir(), 'sluice-mount-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder], { stdio: 'pipe' })
    execFileSync('umount', [folder])
    return true
  } catch {
    return false
  } finally {
    rmdirSync(folder)
  }
}
