import { readFileSync } from 'node:fs'

/** '' if the file is missing: a checkpoint has no name for a moment while it is replaced. */
export function fileText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}
