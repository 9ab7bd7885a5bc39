import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import type { SimulationResult } from '../../src/simulate/result.js'
import { Browser, type Page } from '../support/browser.js'
import { command } from '../support/cli.js'
import { contrast } from '../support/contrast.js'
import { testFolder } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { until } from '../support/until.js'

const HOSTILE =
  '</script><img src=http://127.0.0.1:1/x onerror="document.title=`hit`"><script>document.title="hit"</script>'
const KEYS = [
  'search',
  HOSTILE,
  undefined,
  'checkout',
  `long-${'x'.repeat(300)}`,
  'مفتاح',
  'app-9',
  'app-10',
  'Search 2',
]
const START = Date.parse('2026-01-31T12:00:00Z')
const MINUTES = 10
const MANY_KEYS = 120

/** A few events of each key every second, and a burst of each key, larger for the first ones. */
const EVENTS = KEYS.flatMap((app, k) => [
  ...Array.from({ length: MINUTES * 60 }, (_, n) => ({ t: START + n * 1000 + k, app })),
  ...Array.from({ length: Math.round(4000 / (k + 1)) }, (_, n) => ({ t: START + (k + 0.5) * 60_000 + n * 10, app })),
])
  .sort((a, b) => a.t - b.t)
  .map((event, n) => ({ ...event, id: n % MANY_KEYS }))

const CONFIG = `sources: { in: { type: stdin, decode: json } }
processors:
  limit_app: { type: throttle, inputs: [in], limit: 10, window: 1s, key_field: .app, exclude: "if (.app equal 'app-9')" }
destinations: { out: { type: blackhole, inputs: [limit_app] } }
`
const ONE: readonly string[] = []
const MANY = ['--key=.id', '--limit=1']
const GRID = ['--limit=5,10,20,50,100', '--window=1s,10s']

interface Report {
  readonly folder: string
  readonly url: string
  /** What --json prints in the same run. */
  readonly result: SimulationResult
}

const reports = new Map<readonly string[], Promise<Report>>()
let browser: Browser | undefined
let folder = ''
t.before(() => {
  folder = testFolder(t, { 'sluice.yaml': CONFIG })
  t.teardown(() => browser?.close())
})

/** Simulates, and writes the report. */
async function simulated(args: readonly string[]): Promise<Report> {
  const name = `report-${reports.size}.html`
  const options = ['--config=sluice.yaml', '--component=limit_app', '--time=.t', '--json', `--report=${name}`]
  const stdin = EVENTS.map(event => `${JSON.stringify(event)}\n`).join('')
  const { code, stdout, stderr } = await command(['simulate', ...options, ...args], { cwd: folder, stdin })
  if (code !== 0) throw new Error(stderr)
  return { folder, url: pathToFileURL(join(folder, name)).href, result: JSON.parse(stdout) as SimulationResult }
}

/** Shows the report of a simulation in a new page of the browser. */
async function shown(t: Test, args: readonly string[]): Promise<(Report & { readonly page: Page }) | undefined> {
  const program = needs(t, 'chromium')
  if (!program) return undefined
  if (!reports.has(args)) reports.set(args, simulated(args))
  const report = (await reports.get(args))!
  browser ??= new Browser(program, join(folder, 'browser'))
  const page = await browser.open()
  t.teardown(() => page.close())
  await page.show(1100, 'light')
  await page.go(report.url)
  return { ...report, page }
}

/** The texts of the cells of the visible rows that a selector finds. */
const cells = (page: Page, rows: string) =>
  page.value<string[][]>(
    `[...document.querySelectorAll(${JSON.stringify(rows)})].filter(row => row.checkVisibility())
      .map(row => [...row.cells].map(cell => cell.textContent))`,
  )
const number = (text: string | undefined) => Number(text?.replaceAll(',', ''))

/** Presses Tab until the focus is on what a selector finds. */
async function tabTo(page: Page, selector: string): Promise<void> {
  for (let i = 0; i < 100; i++) {
    await page.press('Tab')
    if (await page.value(`document.activeElement.matches(${JSON.stringify(selector)})`)) return
  }
  throw new Error(`Tab does not lead to ${selector}`)
}

