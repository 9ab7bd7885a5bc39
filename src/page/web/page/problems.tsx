import { useState } from 'preact/hooks'
import { CopyableCommand, Prose, StateMark } from '../kit/parts.js'
import { link } from '../kit/route.js'
import { grouped } from '../kit/words.js'
import { status } from './live.js'
import type { Problem } from './types.js'

const MOST = 3

/** Shows problems, then notices, each with advice. */
export function ProblemList({ of }: { of?: string }) {
  const [isWhole, setWhole] = useState(false)
  const all = [
    ...(status.value?.problems ?? []).map(problem => ({ problem, level: 'error' as const })),
    ...(status.value?.notices ?? []).map(problem => ({ problem, level: 'note' as const })),
  ].filter(({ problem }) => of === undefined || problem.component === of)
  if (all.length === 0) return null
  const shown = isWhole ? all : all.slice(0, MOST)
  return (
    <section aria-label="What is wrong" class="problems">
      <ul>
        {shown.map(({ problem, level }) => (
          <One key={problem.what.slice(0, 80)} problem={problem} level={level} isLinked={of === undefined} />
        ))}
      </ul>
      {all.length > shown.length && (
        <button type="button" onClick={() => setWhole(true)}>
          {grouped(all.length - shown.length)} more
        </button>
      )}
    </section>
  )
}

function One(of: { problem: Problem; level: 'error' | 'note'; isLinked: boolean }) {
  const { component: id, what, detail, todo, commands = [] } = of.problem
  const isNamed = of.isLinked && id !== undefined && what.startsWith(id)
  return (
    <li>
      <p>
        <StateMark level={of.level}>
          {isNamed && <a href={link('component', id)}>{id}</a>}
          <span>
            <Prose of={isNamed ? what.slice(id.length) : what} />
          </span>
        </StateMark>
      </p>
      <p class="dim">
        <Prose of={detail} /> <Prose of={todo} />
      </p>
      {commands.map(command => (
        <CopyableCommand key={command} text={command} />
      ))}
    </li>
  )
}
