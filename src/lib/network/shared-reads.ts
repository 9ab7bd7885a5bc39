import { type OnReadOpts, Server, Socket, type SocketConstructorOpts } from 'node:net'

/**
 * Sockets that read into shared memory. By default, Node.js allocates a buffer for each read. The allocation costs more
 * than the read itself, and causes a garbage collection every few dozen reads.
 *
 * The bytes of a read are used in the same synchronous call, so reads do not overlap.
 */

/** Size of a read while few sockets are open. */
export const SOCKET_READ_BYTES = 256 * 1024
const LEAST_READ_BYTES = 16 * 1024
/** Total bytes of one read from each of at most 1,024 sockets. While receivers have no room, these bytes are held. */
const READS_BYTES = 16 * 1024 * 1024

let memory: Buffer | undefined
/** Number of open sockets. */
let open = 0

/** Returns the shared memory of READ_BYTES bytes. The next read overwrites its content. */
export function sharedMemory(): Buffer {
  memory ??= Buffer.allocUnsafeSlow(SOCKET_READ_BYTES)
  return memory
}

function readSize(sockets: number): number {
  return Math.max(LEAST_READ_BYTES, Math.min(SOCKET_READ_BYTES, Math.floor(READS_BYTES / sockets)))
}

/** The part of a socket that makes system calls. Its name in Node.js is not documented. */
type Handle = { readonly useUserBuffer?: unknown }
type Accepted = { _handle?: Handle | null }

interface SharedReadOptions extends SocketConstructorOpts {
  readonly handle?: Handle
  readonly onread?: OnReadOpts
}

/** A socket that is paused at first. While it is not paused, it calls `receive` and does not emit `data`. */
export class SharedReadSocket extends Socket {
  /** Receives bytes, valid during the call. Returns false to stop reading until `resume` is called. */
  receive: (bytes: Buffer) => boolean = () => true
  readonly readBytes: number

  constructor(options: SharedReadOptions) {
    const callback = (size: number, buffer: Uint8Array) => this.receive((buffer as Buffer).subarray(0, size))
    const readBytes = readSize(open + 1)
    const buffer = sharedMemory().subarray(0, readBytes)
    const all: SharedReadOptions = { ...options, onread: { buffer, callback } }
    super(all)
    this.readBytes = readBytes
    open++
    this.pause()
    this.once('close', () => open--)
  }
}

/** A server whose connections are SharedReadSockets, if Node.js supports that. */
export class SharedReadServer extends Server {
  constructor(serve: (socket: Socket) => void) {
    super({ pauseOnConnect: true }, serve)
  }

  override emit(event: string | symbol, ...args: unknown[]): boolean {
    return super.emit(event as string, ...(event === 'connection' ? [sharing(args[0] as Socket)] : args))
  }
}

/** Replaces a socket that was not used so far. Servers of Node.js have no option for the memory of reads. */
function sharing(socket: Socket): Socket {
  const accepted = socket as Accepted
  const handle = accepted._handle
  if (typeof handle?.useUserBuffer !== 'function') return socket
  accepted._handle = null
  socket.destroy()
  return new SharedReadSocket({ handle })
}