t.test('the numbers on the page are those of --json', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page, result } = report
  t.equal(result.results.length, 10)
  t.same(
    (await cells(page, '.grid tbody tr')).map(([limit, , , passed, discarded, excluded]) =>
      [limit, passed, discarded, excluded].map(number),
    ),
    result.results.map(({ limit, passed, discarded }) => [limit, passed, discarded, result.excluded]),
  )
  for (const [i, trial] of result.results.entries()) {
    await page.value(
      `new Promise(resolve => { addEventListener('hashchange', resolve, { once: true }), location.hash = 'result-${i}' })`,
    )
    const rows = await cells(page, `#result-${i} .keys tbody tr`)
    t.same(
      rows.map(row => [row[0], ...[2, 3, 4, 6].map(at => number(row[at]))]),
      trial.by_key.map(({ key, ...counts }) => {
        const { passed, discarded, excluded, busiest } = counts
        return [key ?? '(default bucket)', passed, discarded, excluded, busiest]
      }),
    )
    const slots = await page.value<number[]>(
      `[...document.querySelectorAll('#result-${i}-discards-data ~ tbody tr')].map(row => [...row.cells].slice(1)
        .reduce((sum, cell) => sum + Number(cell.textContent.replaceAll(',', '')), 0))`,
    )
    t.equal(
      slots.reduce((sum, value) => sum + value, 0),
      trial.discarded,
      'discards over time are all discards',
    )
  }
})

t.test('the table of keys sorts and filters by keyboard, and says how it is sorted', async t => {
  const report = await shown(t, ONE)
  if (!report) return
  const { page } = report
  const names = async () => (await cells(page, '.keys tbody tr')).map(([name]) => name)
  const order = () =>
    page.value<string[]>(
      `[...document.querySelectorAll('.keys th[aria-sort]')].map(th => th.textContent + ' ' + th.ariaSort)`,
    )
  t.same(await order(), ['discarded descending'])
  const byDiscarded = await names()
  await tabTo(page, '.keys th:nth-child(1) button')
  await page.press('Enter')
  t.same(await order(), ['key ascending'])
  const byName = await names()
  t.same(byName.slice(0, 5), ['(default bucket)', HOSTILE, 'app-9', 'app-10', 'checkout'], 'numbers in order')
  await page.press(' ')
  t.same(await order(), ['key descending'])
  t.same(await names(), byName.toReversed())
  await tabTo(page, '.keys th:nth-child(4) button')
  await page.press('Enter')
  t.same(await order(), ['discarded descending'])
  t.same(await names(), byDiscarded)
  await page.press('Enter')
  t.same(await names(), byDiscarded.toReversed())

  await page.value('document.activeElement.blur(), scrollTo(0, 0)')
  await tabTo(page, 'input[type=search]')
  for (const key of 'SEAR') await page.press(key)
  t.same((await names()).sort(), ['Search 2', 'search'])
  t.equal(await page.value(`document.querySelector('output').textContent`), '2 of 9 keys')
  await page.press('x')
  t.same(await names(), [])
  for (let i = 0; i < 5; i++) await page.press('Backspace')
  t.equal((await names()).length, KEYS.length)
  t.equal(await page.value(`document.querySelector('output').textContent`), '')
})

t.test('of many keys the first 50 are shown until all are asked for, and the filter finds the others', async t => {
  const report = await shown(t, MANY)
  if (!report) return
  const { page } = report
  const names = async () => (await cells(page, '.keys tbody tr')).map(([name]) => name)
  const isShown = (selector: string) => page.value<boolean>(`document.querySelector('${selector}').checkVisibility()`)
  const filter = (text: string) =>
    page.value(`{
      const input = document.querySelector('input')
      input.value = '${text}'
      input.dispatchEvent(new Event('input'))
    }`)
  t.equal((await names()).length, 50)
  await tabTo(page, '.keys th:nth-child(1) button')
  await page.press('Enter')
  t.same(
    await names(),
    Array.from({ length: 50 }, (_, n) => `${n}`),
    'the first ones in any order',
  )
  await filter('11')
  t.same(await names(), ['11', ...Array.from({ length: 10 }, (_, n) => `${n + 110}`)])
  t.notOk(await isShown('button.more'))
  await filter('')
  await tabTo(page, 'button.more')
  t.equal(await page.value('document.activeElement.textContent'), 'Show all 120 keys')
  await page.press('Enter')
  t.equal((await names()).length, MANY_KEYS)
  t.equal(
    await page.value('document.activeElement.textContent'),
    '50',
    'the focus is on the first row that it has shown',
  )
  t.notOk(await isShown('button.more'))
})

