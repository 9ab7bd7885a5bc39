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
    this.#child.send('counts')
    return (await answer(this.#child)) as Counts
  }

  close(): void {
    this.#child.disconnect()
  }
}

async function answer(child: ChildProcess): Promise<unknown> {
  const [message] = await once(child, 'message')
  return message
}
