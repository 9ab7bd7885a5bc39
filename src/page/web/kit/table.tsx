import type { Signal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { stored } from './stored.js'
import { grouped } from './words.js'

export interface Column<Row> {
  readonly name: string
  /** The value to sort by. Undefined comes last. */
  readonly value: (row: Row) => number | string | undefined
  readonly cell: (row: Row) => ComponentChildren
  readonly isText?: boolean
  /** Whether the column is hidden on a phone. */
  readonly isWide?: boolean
  /** Whether the column takes the remaining width and wraps its text. */
  readonly grows?: boolean
}

interface Order {
  readonly by: string
  readonly down: boolean
}

interface Props<Row> {
  /** The name under which the order is stored. */
  readonly name: string
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly order: Order
  readonly href?: (row: Row) => string
  /** Content below a row on a phone. */
  readonly under?: (row: Row) => ComponentChildren
  /** Content below an open row. */
  readonly below?: (row: Row) => ComponentChildren
}

const orders = new Map<string, Signal<Order>>()

function orderOf(name: string, initial: Order): Signal<Order> {
  const order = orders.get(name) ?? stored(`order.${name}`, initial)
  orders.set(name, order)
  return order
}

/** Rows drawn before the user asks for all. */
const MOST_ROWS = 200

const collator = new Intl.Collator('en', { numeric: true })

function compare(a: number | string | undefined, b: number | string | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return collator.compare(String(a), String(b))
}

function sorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], { by, down }: Order): Row[] {
  const { value } = columns.find(({ name }) => name === by) ?? columns[0]!
  const keyed = rows.map(row => ({ row, key: value(row) }))
  keyed.sort((a, b) => {
    if (a.key === undefined || b.key === undefined) return Number(a.key === undefined) - Number(b.key === undefined)
    return down ? compare(b.key, a.key) : compare(a.key, b.key)
  })
  return keyed.map(({ row }) => row)
}

export function Table<Row>({ name, label, columns, rows, keyOf, order: initial, href, under, below }: Props<Row>) {
  const order = orderOf(name, initial)
  const [isWhole, setWhole] = useState(false)
  const all = sorted(rows, columns, order.value)
  const shown = isWhole ? all : all.slice(0, MOST_ROWS)
  const sort = ({ name: by, isText }: Column<Row>) => {
    order.value = { by, down: order.value.by === by ? !order.value.down : !isText }
  }
  const classes = ({ isText, isWide, grows }: Column<Row>) =>
    [isText ? 'text' : '', isWide ? 'wide' : '', grows ? 'grows' : ''].join(' ').trim()
  return (
    <div class="scroll">
      <table class="rows" aria-label={label}>
        <thead>
          <tr>
            {columns.map(column => (
              <th
                key={column.name}
                scope="col"
                class={classes(column)}
                aria-sort={order.value.by !== column.name ? undefined : order.value.down ? 'descending' : 'ascending'}
              >
                <button type="button" onClick={() => sort(column)}>
                  {column.name}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(row => {
            const more = below?.(row)
            return (
              <Fragment key={keyOf(row)}>
                <tr>
                  {columns.map((column, i) =>
                    i === 0 ? (
                      <th key={column.name} scope="row" class={classes(column)}>
                        {href ? (
                          <a data-row href={href(row)}>
                            {column.cell(row)}
                          </a>
                        ) : (
                          column.cell(row)
                        )}
                      </th>
                    ) : (
                      <td key={column.name} class={classes(column)}>
                        {column.cell(row)}
                      </td>
                    ),
                  )}
                </tr>
                {under && (
                  <tr class="under">
                    <td colSpan={columns.length}>{under(row)}</td>
                  </tr>
                )}
                {more && (
                  <tr class="below">
                    <td colSpan={columns.length}>{more}</td>
                  </tr>
                )}
              </Fragment>
            )
          })}
        </tbody>
      </table>
      {all.length > shown.length && (
        <button type="button" class="more" onClick={() => setWhole(true)}>
          Show all {grouped(all.length)}
        </button>
      )}
    </div>
  )
}