t.test('one result is shown at a time, first the one at the knee, and links lead to the others', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page } = report
  const visible = () =>
    page.value<string>(`[...document.querySelectorAll('section.result:not([hidden])')].map(one => one.id).join()`)
  const rows = await cells(page, '.grid tbody tr')
  const knee = rows.findIndex(row => row.at(-1) === 'knee')
  t.ok(knee > 0)
  t.equal(await visible(), `result-${knee}`)
  const knees = rows.filter(row => row.at(-1) === 'knee').length
  t.equal(await page.value(`document.querySelectorAll('circle.knee').length`), knees, 'the curves are marked there')
  await tabTo(page, '.grid tbody tr:nth-child(2) a')
  await page.press('Enter')
  await until('the first result', async () => (await visible()) === 'result-1')
  await tabTo(page, 'select')
  await page.press('ArrowDown')
  await until('the second result', async () => (await visible()) === 'result-2')
})

t.test('nothing is requested, and nothing that comes from events runs', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page, url } = report
  t.same(page.requests, [url])
  t.same(page.messages, [])
  t.equal(await page.value('document.title'), 'What limit_app would pass')
  t.equal(await page.value(`document.querySelectorAll('img, iframe, link, object, script[src]').length`), 0)
  t.equal(await page.value(`document.scripts.length`), 1)
  // Even markup that got into the page somehow would not run and not load anything.
  const violations = await page.value<string[]>(`new Promise(resolve => {
    const found = []
    addEventListener('securitypolicyviolation', event => {
      found.push(event.effectiveDirective)
      if (found.length === 3) resolve(found.sort())
    })
    const add = html => document.body.insertAdjacentHTML('beforeend', html)
    add('<img src="http://127.0.0.1:1/x">')
    add('<style>body { display: none }</style>')
    const script = document.createElement('script')
    script.textContent = 'document.title = "hit"'
    document.body.append(script)
  })`)
  t.same(violations, ['img-src', 'script-src-elem', 'style-src-elem'])
  t.equal(await page.value('document.title'), 'What limit_app would pass')
})

/** Elements that reach out of the page to the right, unless they scroll by themselves. */
const TOO_WIDE = `[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll, [hidden]') &&
  one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 0.5).map(one => one.outerHTML.slice(0, 100))`

/** The pairs of colours of all texts and what is behind them: of HTML and of pictures. */
const TEXTS = `(() => {
  const hex = colour => '#' + colour.match(/\\d+/g).slice(0, 3).map(part => Number(part).toString(16).padStart(2, '0')).join('')
  const behind = element => {
    const { backgroundColor } = getComputedStyle(element)
    return backgroundColor === 'rgba(0, 0, 0, 0)' ? behind(element.parentElement) : hex(backgroundColor)
  }
  const pairs = new Set()
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue
    const style = getComputedStyle(element)
    pairs.add(hex(element.closest('svg') ? style.fill : style.color) + ' ' + behind(element))
  }
  return [...pairs]
})()`

