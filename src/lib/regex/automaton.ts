import type { Atoms } from './atoms.js'
import { compileProgram, Looks } from './program.js'
import { Scanner } from './scanner.js'
import type { Look, Node } from './syntax.js'

/** Searching for a long text may take long where it is repetitive. */
const MOST_REQUIRED = 32

/** The test of a text, in a time that is proportional to its length. Throws UnboundedPattern. */
export function compileAutomaton(node: Node, atoms: Atoms, flags: string): (text: string) => boolean {
  const unicode = flags.includes('u')
  const looks = new Looks()
  const program = compileProgram(node, atoms, looks)
  // Grows while it is gone through: what stands within a look-around comes before it.
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

/** The longest text that is in every match, as far as it is easily found: V8 looks for it much faster. */
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
