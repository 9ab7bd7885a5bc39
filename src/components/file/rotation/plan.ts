import { wasCopyAhead } from '../saved.js'
import type { Place } from './candidates.js'
import type { Claim } from './match.js'
import type { Subject } from './subjects.js'

/**
 * What to do with a known file of a folder. `continue`: the place is a copy that has the rest of the file. `end`: the
 * place is a copy that has no more than what was read. `claim`: set which file is its copy. `release`: no file of
 * the folder has more of it. `note`: the place is a copy of a file that still exists.
 */
export type Step = { readonly file: Subject } & (
  | { readonly do: 'note' | 'continue' | 'end'; readonly place: Place }
  | { readonly do: 'claim'; readonly claimed: string | undefined }
  | { readonly do: 'release' }
)

/**
 * Decides what to do with the known files of a folder. Reads nothing and changes nothing. `missing`: the files that the
 * folder does not have any more. `compared`: the keys of all places, none of which is being read.
 */
export function planOf(
  claims: readonly Claim<Subject, Place>[],
  subjects: readonly Subject[],
  missing: ReadonlySet<Subject>,
  compared: ReadonlySet<string>,
): Step[] {
  const steps: Step[] = []
  const claimed = new Map(subjects.map(file => [file, file.claimed]))
  const setClaim = (file: Subject, key: string | undefined) => {
    claimed.set(file, key)
    steps.push({ do: 'claim', file, claimed: key })
  }
  const claimants = new Map<string, Subject[]>()
  for (const file of subjects)
    if (file.claimed !== undefined) claimants.set(file.claimed, [...(claimants.get(file.claimed) ?? []), file])
  // The oldest copy is read first.
  for (const { file, candidate: place, relation } of [...claims].sort(
    (a, b) => a.candidate.changedAt - b.candidate.changedAt,
  )) {
    steps.push({ do: 'note', file, place })
    if (!missing.has(file)) continue
    const isRest = relation === 'rest' || (relation === 'whole' && !place.isCompressed)
    steps.push({ do: isRest ? 'continue' : 'end', file, place })
    claimed.set(file, place.key)
    if (isRest) continue
    setClaim(file, place.key)
    // The copy is compressed now, and another file may get its inode.
    if (file.entry && file.claimed !== undefined)
      for (const one of claimants.get(file.claimed)!) if (one !== file) setClaim(one, place.key)
  }
  const owners = new Map(claims.map(({ candidate, file }) => [candidate.key, file]))
  const claiming = new Set(owners.values())
  for (const file of missing) if (file.tailer || !claiming.has(file)) steps.push({ do: 'release', file })
  // If the copy of a file is gone, its inode may belong to another file's copy now.
  for (const [file, key] of claimed) {
    if (key === undefined || !compared.has(key)) continue
    const owner = owners.get(key)
    if (owner === file || (owner?.entry && wasCopyAhead(owner.entry, file.tailer?.known ?? file.entry!))) continue
    setClaim(file, undefined)
  }
  return steps
}
