/**
 * The behavior of the page in a browser: sorts, filters and shortens tables, and shows the details of one result at a
 * time. Creates the controls itself: without a script, the page has no controls that do nothing. Texts from events are
 * only ever set as text.
 */
const made = (name, properties) => Object.assign(document.createElement(name), properties)
const FIRST_ROWS = 50
const number = value => value.toLocaleString('en-US')
const collator = new Intl.Collator(undefined, { numeric: true })

/** Turns the heads of a table into buttons that sort it. Calls `sorted` after each sort. */
function sorts(table, sorted) {
  const heads = [...table.tHead.rows[0].cells]
  const body = table.tBodies[0]
  heads.forEach((head, column) => {
    const button = made('button', { type: 'button', textContent: head.textContent })
    head.replaceChildren(button)
    const isNumber = head.classList.contains('number')
    const value = ({ cells: { [column]: cell } }) => {
      const text = cell.dataset.value ?? cell.textContent
      return isNumber && text !== '' ? Number.parseFloat(text.replaceAll(',', '')) : text
    }
    button.addEventListener('click', () => {
      const before = head.getAttribute('aria-sort')
      const descending = before ? before === 'ascending' : isNumber
      for (const other of heads) other.removeAttribute('aria-sort')
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending')
      const sign = descending ? -1 : 1
      // Cells without a value come last in both orders.
      const compare = (a, b) =>
        (a === '') - (b === '') || sign * (isNumber && a !== '' ? a - b : collator.compare(a, b))
      const rows = [...body.rows].map(row => ({ row, value: value(row) }))
      body.append(...rows.sort((a, b) => compare(a.value, b.value)).map(({ row }) => row))
      sorted()
    })
  })
}

/** A labelled control above an element. */
function control(text, input, above, ...others) {
  const label = made('label', {})
  label.append(text, input)
  const controls = made('div', { className: 'controls' })
  controls.append(label, ...others)
  above.before(controls)
}

/**
 * Shows only the first rows until the reader asks for all. A table of keys also gets a field that filters them. Returns
 * a function to call when the order has changed.
 */
function shortens(table) {
  const body = table.tBodies[0]
  const hasKeys = table.matches('.keys')
  const noun = hasKeys ? ' keys' : ' results'
  const input = made('input', { type: 'search', autocomplete: 'off', spellcheck: false })
  const state = made('output', {})
  const more = made('button', { type: 'button', className: 'more' })
  let most = FIRST_ROWS
  const apply = () => {
    const wanted = input.value.toLowerCase()
    let found = 0
    for (const row of body.rows) {
      const fits = row.cells[0].textContent.toLowerCase().includes(wanted)
      row.hidden = !fits || ++found > most
    }
    state.textContent = wanted ? `${number(found)} of ${number(body.rows.length)}${noun}` : ''
    more.hidden = found <= most
    more.textContent = `Show all ${number(found)}${noun}`
  }
  input.addEventListener('input', apply)
  more.addEventListener('click', () => {
    const hidden = [...body.rows].filter(row => row.hidden)
    most = Infinity
    apply()
    // The button is hidden now, so the focus moves to the first row that has just appeared.
    const first = hidden.find(row => !row.hidden).cells[0]
    first.tabIndex = -1
    first.focus()
  })
  const frame = table.closest('.scroll')
  if (hasKeys) control('Keys that contain', input, frame, state)
  frame.after(more)
  apply()
  return apply
}

function picks(results) {
  const select = made('select', {})
  for (const result of results) select.append(new Option(result.querySelector('h2').textContent, result.id))
  control('Details of', select, results[0])
  const show = () => {
    for (const result of results) result.hidden = result.id !== select.value
  }
  const follow = () => {
    const found = results.find(({ id }) => `#${id}` === location.hash)
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

for (const table of document.querySelectorAll('table.sorts')) sorts(table, shortens(table))
const results = [...document.querySelectorAll('section.result')]
if (results.length > 1) picks(results)
