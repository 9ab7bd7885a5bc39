import { cutAt } from '../../daemon/process/wrap.js'
import { escapedHtml } from '../../lib/formats/html-text.js'
import type { StatedFact } from '../result.js'

/** Text from events is untrusted. Put it into elements and quoted attributes only through `escaped`. */

/** Maximum characters of a key: KEY_LENGTH on the page, LABEL_LENGTH in a legend or tooltip. */
export const KEY_LENGTH = 200
export const LABEL_LENGTH = 40
/** Maximum characters of a text about inputs and settings. */
const LONGEST_TEXT = 2000

/** Cuts a text longer than `most` characters to this length, including an ellipsis at the end. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : `${cutAt(text, most - 1)}…`
}

/** A section that lists names and texts. Empty if `rows` is empty. */
export function factsSection(id: string, heading: string, rows: readonly StatedFact[]): string {
  if (rows.length === 0) return ''
  const items = rows.map(
    ({ name, text }) => `<dt>${escapedHtml(name)}</dt><dd>${escapedHtml(cut(text, LONGEST_TEXT))}</dd>`,
  )
  return `<section aria-labelledby="${id}"><h2 id="${id}">${heading}</h2>\n<dl>${items.join('')}</dl></section>`
}

export interface ReportColumn {
  readonly title: string
  /** The script sorts numbers by value, not as text. */
  readonly kind: 'text' | 'number' | 'time'
}

/** A cell as HTML. If `value` is set, the script sorts the cell by `value`, otherwise by the text of the cell. */
export type Cell = string | { readonly html: string; readonly value: number }

interface SortableTable {
  readonly name: 'keys' | 'grid'
  readonly caption: string
  readonly columns: readonly ReportColumn[]
  /** The column by which the rows are sorted. */
  readonly sorted?: { readonly title: string; readonly order: 'ascending' | 'descending' } | undefined
  readonly rows: readonly (readonly Cell[])[]
  /** Rows that stay below the others. */
  readonly foot?: readonly (readonly Cell[])[]
}

/** A table that the script makes sortable. Without the script, the rows stay in the order of `rows`. */
export function sortableTable({ name, caption, columns, sorted, rows, foot = [] }: SortableTable): string {
  const heads = columns.map(({ title, kind }) => {
    const order = title === sorted?.title ? ` aria-sort="${sorted.order}"` : ''
    return `<th scope="col" class="${kind}"${order}>${title}</th>`
  })
  const row = (cells: readonly Cell[]) => `<tr>${cells.map((cell, i) => tableCell(cell, i, columns[i]!)).join('')}</tr>`
  const below = foot.length > 0 ? `\n<tfoot>\n${foot.map(row).join('\n')}\n</tfoot>` : ''
  return `<div class="scroll"><table class="sorts ${name}">
<caption>${escapedHtml(caption)}</caption>
<thead><tr>${heads.join('')}</tr></thead>
<tbody>
${rows.map(row).join('\n')}
</tbody>${below}
</table></div>`
}

function tableCell(cell: Cell, i: number, { kind }: ReportColumn): string {
  const [html, value] = typeof cell === 'string' ? [cell, ''] : [cell.html, ` data-value="${cell.value}"`]
  if (i === 0) return `<th scope="row"${value}>${html}</th>`
  return `<td${kind === 'text' ? ' class="text"' : ''}${value}>${html}</td>`
}
