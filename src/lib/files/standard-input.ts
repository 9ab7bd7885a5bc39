import { fstatSync, ReadStream } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { SharedReadSocket } from '../network/shared-reads.js'

/** What libuv leaves open when a socket is closed. */
const STANDARD_INPUT = 0

type Described = Readable & { readonly fd?: unknown; readonly isTTY?: boolean }

/** The descriptor of standard input if that is a file, which nothing has been read from; `stdin` as Node.js has it. */
export function fileOf(stdin: Readable): number | undefined {
  const isUnread = stdin instanceof ReadStream && stdin.bytesRead === 0
  return isUnread && isStandardInput(stdin) && fstatSync(STANDARD_INPUT).isFile() ? STANDARD_INPUT : undefined
}

/**
 * Standard input if that is a pipe or a socket, which nothing has been read from, to be read without a new buffer for
 * each read. The caller destroys it, after which it can be made again.
 */
export function pipeOf(stdin: Readable): SharedReadSocket | undefined {
  const isUnread = stdin instanceof Socket && !stdin.destroyed && stdin.bytesRead === 0
  if (!isUnread || !isStandardInput(stdin) || (stdin as Described).isTTY) return undefined
  return new SharedReadSocket({ fd: STANDARD_INPUT, writable: false })
}

function isStandardInput(stdin: Described): boolean {
  return stdin.fd === STANDARD_INPUT
}
