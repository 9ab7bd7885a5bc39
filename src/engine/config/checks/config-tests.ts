import type { Draft } from '../component-config.js'
import { missingOutput, splitInput } from '../inputs.js'
import type { ConfigTest } from '../test-options.js'
import { locate, type MapNode, placeOf } from '../yaml/node.js'
import type { Path } from '../yaml/path.js'
import type { Problems } from '../yaml/problems.js'
import type { Explainer } from './diagnostics.js'

export function checkTests(
  found: readonly ConfigTest[],
  root: MapNode,
  drafts: ReadonlyMap<string, Draft>,
  problems: Problems,
  explainer: Explainer,
): void {
  const known = [...drafts.values()]
  const report = (path: Path, message: string) => problems.add(placeOf(locate(root, path)), path, message)
  for (const [i, { steps, expect }] of found.entries()) {
    for (const [j, { into }] of steps.entries()) {
      if (drafts.get(into)?.kind === 'source') continue
      const sources = known.filter(({ kind }) => kind === 'source').map(({ id }) => id)
      report(['tests', i, 'steps', j, 'into'], `there is no source ${into}${explainer.suggestion(into, sources)}`)
    }
    for (const expected of Object.keys(expect)) {
      const [id, output] = splitInput(expected)
      const draft = drafts.get(id)
      const path = ['tests', i, 'expect', expected]
      const names = known.map(({ id }) => id)
      const missing = draft?.config && missingOutput(draft.config, output)
      if (!draft) report(path, `there is no component ${id}${explainer.suggestion(id, names)}`)
      else if (missing !== undefined) report(path, missing)
    }
  }
}
