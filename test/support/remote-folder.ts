import { spawn, spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { bound } from './bound.js'
import { built } from './checkout.js'

export interface RemoteFolder {
  readonly path: string
  /**
   * From now on the file system answers nothing to what it is asked: from the next time on that it is asked for its size (`size`), that it
   * is asked for anything else (`calls`), or whatever it is (`all`).
   */
  hang(what?: 'size' | 'calls' | 'all'): void
  /** Throws when that lasted longer than a minute: the file system has answered by itself then, so that nothing waits for ever. */
  answer(): void
}

/** At once: the file is never seen empty. */
function hangBy(flag: string, what: string): void {
  writeFileSync(`${flag}.new`, what)
  renameSync(`${flag}.new`, flag)
}

/** Shows the files of `folder` by a file system that may stop to answer. Undefined: this user cannot mount one. */
export function remoteFolder(t: Test, folder: string): RemoteFolder | undefined {
  const flag = join(folder, '..', 'hung')
  let fd: number
  try {
    fd = openSync('/dev/fuse', 'r+')
  } catch {
    return undefined
  }
  // Not in the folder of the test, which is removed before this is over.
  const path = mkdtempSync(join(tmpdir(), 'sluice-remote-'))
  const stdio = ['ignore', 'ignore', 'ignore', fd] as const
  const server = spawn(...bound(process.execPath, [join(built, 'test/support/fuse-server.js'), folder, flag]), {
    stdio: [...stdio],
  })
  const options = 'fd=3,rootmode=40000,user_id=0,group_id=0,allow_other'
  const mounted = spawnSync('mount', ['-i', '-t', 'fuse', '-o', options, 'none', path], { stdio: [...stdio] })
  closeSync(fd)
  const end = () => {
    // What waits for it fails then.
    server.kill('SIGKILL')
    spawnSync('umount', ['-l', path])
    rmdirSync(path)
    process.off('exit', end)
  }
  process.once('exit', end)
  t.teardown(end)
  if (mounted.status !== 0) return undefined
  const answer = () => {
    rmSync(flag, { force: true })
    if (existsSync(`${flag}.late`)) throw new Error(`it hung for a minute:\n${readFileSync(`${flag}.late`, 'utf8')}`)
  }
  return { path, hang: (what = 'size') => hangBy(flag, what), answer }
}
