import type { Atoms } from './atoms.js'
import { Looks } from './checks.js'
import { compileProgram } from './program.js'
import { Scanner } from './scanner.js'
import type { Look, Node } from './syntax.js'

/** Longest text that is searched first: searching for a long repetitive text may be slow. */
const MOST_REQUIRED = 32

export interface Automaton {
  /** Whether there is a match anywhere in the text, in a time proportional to its length. */
  test(text: string): boolean
  /** The look-around bits of each position; undefined if the pattern needs none. */
  marks(text: string): Uint8Array | undefined
  readonly looks: Looks
}

/** Throws UnboundedPattern. */
export function compileAutomaton(node: Node, atoms: Atoms, flags: string): Automaton {
  const unicode = flags.includes('u')
  const looks = new Looks()
  const program = compileProgram(node, atoms, looks)
  // The list grows during this loop: nested look-arounds come before the outer one.
  const programs = looks.all.map((look: Look) => ({
    program: { ...compileProgram(look.node, atoms, looks, !look.behind), anchored: false },
    backwards: !look.behind,
  }))
  const count = looks.all.length
  const required = requiredText(node, atoms)
  const main = new Scanner({ program, atoms, unicode, backwards: false, looks: count })
  const scanners = programs.map(one => new Scanner({ ...one, atoms, unicode, looks: count }))
  const marks = (text: string) => {
    if (count === 0) return undefined
    const all = new Uint8Array(text.length + 1)
    for (const [i, scanner] of scanners.entries()) scanner.mark(text, all, 1 << i)
    return all
  }
  return { test: text => text.includes(required) && main.test(text, marks(text)), marks, looks }
}

/** The longest text that every match contains, if it is easy to find: V8 searches for it much faster. */
function requiredText(node: Node, atoms: Atoms): string {
  let longest = ''
  let current = ''
  for (const part of node.kind === 'sequence' ? node.nodes : [node]) {
    const char = part.kind === 'atom' ? atoms.charOf(part.atom) : undefined
    current = char === undefined || current.length >= MOST_REQUIRED ? '' : current + char
    if (current.length > longest.length) longest = current
  }
  return longest
}
