import { createHash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import { readRegularSync } from '../files/read-regular.js'

const LARGEST_MODULE = 64 * 1024 * 1024

/** An import by a relative path, as a statement or an expression. */
const RELATIVE = /\b(?:from|import)\s*\(?\s*['"](\.\.?\/[^'"]+)['"]/g

/** Returns the files of a module: its own, and recursively those of its relative imports. Omits unreadable files. */
export function moduleFiles(path: string): readonly string[] {
  return [...textsOf(resolve(path)).keys()]
}

export function moduleDigest(path: string): string {
  const digest = createHash('sha256')
  for (const [file, text] of textsOf(resolve(path))) digest.update(`${file}\n${text.length}\n${text}`)
  return digest.digest('hex').slice(0, 16)
}

function textsOf(path: string): Map<string, string> {
  const texts = new Map<string, string>()
  const waiting = [path]
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (texts.has(file)) continue
    try {
      const text = readRegularSync(file, LARGEST_MODULE).toString()
      texts.set(file, text)
      for (const [, specifier] of text.matchAll(RELATIVE)) waiting.push(resolve(dirname(file), specifier!))
    } catch {
      // The import reports the reason.
    }
  }
  return texts
}
