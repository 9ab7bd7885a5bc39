import { readFileSync } from 'node:fs'

/** The text of a file of this machine, such as one in /proc. Empty if the file cannot be read. */
export function machineText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
