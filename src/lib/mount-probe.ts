import { type ChildProcess, spawn } from 'node:child_process'
import { statfs } from 'node:fs'
import { inTurn } from './in-turn.js'

/**
 * Each line is a number and a mount; the number and the exit code of `stat -f` come back when that has an answer. It asks a network file
 * system for its size, which nobody keeps in memory. Signals that end the service end `stat`, and leave the rest to the end of the input.
 */
const SCRIPT = `trap '' TERM INT HUP
while IFS= read -r line; do
  (trap - TERM INT HUP; stat -f -- "\${line#* }"; echo "\${line%% *} $?" >&3) >/dev/null 2>&1 &
done 3>&1`

/** Exit codes of the shell. */
const ENDED_BY_SIGNAL = 128

/**
 * Asks file systems whether they answer, by a process that was started before anything of them was opened. A process that is started
 * later would not do: it begins by closing the descriptors that it inherits, and closing a file may wait for its file system, too,
 * while this process waits for it.
 */
export class MountProbe {
  #helper: ChildProcess | undefined
  #isUsable = true
  #asked = 0
  #text = ''
  readonly #waiting = new Map<string, { readonly mount: string; readonly resolve: () => void }>()

  /** Resolves when the file system mounted at `mount` has answered, whatever the answer. */
  ask(mount: string): Promise<void> {
    const helper = this.#isUsable ? (this.#helper ??= this.#start()) : undefined
    const stdin = helper?.stdin
    if (!stdin?.writable || mount.includes('\n')) return byThread(mount)
    return new Promise(resolve => {
      const id = String(++this.#asked)
      this.#waiting.set(id, { mount, resolve })
      stdin.write(`${id} ${mount}\n`)
    })
  }

  #start(): ChildProcess {
    const helper = spawn('sh', ['-c', SCRIPT], { stdio: ['pipe', 'pipe', 'ignore'], detached: true, cwd: '/' })
    helper.once('error', () => this.#end())
    helper.once('exit', () => this.#end())
    helper.stdin.on('error', () => {})
    helper.stdout.on('data', data => this.#hear(String(data)))
    // It ends with its input, and must not keep this process from ending.
    helper.unref()
    for (const stream of [helper.stdin, helper.stdout]) (stream as { unref?(): void }).unref?.()
    return helper
  }

  #hear(text: string): void {
    const lines = (this.#text + text).split('\n')
    this.#text = lines.pop()!
    for (const line of lines) {
      const [id = '', code] = line.split(' ')
      const asked = this.#waiting.get(id)
      if (!asked) continue
      if (Number(code) < ENDED_BY_SIGNAL) {
        this.#waiting.delete(id)
        asked.resolve()
      } else this.#helper?.stdin?.write(`${id} ${asked.mount}\n`)
    }
  }

  /** It is not started again. */
  #end(): void {
    this.#isUsable = false
    this.#helper = undefined
    for (const { mount, resolve } of this.#waiting.values()) void byThread(mount).then(resolve)
    this.#waiting.clear()
  }
}

/** Where there is no such process a thread has to do; never more than one. */
function byThread(mount: string): Promise<void> {
  return inTurn('probe of a file system', () => new Promise<void>(done => statfs(mount, () => done())))
}
