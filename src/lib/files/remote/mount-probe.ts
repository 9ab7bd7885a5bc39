import { statfs } from 'node:fs'
import { HelperProcess } from '../helper-process.js'
import { inTurn } from '../in-turn.js'

/** Exit codes of the shell from this one on mean that a signal ended the program. */
const ENDED_BY_SIGNAL = 128

/** Probes file systems with programs, so a probe that hangs blocks nothing else. */
export class MountProbe {
  readonly #helper: HelperProcess

  constructor(helper = new HelperProcess()) {
    this.#helper = helper
  }

  /** Resolves when the file system mounted at `mount` has responded, with success or an error. */
  async ask(mount: string): Promise<void> {
    if (mount.includes('\n')) return await byThread(mount)
    this.#helper.start()
    for (;;) {
      // It requests the size of the file system, which no network file system answers from a cache.
      const code = await this.#helper.run(['stat', '-f', '--', mount])
      if (code === undefined) return await byThread(mount)
      if (code < ENDED_BY_SIGNAL) return
    }
  }
}

/** Probes in a thread if there is no helper process; one probe at a time. */
function byThread(mount: string): Promise<void> {
  return inTurn('probe of a file system', () => new Promise<void>(done => statfs(mount, () => done())))
}
