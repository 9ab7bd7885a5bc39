import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { HOST } from './address.js'

type Reply = string | number | null | Error | readonly Reply[]

interface Held {
  consumer: string
  since: number
}

/** A Redis server with one stream, which has one consumer group. Ids are N-0. */
export class FakeRedis {
  /** By the number of the entry: what was given and is not acknowledged. */
  readonly held = new Map<number, Held>()
  /** Is called with each command; an error is the reply. */
  refuse: (command: string) => Error | undefined = () => undefined
  readonly #server = createServer(socket => void this.#serve(socket).catch(() => {}))
  readonly #sockets = new Set<Socket>()
  /** By number. */
  readonly #entries = new Map<number, readonly string[]>()
  #last = 0
  /** The last one that the group was given; undefined: there is no group. */
  #given: number | undefined
  readonly #added = new Set<() => void>()

  static async start(): Promise<FakeRedis> {
    const server = new FakeRedis()
    server.#server.listen(0, HOST)
    await once(server.#server, 'listening')
    return server
  }

  get url(): string {
    return `redis://${HOST}:${(this.#server.address() as AddressInfo).port}`
  }

  /** Adds entries, each by its fields: name, value, name, value … */
  add(entries: readonly (readonly string[])[]): void {
    for (const fields of entries) this.#entries.set(++this.#last, fields)
    for (const added of this.#added) added()
  }

  /** Removes entries, as MAXLEN does. */
  trim(...numbers: readonly number[]): void {
    for (const number of numbers) this.#entries.delete(number)
  }

  /** Loses the stream with its group, as a flush or a failover does. */
  lose(): void {
    this.#entries.clear()
    this.held.clear()
    this.#given = undefined
    for (const added of this.#added) added()
  }

  /** Ends all connections. */
  drop(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  close(): void {
    this.#server.close()
    this.drop()
  }

  async #serve(socket: Socket): Promise<void> {
    this.#sockets.add(socket)
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket))
    let rest = Buffer.alloc(0)
    for await (const chunk of socket) {
      rest = Buffer.concat([rest, chunk])
      for (let read = readCommand(rest); read; read = readCommand(rest)) {
        rest = rest.subarray(read.end)
        socket.write(written(await this.#reply(read.args, socket)))
      }
    }
  }

  #reply(args: readonly string[], socket: Socket): Reply | Promise<Reply> {
    const command = args.join(' ')
    const refused = this.refuse(command)
    if (refused) return refused
    if (args[0] === 'XREADGROUP') return this.#read(args, socket)
    if (args[0] === 'XACK') return this.#acknowledge(args.slice(3).map(numberOf))
    if (args[0] === 'XCLAIM') return this.#claim(args[3]!, args.slice(5, -1).map(numberOf))
    if (args[0] === 'XAUTOCLAIM') {
      const longAgo = Date.now() - Number(args[4])
      const isIdle = (number: number) => number >= numberOf(args[5]!) && this.held.get(number)!.since <= longAgo
      const idle = [...this.held.keys()].filter(isIdle)
      const [next = 0] = idle.splice(Number(args[7]))
      return [`${next}-0`, this.#claim(args[3]!, idle), []]
    }
    if (command.startsWith('XINFO GROUPS')) return [['name', 'sluice', 'lag', this.#last - (this.#given ?? 0)]]
    if (!command.startsWith('XGROUP CREATE')) return new Error(`ERR unknown command '${args[0]}'`)
    if (this.#given !== undefined) return new Error('BUSYGROUP Consumer Group name already exists')
    this.#given = args[4] === '$' ? this.#last : 0
    return 'OK'
  }

  async #read(args: readonly string[], socket: Socket): Promise<Reply> {
    const [, , , consumer, , count, , block, , stream, from] = args as string[]
    if (from === '>' && this.#given === this.#last) await this.#more(Number(block), socket)
    if (this.#given === undefined) return new Error(`NOGROUP No such key '${stream}' or consumer group`)
    const numbers = from === '>' ? this.#next() : this.#heldBy(consumer!, numberOf(from!))
    const given = numbers.slice(0, Number(count))
    if (from === '>')
      for (const number of given) this.held.set((this.#given = number), { consumer: consumer!, since: Date.now() })
    if (from === '>' && given.length === 0) return null
    return [[stream!, given.map(number => [`${number}-0`, this.#entries.get(number) ?? null])]]
  }

  /** Resolves when an entry is added, or after `ms`. */
  async #more(ms: number, socket: Socket): Promise<void> {
    await new Promise<void>(resolve => {
      const done = () => {
        clearTimeout(timer)
        this.#added.delete(done)
        socket.off('close', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.#added.add(done)
      socket.on('close', done)
    })
  }

  /** What every group has seen is removed. */
  #acknowledge(numbers: readonly number[]): number {
    for (const number of numbers) this.#entries.delete(number)
    return numbers.filter(number => this.held.delete(number)).length
  }

  #next(): number[] {
    return [...this.#entries.keys()].filter(number => number > this.#given!)
  }

  #heldBy(consumer: string, after: number): number[] {
    return [...this.held]
      .filter(([number, held]) => held.consumer === consumer && number > after)
      .map(([number]) => number)
  }

  #claim(consumer: string, numbers: readonly number[]): string[] {
    for (const number of numbers) if (this.held.has(number)) this.held.set(number, { consumer, since: Date.now() })
    return numbers.map(number => `${number}-0`)
  }
}

const numberOf = (id: string) => Number(id.split('-', 1)[0])

/** The first command of `bytes`; undefined: it is not whole. */
function readCommand(bytes: Buffer): { readonly args: string[]; readonly end: number } | undefined {
  let at = 0
  const line = () => {
    const end = bytes.indexOf('\r\n', at)
    if (end < 0) return undefined
    const text = bytes.toString('latin1', at + 1, end)
    at = end + 2
    return Number(text)
  }
  const count = line()
  if (count === undefined) return undefined
  const args: string[] = []
  for (let n = 0; n < count; n++) {
    const length = line()
    if (length === undefined || at + length + 2 > bytes.length) return undefined
    args.push(bytes.toString('utf8', at, at + length))
    at += length + 2
  }
  return { args, end: at }
}

function written(reply: Reply): string {
  if (reply === null) return '$-1\r\n'
  if (typeof reply === 'number') return `:${reply}\r\n`
  if (typeof reply === 'string') return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
  if (reply instanceof Error) return `-${reply.message}\r\n`
  return `*${reply.length}\r\n${reply.map(written).join('')}`
}
