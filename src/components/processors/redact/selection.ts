import type { FieldPath } from '../../../core/event/field-path.js'
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  DASH,
  NINE,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  ZERO,
} from '../../../lib/formats/ascii.js'
import { sawEscape, skipSpace, stringEnd, valueEnd } from '../../../lib/formats/json-scan.js'

export interface Selection {
  /** Whether the selection includes the value itself, and everything in the value. */
  readonly all: boolean
  readonly names: ReadonlyMap<string, Selection>
  readonly items: ReadonlyMap<number, Selection>
  /** The names as bytes. Names in JSON that do not have escapes are compared with these bytes. */
  readonly written: readonly { readonly bytes: Buffer; readonly selection: Selection }[]
}

export const EVERYTHING: Selection = { all: true, names: new Map(), items: new Map(), written: [] }

export function selectionOf(paths: readonly FieldPath[]): Selection {
  return select(paths.map(({ segments }) => segments))
}

function select(paths: readonly (readonly (string | number)[])[]): Selection {
  if (paths.some(({ length }) => length === 0)) return EVERYTHING
  const inner = <T extends string | number>(isWanted: (first: unknown) => first is T): Map<T, Selection> => {
    const firsts = new Set(paths.map(([first]) => first).filter(isWanted))
    return new Map(
      [...firsts].map(name => [name, select(paths.filter(([first]) => first === name).map(p => p.slice(1)))]),
    )
  }
  const names = inner((first): first is string => typeof first === 'string')
  return {
    all: false,
    names,
    written: [...names].map(([name, selection]) => ({ bytes: Buffer.from(name), selection })),
    items: inner((first): first is number => typeof first === 'number'),
  }
}

/** Receives the selected strings (without quotes) and numbers. */
export interface ValueVisitor {
  /** Whether the visitor also receives the names of members in values that are selected as a whole. */
  readonly coversNames: boolean
  /** Where the name of the member ends that has the value, or has it in a list; 0: there is none. */
  nameEnd: number
  string(b: Buffer, start: number, end: number, hasEscapes: boolean): void
  number(b: Buffer, start: number, end: number): void
}

/** Visits in order the selected parts of the valid JSON value at `p`. If members share a name, visits all of them. */
export function visitSelected(b: Buffer, p: number, end: number, selection: Selection, visitor: ValueVisitor): void {
  if (selection.all) visitAll(b, p, end, visitor)
  else if (b[p] === OPEN_OBJECT && selection.names.size > 0) visitMembers(b, p, end, selection, visitor)
  else if (b[p] === OPEN_ARRAY && selection.items.size > 0) visitItems(b, p, end, selection, visitor)
}

function visitMembers(b: Buffer, p: number, end: number, selection: Selection, visitor: ValueVisitor): void {
  p = skipSpace(b, p + 1, end)
  while (b[p] !== CLOSE_OBJECT) {
    const nameEnd = stringEnd(b, p + 1) + 1
    const inner = sawEscape
      ? selection.names.get(JSON.parse(b.toString('utf8', p, nameEnd)) as string)
      : written(b, p + 1, nameEnd - 1, selection)
    p = skipSpace(b, skipSpace(b, nameEnd, end) + 1, end)
    const to = valueEnd(b, p, end)
    visitor.nameEnd = nameEnd
    if (inner) visitSelected(b, p, to, inner, visitor)
    p = skipSpace(b, to, end)
    if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
  }
}

/** The selection of the member whose name is [start, end). */
function written(b: Buffer, start: number, end: number, selection: Selection): Selection | undefined {
  next: for (const { bytes, selection: inner } of selection.written) {
    if (bytes.length !== end - start) continue
    for (let i = 0; i < bytes.length; i++) if (b[start + i] !== bytes[i]) continue next
    return inner
  }
  return undefined
}

function visitItems(b: Buffer, p: number, end: number, { items }: Selection, visitor: ValueVisitor): void {
  p = skipSpace(b, p + 1, end)
  for (let n = 0; b[p] !== CLOSE_ARRAY; n++) {
    const to = valueEnd(b, p, end)
    const inner = items.get(n)
    if (inner) visitSelected(b, p, to, inner, visitor)
    p = skipSpace(b, to, end)
    if (b[p] === COMMA) p = skipSpace(b, p + 1, end)
  }
}

/** Visits all values in [start, end) at any depth, and the names if the visitor receives them. */
function visitAll(b: Buffer, start: number, end: number, visitor: ValueVisitor): void {
  for (let p = start; p < end; ) {
    const byte = b[p]!
    if (byte === QUOTE) {
      const close = stringEnd(b, p + 1)
      const hasEscapes = sawEscape
      const next = skipSpace(b, close + 1, end)
      const isName = next < end && b[next] === COLON
      if (isName) visitor.nameEnd = 0
      if (!isName || visitor.coversNames) visitor.string(b, p + 1, close, hasEscapes)
      if (isName) visitor.nameEnd = close + 1
      p = isName ? next + 1 : close + 1
    } else if (byte === DASH || (byte >= ZERO && byte <= NINE)) {
      const to = numberEnd(b, p, end)
      visitor.number(b, p, to)
      p = to
    } else if (b[p++] === CLOSE_OBJECT) visitor.nameEnd = 0
  }
}

function numberEnd(b: Buffer, p: number, end: number): number {
  while (p < end && b[p]! > 0x2a && b[p] !== COMMA && b[p] !== CLOSE_ARRAY && b[p] !== CLOSE_OBJECT) p++
  return p
}
