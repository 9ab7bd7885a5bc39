import { closeSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Input } from '../input.js'

const BLOCK = Buffer.alloc(1024 * 1024, 'x')

/**
 * Makes the first run on a virtual machine as fast as the second one: reads the input into the page cache again, and uses
 * as much memory as the output will take, since the machine may have given back to its host what was idle for seconds.
 */
export function warmUp(input: Input, folder: string): void {
  const path = join(folder, 'warm-up')
  const to = openSync(path, 'w')
  for (let bytes = 0; bytes < input.bytes; bytes += BLOCK.length) writeSync(to, BLOCK)
  closeSync(to)
  rmSync(path)
  const from = openSync(input.path, 'r')
  const block = Buffer.allocUnsafe(BLOCK.length)
  while (readSync(from, block) > 0);
  closeSync(from)
}