for (const theme of ['light', 'dark'] as const) {
  t.test(`${theme}: everything fits on a phone and on a screen, and texts can be read`, async t => {
    const report = await shown(t, GRID)
    if (!report) return
    const { page, folder } = report
    await page.value(`document.querySelectorAll('details').forEach(one => one.open = true)`)
    const sizes: number[] = []
    for (const width of [360, 720, 980, 1100]) {
      await page.show(width, theme)
      t.equal(await page.value('document.documentElement.scrollWidth <= innerWidth'), true, `${width}`)
      t.same(await page.value(TOO_WIDE), [])
      const pairs = await page.value<string[]>(TEXTS)
      t.ok(pairs.length >= 3)
      for (const pair of pairs) {
        const [text, ground] = pair.split(' ') as [string, string]
        t.ok(contrast(text, ground) >= 4.5, `${pair} at ${width}`)
        t.equal(contrast(ground, '#ffffff') < 1.2, theme === 'light', `${ground} is ${theme}`)
      }
      sizes.push((await page.picture(folder, `report-${theme}-${width}.png`)).length)
    }
    t.ok(sizes.every(size => size > 10_000))
  })
}

t.test('on paper it is light, without controls', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page } = report
  await page.show(794, 'dark', 'print')
  t.equal(await page.value(`getComputedStyle(document.body).backgroundColor`), 'rgb(255, 255, 255)')
  t.equal(await page.value(`[...document.querySelectorAll('.controls')].some(one => one.checkVisibility())`), false)
  t.equal(
    await page.value(`document.querySelector('section.result:not([hidden]) .keys tbody td').checkVisibility()`),
    true,
  )
  t.same(await page.value(TOO_WIDE), [])
  const { data } = (await page.send('Page.printToPDF')) as { data: string }
  t.match(Buffer.from(data, 'base64').toString('latin1'), /^%PDF-/)
})

interface Node {
  readonly role?: { readonly value: string }
  readonly name?: { readonly value: string }
  readonly ignored: boolean
}

t.test('everything has its role and a name for a screen reader, also where rows are cards', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page, result } = report
  for (const width of [360, 1100]) {
    await page.show(width, 'light')
    const { nodes } = (await page.send('Accessibility.getFullAXTree')) as unknown as { nodes: Node[] }
    const seen = nodes.filter(({ ignored }) => !ignored)
    const named = (role: string) => seen.filter(node => node.role?.value === role).map(node => node.name?.value ?? '')
    for (const role of ['button', 'combobox', 'searchbox', 'link', 'image', 'table', 'DisclosureTriangle', 'region']) {
      t.ok(named(role).length > 0, `a ${role} at ${width}`)
      t.notOk(named(role).includes(''), `each ${role} has a name at ${width}`)
    }
    t.ok(named('rowheader').length >= KEYS.length + result.results.length, `rows have headers at ${width}`)
    t.ok(named('columnheader').length > 10)
    t.ok(
      named('image').some(name => /knee is at/.test(name)),
      'the picture says where the knee is',
    )
    t.ok(named('image').some(name => /^Discards over time.* In all, .*search: [\d,]+/.test(name)))
  }
  const unmarked = await page.value(
    `[...document.querySelectorAll('table')].filter(table => !table.caption || [...table.querySelectorAll('th')]
      .some(th => !/^(col|row)$/.test(th.scope))).length`,
  )
  t.equal(unmarked, 0, 'tables have captions, and their headers a scope')
  const levels = await page.value<number[]>(
    `[...document.querySelectorAll('h1, h2, h3')].map(one => +one.localName[1])`,
  )
  t.ok(
    levels.every((level, i) => level - (levels[i - 1] ?? 0) <= 1),
    'no level of headings is skipped',
  )
})

t.test('the focus can be seen wherever it is', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page } = report
  for (const selector of ['.grid a', 'select', 'summary', 'input', '.keys button']) {
    await page.value('document.activeElement.blur()')
    await tabTo(page, selector)
    t.match(await page.value('getComputedStyle(document.activeElement).outline'), /solid 3px/, selector)
  }
})

t.test('without scripts all results are there, and no control that does nothing', async t => {
  const report = await shown(t, GRID)
  if (!report) return
  const { page, url, result } = report
  await page.send('Emulation.setScriptExecutionDisabled', { value: true })
  await page.go(url)
  t.equal(await page.value(`document.querySelectorAll('button, select, input').length`), 0)
  t.equal(
    await page.value(`[...document.querySelectorAll('section.result')].filter(one => one.checkVisibility()).length`),
    result.results.length,
  )
})
