/**
 * What the page does in a browser: sorts and filters tables, and shows the details of one result at a time. It makes
 * the controls itself, so that a page whose script does not run has none that do nothing. Texts from events are only
 * ever set as text.
 */
export const SCRIPT = `
'use strict'
const made = (name, properties) => Object.assign(document.createElement(name), properties)
const collator = new Intl.Collator(undefined, { numeric: true })

function sorts(table) {
  const heads = [...table.tHead.rows[0].cells]
  const body = table.tBodies[0]
  const text = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent
  heads.forEach((head, column) => {
    const button = made('button', { type: 'button', textContent: head.textContent })
    head.replaceChildren(button)
    const isNumber = head.classList.contains('number')
    const value = row => {
      const found = text(row, column)
      return isNumber ? (found === '' ? NaN : Number.parseFloat(found.replaceAll(',', ''))) : found
    }
    button.addEventListener('click', () => {
      const before = head.getAttribute('aria-sort')
      const descending = before ? before === 'ascending' : isNumber
      for (const other of heads) other.removeAttribute('aria-sort')
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending')
      const sign = descending ? -1 : 1
      const compare = (a, b) => isNumber
        ? Number.isNaN(a) - Number.isNaN(b) || sign * (a - b)
        : (a === '') - (b === '') || sign * collator.compare(a, b)
      const rows = [...body.rows].map(row => ({ row, value: value(row) }))
      body.append(...rows.sort((a, b) => compare(a.value, b.value)).map(({ row }) => row))
    })
  })
}

function filters(table) {
  const rows = [...table.tBodies[0].rows].map(row => ({ row, text: row.cells[0].textContent.toLowerCase() }))
  const input = made('input', { type: 'search', autocomplete: 'off', spellcheck: false })
  const state = made('output', {})
  const label = made('label', {})
  label.append('Keys that contain', input)
  const controls = made('div', { className: 'controls' })
  controls.append(label, state)
  const apply = () => {
    const wanted = input.value.toLowerCase()
    let shown = 0
    for (const { row, text } of rows) {
      row.hidden = !text.includes(wanted)
      if (!row.hidden) shown++
    }
    state.textContent = wanted ? shown.toLocaleString('en-US') + ' of ' + rows.length.toLocaleString('en-US') + ' keys' : ''
  }
  input.addEventListener('input', apply)
  table.before(controls)
}

function picks(results) {
  const select = made('select', {})
  for (const result of results) select.append(new Option(result.querySelector('h2').textContent, result.id))
  const label = made('label', {})
  label.append('Details of', select)
  const controls = made('div', { className: 'controls' })
  controls.append(label)
  results[0].before(controls)
  const show = () => {
    for (const result of results) result.hidden = result.id !== select.value
  }
  const follow = () => {
    const found = results.find(({ id }) => '#' + id === location.hash)
    if (!found) return
    select.value = found.id
    show()
    found.scrollIntoView()
  }
  select.value = (results.find(result => result.dataset.first !== undefined) ?? results[0]).id
  select.addEventListener('change', show)
  addEventListener('hashchange', follow)
  show()
  follow()
}

document.querySelectorAll('table.sorts').forEach(sorts)
document.querySelectorAll('table.keys').forEach(filters)
const results = [...document.querySelectorAll('section.result')]
if (results.length > 1) picks(results)
`
