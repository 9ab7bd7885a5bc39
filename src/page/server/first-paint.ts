import type { ComponentStatus, Status } from '../../core/status-document.js'
import { escapedHtml } from '../../lib/formats/html-text.js'
import { short } from '../../lib/units.js'

/**
 * The page as HTML. Browsers show it before the script has run, or if scripts are off. All values are escaped, since
 * ids, reasons and addresses may contain any character.
 */

/** URLs of the files that the page loads; undefined: the file is missing. */
export interface PageFiles {
  readonly script: string | undefined
  readonly style: string | undefined
}

const count = (value: number): string => value.toLocaleString('en-US')

export function statusHtml(status: Status, links: PageFiles): string {
  const { host, version_of_sluice, started_at, at, ready, stopping, problems, notices, components } = status
  const since = started_at === undefined ? '' : `, since ${timeHtml(started_at)}`
  const state = stopping ? 'stopping' : ready ? 'ready' : 'not ready'
  return pageHtml(
    `${ready ? '' : `${state}: `}${host}`,
    links,
    `<h1>Sluice</h1>
<p>${escapedHtml(host)}: ${state}. <span class="dim">Version ${escapedHtml(version_of_sluice)}${since}; as of ${timeHtml(at)}.</span></p>
${booksHtml(status)}
${problemsHtml('What is wrong', problems)}
${problemsHtml('Notices', notices)}
<h2>Components</h2>
<table class="rows">
<thead><tr><th scope="col">Component</th><th scope="col">Type</th><th scope="col">Reads</th>${NUMBERS.map(([name]) => `<th scope="col">${name}</th>`).join('')}<th scope="col">State</th></tr></thead>
<tbody>
${components.map(one => rowHtml(one)).join('\n')}
</tbody>
</table>
<p class="dim">For programs: ${API.map(path => `<a href="api/v1/${path}">api/v1/${path}</a>`).join(', ')}.</p>`,
  )
}

const API = ['status', 'live', 'history']

/** The form works without a script. */
export function loginHtml(links: PageFiles, problem = ''): string {
  return pageHtml(
    'Sluice',
    links,
    `<h1>Sluice</h1>
${problem && `<p class="problems">${escapedHtml(problem)}</p>\n`}<form method="post" action="api/v1/session">
<p><label>Token of this page <input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button>Open</button></p>
<p class="dim">It is in the file that status_page.token_file names.</p>
</form>`,
  )
}

function pageHtml(title: string, { script, style }: PageFiles, content: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapedHtml(title)}</title>
<link rel="icon" href="data:,">
${style === undefined ? '' : `<link rel="stylesheet" href="${escapedHtml(style)}">\n`}${script === undefined ? '' : `<script type="module" src="${escapedHtml(script)}"></script>\n`}</head>
<body>
<div id="page">
${content}
</div>
</body>
</html>
`
}

const timeHtml = (time: string): string =>
  `<time datetime="${escapedHtml(time)}">${escapedHtml(time.replace('T', ' ').replace(/\.\d+Z$/, ' UTC'))}</time>`

/** received + emitted = passed + discarded + consumed + in flight. `emitted` and `consumed` may be missing. */
function booksHtml({ books }: Status): string {
  if (!books) return ''
  const sum = (of: object): number =>
    Object.values(of).reduce(
      (all: number, one: unknown) => all + (typeof one === 'number' ? one : sum(one as object)),
      0,
    )
  const part = (name: string, events: number) => `<span>${name} <b>${count(events)}</b></span>`
  const rare = (name: string, of: object = {}) => (sum(of) > 0 ? ` + ${part(name, sum(of))}` : '')
  const { received, emitted, passed, discarded, lost, kept, consumed, in_flight } = books
  const left = `${part('received', received)}${rare('emitted', emitted)}`
  const others = `${rare('rejected', kept)}${rare('lost', lost)}${rare('consumed', consumed)}`
  const wanted = sum(discarded) - sum(kept) - sum(lost)
  const rest = `${part('discarded', wanted)}${others} + ${part('in flight', in_flight)}`
  // `passed` is missing if events can take several paths. The counts then do not add up to `received`.
  const right = passed === undefined ? `: ${rest}` : ` = ${part('passed', passed)} + ${rest}`
  return `<p class="books">${left}${right}</p>`
}

/** Shows names between backticks as code. */
function proseHtml(text: string): string {
  const parts = text.split(/`([^`]+)`/).map(escapedHtml)
  return parts.map((part, i) => (i % 2 === 1 ? `<code>${part}</code>` : part)).join('')
}

function problemsHtml(title: string, problems: Status['problems']): string {
  if (problems.length === 0) return ''
  const items = problems.map(({ what, detail, todo, commands = [] }) => {
    const typed = commands.map(command => `<br><code>${escapedHtml(command)}</code>`).join('')
    const more = detail === undefined ? '' : `${proseHtml(detail)} `
    return `<li><strong>${proseHtml(what)}</strong><br>${more}${proseHtml(todo)}${typed}</li>`
  })
  return `<h2>${title}</h2>\n<ul class="problems">\n${items.join('\n')}\n</ul>`
}

const NUMBERS: readonly (readonly [string, (one: ComponentStatus) => string])[] = [
  ['In', ({ received }) => count(received)],
  ['Out', ({ sent }) => count(sent)],
  ['Discarded', ({ discarded }) => count(discarded)],
  ['In flight', ({ in_flight }) => count(in_flight)],
  ['In/s', ({ per_second }) => (per_second ? short(per_second.received) : '')],
  ['Out/s', ({ per_second }) => (per_second ? short(per_second.sent) : '')],
]

function rowHtml(one: ComponentStatus): string {
  const { id, type, inputs, state, last_error } = one
  const cells = [type, inputs.join(', '), ...NUMBERS.map(([, read]) => read(one))]
  const why = [state, last_error ?? ''].filter(text => text !== '').join(': ')
  return `<tr><th scope="row">${escapedHtml(id)}</th>${[...cells, why].map(cell => `<td>${escapedHtml(cell)}</td>`).join('')}</tr>`
}
