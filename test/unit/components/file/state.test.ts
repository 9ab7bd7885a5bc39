import t from 'tap'
import {
  type Block,
  blocks,
  type Order,
  orders,
  type Where,
  wheres,
} from '../../../../src/components/file/known/state.js'
import type { Copy } from '../../../../src/components/file/rotation/copy.js'

/** The transitions of a file: a row for each transition, a column for each state before it. */

const copy = { path: 'app.log.1.gz' } as unknown as Copy

/** `nameless@1`: since 1. All transitions take place at 2. */
const WHERES = `
                   named       nameless@1  missing@1   copied@1
found              named       named       named       copied@1
left               nameless@2  nameless@1  missing@1   copied@1
stirred            nameless@2  nameless@2  nameless@2  copied@2
there              named       nameless@1  nameless@1  copied@1
notThere           named       missing@1   missing@1   copied@1
copyLost           named       nameless@1  missing@1   nameless@1
`

const BLOCKS = `
                   -           held        moved       full        open        read
held               held        held        held        held        held        held
moved              moved       held        moved       moved       moved       moved
full               full        held        full        full        full        full
open               open        held        open        open        open        open
read               read        held        read        read        read        read
released           -           -           moved       full        open        read
lookedFor          -           held        -           full        open        read
worked             -           held        -           -           -           -
`

const ORDERS = `
                   behind          behind-checked  free            free-checked
restarted          behind          behind          behind          behind
atEnd              free            free            free            free
grown              behind          behind          free            free
checked            behind-checked  behind-checked  free-checked    free-checked
delayed            behind-checked  behind-checked  behind-checked  behind-checked
`

function whereOf(text: string): Where {
  const [is, since] = text.split('@') as [Where['is'], string?]
  return { is, ...(since && { since: Number(since) }), ...(is === 'copied' && { copy }) } as Where
}

const blockOf = (text: string) => (text === '-' ? undefined : (text as Block))

function check<S>(table: string, stateOf: (text: string) => S, transitionOf: (name: string) => (state: S) => S): void {
  const [head, ...rows] = table.trim().split('\n')
  const before = head!.trim().split(/ +/)
  for (const row of rows) {
    const [name, ...after] = row.split(/ +/)
    t.test(name!, async t => t.same(before.map(stateOf).map(transitionOf(name!)), after.map(stateOf)))
  }
}

check(WHERES, whereOf, name => where => wheres[name as keyof typeof wheres](where, 2))
check(BLOCKS, blockOf, name => blocks[name as keyof typeof blocks])
check(
  ORDERS,
  text => text as Order,
  name => orders[name as keyof typeof orders],
)
