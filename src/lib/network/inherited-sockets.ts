import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { after } from '../time.js'

/**
 * Sockets on which systemd listens for this process (socket activation). Accepts connections only while a server takes
 * them or is about to take them. Connections that arrive before the start or after `stopAccepting` wait in the kernel.
 * Connections that arrive while their server is being replaced wait in this process.
 */

export type ListenAddress = { readonly host: string; readonly port: number } | { readonly systemd: string }

export interface Claimant {
  take(socket: Socket): void
}

const FIRST_FD = 3
/** Node.js reads `pauseOnConnect` each time it accepts a connection. */
type Pausing = Server & { pauseOnConnect: boolean }
/** How long connections are accepted without a server, during a reload. Longer than a usual shutdown_timeout. */
const GRACE_MS = 15 * 60_000

/** All sockets with the same name. */
class Inherited {
  readonly #fds: readonly number[]
  #servers: Pausing[] | undefined
  #claimant: Claimant | undefined
  #waiting: Socket[] = []
  #cancelGrace: (() => void) | undefined
  #isGone = false

  constructor(fds: readonly number[]) {
    this.#fds = fds
  }

  get isFree(): boolean {
    return this.#claimant === undefined
  }

  /** Whether this process has released the sockets for good. */
  get isGone(): boolean {
    return this.#isGone
  }

  async claim(claimant: Claimant): Promise<void> {
    this.#cancelGrace?.()
    this.#claimant = claimant
    try {
      this.#servers ??= await Promise.all(this.#fds.map(fd => this.#open(fd)))
    } catch (error) {
      this.release()
      throw error
    }
    for (const server of this.#servers) {
      server.pauseOnConnect = false
      server.ref()
    }
    for (const socket of this.#waiting.splice(0)) if (!socket.destroyed) this.#hand(socket)
  }

  release(): void {
    this.#claimant = undefined
    for (const server of this.#servers ?? []) {
      server.pauseOnConnect = true
      server.unref()
    }
    if (this.#servers && !this.#isGone) this.#cancelGrace = after(GRACE_MS, () => this.stopAccepting())
  }

  stopAccepting(): void {
    this.#cancelGrace?.()
    this.#isGone = true
    for (const server of this.#servers ?? []) server.close()
    for (const socket of this.#waiting.splice(0)) socket.destroy()
  }

  /** HOST:PORT of the first socket; empty for a Unix socket. */
  get address(): string {
    const address = this.#servers?.[0]?.address()
    return typeof address === 'string' ? address : address ? addressText(address) : ''
  }

  async #open(fd: number): Promise<Pausing> {
    const server = createServer(socket => {
      if (this.#claimant) this.#claimant.take(socket)
      else this.#waiting.push(socket.on('error', () => {}))
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ fd }, resolve)
    })
    server.removeAllListeners('error')
    server.on('error', () => {})
    return server as Pausing
  }

  /** Passes on a connection. If it had to wait, nothing was read from it so far, so reading begins now. */
  #hand(socket: Socket): void {
    this.#claimant!.take(socket)
    if (socket.listenerCount('data') > 0) socket.resume()
  }
}

export class InheritedSockets {
  readonly #byName = new Map<string, Inherited>()

  /** Takes the sockets for process `pid` from the environment, and removes the variables. */
  static from(env: NodeJS.ProcessEnv, pid = process.pid, firstFd = FIRST_FD): InheritedSockets {
    const { LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES = '' } = env
    for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete env[name]
    const count = Number(LISTEN_PID) === pid && /^\d+$/.test(LISTEN_FDS ?? '') ? Number(LISTEN_FDS) : 0
    const names = LISTEN_FDNAMES.split(':')
    const fds = Array.from({ length: count }, (_, i) => ({ fd: firstFd + i, name: names[i] || 'unknown' }))
    return new InheritedSockets(fds)
  }

  constructor(fds: readonly { fd: number; name: string }[]) {
    for (const { name } of fds) {
      if (this.#byName.has(name)) continue
      this.#byName.set(name, new Inherited(fds.filter(one => one.name === name).map(({ fd }) => fd)))
    }
  }

  /** Passes the connections of a socket name to `claimant` until `release`. Errors have a message for the operator. */
  async claim(name: string, claimant: Claimant): Promise<{ readonly address: string; release(): void }> {
    const inherited = this.#byName.get(name)
    if (!inherited) throw new Error(`systemd has not passed a socket named ${name}: ${this.#present()}`)
    if (inherited.isGone)
      throw new Error(`the socket ${name} that systemd passed was released: a restart brings it back`)
    if (!inherited.isFree) throw new Error(`the socket ${name} that systemd passed is in use already`)
    try {
      await inherited.claim(claimant)
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`the socket ${name} that systemd passed cannot be used: ${why}`, { cause })
    }
    let isReleased = false
    return {
      address: inherited.address || listenText({ systemd: name }),
      release() {
        if (!isReleased) inherited.release()
        isReleased = true
      },
    }
  }

  /** Stops accepting. Further connections wait for the next process. */
  stopAccepting(): void {
    for (const inherited of this.#byName.values()) inherited.stopAccepting()
  }

  #present(): string {
    const names = [...this.#byName.keys()]
    if (names.length > 0) return `it has passed ${names.join(', ')}`
    return 'it has not passed any; start the service by its .socket unit, with FileDescriptorName= in that unit'
  }
}

let own: InheritedSockets | undefined

export function inheritedSockets(): InheritedSockets {
  own ??= InheritedSockets.from(process.env)
  return own
}

/**
 * Makes a server listen on an address or an inherited socket until the server closes. Resolves with HOST:PORT or the
 * path of a socket. The system may have chosen the port.
 */
export async function listenOn(server: Server, address: ListenAddress): Promise<string> {
  if ('systemd' in address) {
    const take = (socket: Socket) => void server.emit('connection', socket)
    const claim = await inheritedSockets().claim(address.systemd, { take })
    server.once('close', () => claim.release())
    // An HTTP server starts its timeouts at this event.
    server.emit('listening')
    return claim.address
  }
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(address.port, address.host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return addressText(server.address() as AddressInfo)
}

/** Returns the address in the notation of the configuration. */
export function listenText(address: ListenAddress): string {
  if ('systemd' in address) return `systemd:${address.systemd}`
  const { host, port } = address
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

function addressText({ address, family, port }: AddressInfo): string {
  return family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
}
