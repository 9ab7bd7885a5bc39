import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { built } from './measure.js'

export interface Counts {
  readonly lines: number
  readonly bytes: number
}

/** The HTTP receiver in receiver.ts, which runs as a process of its own. */
export class CountingReceiver {
  readonly port: number
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, port: number) {
    this.#child = child
    this.port = port
  }

  static async start(args: readonly string[] = []): Promise<CountingReceiver> {
    const child = fork(built('./receiver.js'), args)
    const { port } = (await answer(child)) as { port: number }
    return new CountingReceiver(child, port)
  }

  /** What it has received so far. */
  async counts(): Promise<Counts> {
    return await this.#ask('counts')
  }

  /** Ends the outage of a receiver that was started with `--away`. */
  async back(): Promise<void> {
    await this.#ask('back')
  }

  close(): void {
    this.#child.disconnect()
  }

  async #ask(message: string): Promise<Counts> {
    this.#child.send(message)
    return (await answer(this.#child)) as Counts
  }
}

async function answer(child: ChildProcess): Promise<unknown> {
  const [message] = await once(child, 'message')
  return message
}
