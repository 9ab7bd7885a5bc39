import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * By the text of a licence: the packages in `folders` that have it, as in `zod 4.1.0 (MIT)`. `known`: texts to use for
 * licences that are elsewhere, by their names.
 */
export function licencesOf(folders, known = {}) {
  const texts = new Map()
  for (const folder of folders) {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find(entry => /^licen[cs]e/i.test(entry))
    const text = known[license] ?? (file ? readFileSync(join(folder, file), 'utf8').trim() : `${license}`)
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version} (${license})`])
  }
  return texts
}

export const licenceText = texts =>
  [...texts].map(([text, names]) => `${names.join('\n')}\n\n${text}\n`).join(`\n${'-'.repeat(72)}\n\n`)
