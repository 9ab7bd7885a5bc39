import { existsSync, readdirSync, readFileSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { basename, join } from 'node:path'

/**
 * A file system that shows the files of one folder, at /dev/fuse as descriptor 3: `node fuse-server.js FOLDER FLAG`. While the file FLAG
 * exists it may answer nothing at all until that is gone, as a server that is away: what it does not answer stands in the file. It answers
 * again after a minute at the latest, and then writes into the file FLAG.late what waits for it.
 */

const [, , folder = '', flag = ''] = process.argv
const ROOT = 1n
const [ENOENT, ENOSYS] = [2, 38]
const NO_REPLY = new Set([2, 42])
const [SIZE, CLOSE] = [17, 25]
const MOST_HUNG_MS = 60_000
const names = ['']
const request = Buffer.alloc(1024 * 1024)

/** `size`: asked for its size, or to close a file. `calls`: asked for anything but its size. `all`: whatever it is asked. */
function isHung(opcode: number): boolean {
  let mode: string
  try {
    mode = readFileSync(flag, 'utf8')
    if (Date.now() - statSync(flag).mtimeMs > MOST_HUNG_MS) {
      if (!existsSync(`${flag}.late`)) writeFileSync(`${flag}.late`, waiting())
      return false
    }
  } catch {
    return false
  }
  return mode === 'all' || (mode === 'calls' ? opcode !== SIZE : opcode === SIZE || opcode === CLOSE)
}

/** The threads of the test, and all others that wait for this file system or for what no signal ends, each with its stack in the kernel. */
function waiting(): string {
  const read = (path: string) => {
    try {
      return readFileSync(path, 'utf8')
    } catch {
      return ''
    }
  }
  const threads = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(pid =>
      (existsSync(`/proc/${pid}/task`) ? readdirSync(`/proc/${pid}/task`) : []).map(tid => ({ pid, tid })),
    )
  return threads
    .map(({ pid, tid }) => {
      const path = `/proc/${pid}/task/${tid}`
      const [status, stack] = [read(`${path}/status`), read(`${path}/stack`)]
      if (pid !== String(process.ppid) && !/^State:\s+D/m.test(status) && !stack.includes('fuse')) return ''
      return `${pid} ${tid} ${read(`${path}/cmdline`).replaceAll('\0', ' ')}\n${stack}\n`
    })
    .join('')
}

function pathOf(node: bigint): string {
  return node === ROOT ? folder : join(folder, names[Number(node) - 1]!)
}

function nodeOf(name: string): bigint {
  if (!names.includes(name)) names.push(name)
  return BigInt(names.indexOf(name) + 1)
}

function attributes(node: bigint): Buffer {
  const { size, mode, nlink, mtimeMs } = statSync(pathOf(node))
  const out = Buffer.alloc(88)
  const seconds = BigInt(Math.floor(mtimeMs / 1000))
  for (const [i, value] of [node, BigInt(size), BigInt(Math.ceil(size / 512)), seconds, seconds, seconds].entries())
    out.writeBigUInt64LE(value, 8 * i)
  const nanoseconds = Math.floor((mtimeMs % 1000) * 1e6)
  for (const [i, value] of [nanoseconds, nanoseconds, nanoseconds, mode, nlink].entries())
    out.writeUInt32LE(value, 48 + 4 * i)
  out.writeUInt32LE(4096, 80)
  return out
}

function entries(): Buffer {
  const all = [['.', ROOT, 4] as const, ...readdirSync(folder).map(name => [name, nodeOf(name), 8] as const)]
  return Buffer.concat(
    all.map(([name, node, type], i) => {
      const out = Buffer.alloc(24 + 8 * Math.ceil(Buffer.byteLength(name) / 8))
      out.writeBigUInt64LE(node, 0)
      out.writeBigUInt64LE(BigInt(i + 1), 8)
      out.writeUInt32LE(Buffer.byteLength(name), 16)
      out.writeUInt32LE(type, 20)
      out.write(name, 24)
      return out
    }),
  )
}

function reply(opcode: number, node: bigint, body: Buffer): Buffer | number {
  switch (opcode) {
    case 1: {
      const name = body.toString('utf8', 0, body.indexOf(0))
      if (basename(name) !== name || !existsSync(join(folder, name))) return ENOENT
      const found = nodeOf(name)
      const head = Buffer.alloc(40)
      head.writeBigUInt64LE(found)
      return Buffer.concat([head, attributes(found)])
    }
    case 3:
      return Buffer.concat([Buffer.alloc(16), attributes(node)])
    case 14:
    case 27: {
      const out = Buffer.alloc(16)
      out.writeUInt32LE(opcode === 14 ? 1 : 0, 8)
      return out
    }
    case 15: {
      const from = Number(body.readBigUInt64LE(8))
      return readFileSync(pathOf(node)).subarray(from, from + body.readUInt32LE(16))
    }
    case SIZE: {
      const out = Buffer.alloc(80)
      out.writeUInt32LE(4096, 40)
      out.writeUInt32LE(255, 44)
      return out
    }
    case 18:
    case CLOSE:
    case 29:
      return Buffer.alloc(0)
    case 26: {
      const out = Buffer.alloc(64)
      for (const [at, value] of [7, 31, 131_072].entries()) out.writeUInt32LE(value, 4 * at)
      out.writeUInt32LE(131_072, 20)
      out.writeUInt32LE(1, 24)
      return out
    }
    case 28: {
      // In one piece, which is short.
      return body.readBigUInt64LE(8) === 0n ? entries() : Buffer.alloc(0)
    }
    default:
      return ENOSYS
  }
}

for (;;) {
  const length = readSync(3, request)
  const opcode = request.readUInt32LE(4)
  if (NO_REPLY.has(opcode)) continue
  while (isHung(opcode)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
  const body = Buffer.from(request.subarray(40, length))
  let answer: Buffer | number
  try {
    answer = reply(opcode, request.readBigUInt64LE(16), body)
  } catch {
    answer = ENOENT
  }
  const data = typeof answer === 'number' ? Buffer.alloc(0) : answer
  const head = Buffer.alloc(16)
  head.writeUInt32LE(16 + data.length, 0)
  head.writeInt32LE(typeof answer === 'number' ? -answer : 0, 4)
  request.copy(head, 8, 8, 16)
  writeSync(3, Buffer.concat([head, data]))
}
