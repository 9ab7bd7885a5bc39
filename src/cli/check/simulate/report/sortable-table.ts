import { escaped } from './markup.js'

/** Tables that the script of the page makes sortable. Without the script they are tables in the order of their rows. */

export interface Column {
  readonly title: string
  /** Numbers are aligned to the right; times need the width of two columns on a phone. */
  readonly kind: 'text' | 'number' | 'time'
}

/** A cell in HTML, with the value to sort by where that is not its text. */
export type Cell = string | { readonly html: string; readonly value: number }

interface SortableTable {
  /** The class, for which `columnStyle` has the style. */
  readonly style: string
  readonly caption: string
  readonly columns: readonly Column[]
  /** The column whose order the rows have. */
  readonly sorted?: { readonly title: string; readonly order: 'ascending' | 'descending' } | undefined
  readonly rows: readonly (readonly Cell[])[]
  /** Rows that stay below the others. */
  readonly foot?: readonly (readonly Cell[])[]
}

export function sortableTable({ style, caption, columns, sorted, rows, foot = [] }: SortableTable): string {
  const heads = columns.map(({ title, kind }) => {
    const order = title === sorted?.title ? ` aria-sort="${sorted.order}"` : ''
    return `<th scope="col" class="${kind}"${order}>${title}</th>`
  })
  const below = foot.length > 0 ? `\n<tfoot>\n${foot.map(row).join('\n')}\n</tfoot>` : ''
  return `<table class="sorts ${style}">
<caption>${escaped(caption)}</caption>
<thead><tr>${heads.join('')}</tr></thead>
<tbody>
${rows.map(row).join('\n')}
</tbody>${below}
</table>`
}

/** The first cell names the row. */
function row([name = '', ...cells]: readonly Cell[]): string {
  return `<tr>${cell(name, 'th scope="row"', 'th')}${cells.map(one => cell(one, 'td', 'td')).join('')}</tr>`
}

function cell(cell: Cell, open: string, close: string): string {
  if (typeof cell === 'string') return `<${open}>${cell}</${close}>`
  return `<${open} data-value="${cell.value}">${cell.html}</${close}>`
}

/** Texts to the left, other cells to the right. */
export function columnStyle(style: string, columns: readonly Column[]): string {
  return columns.flatMap(({ kind }, i) => (kind === 'text' ? [`.${style} td:nth-child(${i + 1})`] : [])).join(', ')
}

/** On a phone each row is a card, whose cells have the titles of their columns before them. */
export function cardStyle(style: string, columns: readonly Column[]): string {
  const rules = columns.slice(1).map(({ title, kind }, i) => {
    const at = `.${style} td:nth-child(${i + 2})`
    const across = kind === 'time' ? `${at} { grid-column: 1 / -1 } ` : ''
    // A screen reader has the title from the head of the table; older browsers do not know the empty text after /.
    return `${across}${at}::before { content: "${title}"; content: "${title}" / "" }`
  })
  return rules.join('\n')
}
