import { type ChildProcess, spawn } from 'node:child_process'

/**
 * For each program, the script reads a line with an id, a line with the number of words, and then the words, one per
 * line. When the program has ended, the script writes the id and the exit code. The script ends when its input ends. It
 * ignores the signals that end the service, but its programs do not.
 */
const SCRIPT = `trap '' TERM INT HUP
while IFS= read -r id && IFS= read -r count; do
  set --
  while [ "$count" -gt 0 ]; do IFS= read -r word; set -- "$@" "$word"; count=$((count - 1)); done
  (trap - TERM INT HUP; "$@"; echo "$id $?" >&3) >/dev/null 2>&1 &
done 3>&1`

/**
 * Runs programs in a helper process, which must be started before any remote file is opened. A helper that is started
 * later would first close the descriptors that it inherits. If closing a remote file blocks the helper, this process
 * may block as well.
 */
export class HelperProcess {
  #child: ChildProcess | undefined
  #hasEnded = false
  #asked = 0
  #text = ''
  readonly #waiting = new Map<string, (code: number | undefined) => void>()

  get isRunning(): boolean {
    return this.#child !== undefined
  }

  /** Starts the process, unless it has already ended once. */
  start(): void {
    if (!this.#hasEnded) this.#child ??= this.#start()
  }

  /**
   * Resolves with the exit code of the program or shell; undefined if no process runs. Line ends in `words` become
   * spaces.
   */
  run(words: readonly string[]): Promise<number | undefined> {
    const stdin = this.#child?.stdin
    if (!stdin?.writable) return Promise.resolve(undefined)
    return new Promise(resolve => {
      const id = String(++this.#asked)
      this.#waiting.set(id, resolve)
      stdin.write(`${id}\n${words.length}\n${words.map(word => `${word.replaceAll('\n', ' ')}\n`).join('')}`)
    })
  }

  /** Undefined if no process can be started. */
  #start(): ChildProcess | undefined {
    let child: ChildProcess
    try {
      child = spawn('sh', ['-c', SCRIPT], { stdio: ['pipe', 'pipe', 'ignore'], detached: true, cwd: '/' })
    } catch {
      this.#end()
      return undefined
    }
    child.once('error', () => this.#end())
    child.once('exit', () => this.#end())
    // Without a free descriptor, there are no streams.
    child.stdin?.on('error', () => {})
    child.stdout?.on('data', data => this.#onOutput(String(data)))
    // The helper ends when its input ends. It must not keep the current process alive.
    child.unref()
    for (const stream of [child.stdin, child.stdout]) (stream as { unref?(): void } | undefined)?.unref?.()
    return child
  }

  #onOutput(text: string): void {
    const lines = (this.#text + text).split('\n')
    this.#text = lines.pop()!
    for (const line of lines) {
      const [id = '', code] = line.split(' ')
      const resolve = this.#waiting.get(id)
      this.#waiting.delete(id)
      resolve?.(Number(code))
    }
  }

  #end(): void {
    this.#hasEnded = true
    this.#child = undefined
    for (const resolve of this.#waiting.values()) resolve(undefined)
    this.#waiting.clear()
  }
}

export const helperProcess = new HelperProcess()
