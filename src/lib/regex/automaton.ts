import type { Atoms } from './atoms.js'
import { compileProgram, Looks } from './program.js'
import { Scanner } from './scanner.js'
import type { Look, Node } from './syntax.js'

/** Longest text that is searched first: searching for a long repetitive text may be slow. */
const MOST_REQUIRED = 32

/** Compiles a test whose time is proportional to the length of the text. Throws UnboundedPattern. */
export function compileAutomaton(node: Node, atoms: Atoms, flags: string): (text: string) => boolean {
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
  if (count === 0) return text => text.includes(required) && main.test(text, undefined)
  const scanners = programs.map(one => new Scanner({ ...one, atoms, unicode, looks: count }))
  return text => {
    if (!text.includes(required)) return false
    const marks = new Uint8Array(text.length + 1)
    for (const [i, scanner] of scanners.entries()) scanner.mark(text, marks, 1 << i)
    return main.test(text, marks)
  }
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
