import { statfs } from 'node:fs'
import { HelperProcess } from '../helper-process.js'
import { inTurn } from '../in-turn.js'

/** Exit codes of the shell. */
const ENDED_BY_SIGNAL = 128

/** Asks file systems whether they answer, by programs: one that waits keeps nobody else waiting. */
export class MountProbe {
  readonly #helper: HelperProcess

  constructor(helper = new HelperProcess()) {
    this.#helper = helper
  }

  /** Resolves when the file system mounted at `mount` has answered, whatever the answer. */
  async ask(mount: string): Promise<void> {
    if (mount.includes('\n')) return await byThread(mount)
    this.#helper.start()
    for (;;) {
      // It asks a network file system for its size, which nobody keeps in memory.
      const code = await this.#helper.run(['stat', '-f', '--', mount])
      if (code === undefined) return await byThread(mount)
      if (code < ENDED_BY_SIGNAL) return
    }
  }
}

/** Where there is no such process a thread has to do; never more than one. */
function byThread(mount: string): Promise<void> {
  return inTurn('probe of a file system', () => new Promise<void>(done => statfs(mount, () => done())))
}
