import type { Disk } from './disk-calls.js'
import { statsOf } from './patched-fs.js'

/** What `open` of node:fs/promises resolves with, on a simulated disk. */
export class VirtualHandle {
  readonly #disk: Disk
  readonly fd: number
  /** Where the next read or write without a place happens. */
  #at = 0

  constructor(disk: Disk, fd: number) {
    this.#disk = disk
    this.fd = fd
  }

  #later<T>(work: (disk: Disk, fd: number) => T): Promise<T> {
    return this.#disk.later(() => work(this.#disk, this.fd))
  }

  async read(buffer: Uint8Array, offset = 0, length = buffer.length - offset, at: number | null = null) {
    const bytesRead = await this.#later((disk, fd) => disk.read(fd, buffer, offset, length, at ?? this.#at))
    if (at === null) this.#at += bytesRead
    return { bytesRead, buffer }
  }

  async writev(parts: readonly Uint8Array[], at?: number) {
    const bytesWritten = await this.#later((disk, fd) => disk.write(fd, parts, at ?? this.#at))
    if (at === undefined) this.#at += bytesWritten
    return { bytesWritten, buffers: parts }
  }

  async write(part: Uint8Array, offset = 0, length = part.length - offset, at?: number) {
    const { bytesWritten } = await this.writev([part.subarray(offset, offset + length)], at)
    return { bytesWritten, buffer: part }
  }

  async writeFile(content: string | Uint8Array): Promise<void> {
    let left = typeof content === 'string' ? Buffer.from(content) : content
    while (left.length > 0) left = left.subarray((await this.writev([left])).bytesWritten)
  }

  appendFile(content: string | Uint8Array): Promise<void> {
    return this.writeFile(content)
  }

  sync(): Promise<void> {
    return this.#later((disk, fd) => disk.sync(fd))
  }

  datasync(): Promise<void> {
    return this.sync()
  }

  stat(options?: { bigint?: boolean }): Promise<unknown> {
    return this.#later((disk, fd) => statsOf(disk, disk.nodeOf(fd), options))
  }

  truncate(size = 0): Promise<void> {
    return this.#later((disk, fd) => disk.truncate(fd, size))
  }

  close(): Promise<void> {
    return this.#later((disk, fd) => disk.close(fd))
  }
}
