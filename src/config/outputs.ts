import { type Stats, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileIdentity } from '../lib/final-path.js'
import { irregular } from '../lib/regular-file.js'
import type { Draft } from './component-config.js'
import { locate, type Place, placeOf, placeText } from './node.js'
import type { Problems } from './problems.js'
import { SECTIONS } from './schema.js'

/** A file that a destination writes to. */
interface Output {
  readonly draft: Draft
  readonly option: string
  readonly path: string
  readonly place: Place
}

/**
 * Checks the files that destinations write to: each belongs to one destination. With `onThisMachine` links are followed,
 * and what exists must be a regular file.
 */
export function checkOutputs(drafts: ReadonlyMap<string, Draft>, onThisMachine: boolean, problems: Problems): void {
  const first = new Map<string, Output>()
  for (const output of outputsOf(drafts)) {
    const wrong = onThisMachine ? notRegular(output.path) : undefined
    if (wrong !== undefined) {
      problems.add(output.place, pathOf(output), wrong)
      continue
    }
    const identity = onThisMachine ? fileIdentity(output.path) : resolve(output.path)
    const other = first.get(identity)
    if (!other) {
      first.set(identity, output)
      continue
    }
    const names = other.path === output.path ? 'this file' : `the same file as ${other.path}`
    const text = `the destination ${other.draft.id} writes to ${names} ${placeText(other.place)}; two destinations need two files`
    problems.add(output.place, pathOf(output), text)
  }
}

function outputsOf(drafts: ReadonlyMap<string, Draft>): Output[] {
  return [...drafts.values()].flatMap(draft => {
    const option = draft.definition?.writes
    const path = option === undefined ? undefined : (draft.config?.options as Record<string, unknown>)?.[option]
    if (option === undefined || typeof path !== 'string') return []
    return [{ draft, option, path, place: placeOf(locate(draft.entry.value, [option], draft.entry.key)) }]
  })
}

function pathOf({ draft, option }: Output): string[] {
  return [SECTIONS[draft.kind], draft.id, option]
}

function notRegular(path: string): string | undefined {
  let stats: Stats
  try {
    stats = statSync(path)
  } catch {
    // It is created when the daemon starts, which reports what is wrong then.
    return undefined
  }
  const why = irregular(stats)
  return why && `${path} cannot be written: ${why}`
}
