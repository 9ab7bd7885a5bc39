import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { bound } from './bound.js'
import { PATIENCE_MS } from './until.js'

/** Nothing but what a test asks for: no services of its own, no GPU, no sandbox (which needs a user that is not root). */
const FLAGS =
  `--headless --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --disable-background-networking
    --disable-component-update --disable-sync --no-first-run --no-default-browser-check --remote-debugging-pipe`.split(
    /\s+/,
  )

type Message = Record<string, unknown>
type Listener = (method: string, params: Message, session: string | undefined) => void
interface Waiting {
  readonly resolve: (result: Message) => void
  readonly reject: (error: Error) => void
}

/** A headless Chromium, spoken to over its DevTools protocol: JSON between zero bytes on descriptors 3 and 4. */
export class Browser {
  readonly #child: ChildProcess
  readonly #input: Writable
  readonly #waiting = new Map<number, Waiting>()
  readonly #listeners = new Set<Listener>()
  readonly #kill = () => this.#child.kill('SIGKILL')
  #last = 0
  #rest = ''
  #stderr = ''

  /** `folder` is for what the browser keeps; it must not exist yet. */
  constructor(program: string, folder: string) {
    this.#child = spawn(...bound(program, [...FLAGS, `--user-data-dir=${folder}`, 'about:blank']), {
      stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
      // Whatever it keeps outside of that folder is kept in it as well.
      env: { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_CACHE_HOME: folder },
    })
    process.once('exit', this.#kill)
    this.#input = this.#child.stdio[3] as Writable
    this.#input.on('error', () => {})
    const output = this.#child.stdio[4] as Readable
    output.setEncoding('utf8').on('data', (text: string) => this.#take(text))
    this.#child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.#stderr += text))
    this.#child.on('close', () => this.#end(`the browser ended:\n${this.#stderr}`))
    this.#child.on('error', error => this.#end(error.message))
  }

  send(method: string, params: Message = {}, sessionId?: string): Promise<Message> {
    const id = ++this.#last
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE_MS)
      const settled =
        <T>(settle: (value: T) => void) =>
        (value: T) => {
          clearTimeout(timer)
          settle(value)
        }
      this.#waiting.set(id, { resolve: settled(resolve), reject: settled(reject) })
      this.#input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`)
    })
  }

  /** Calls the listener for each event of a page, until it returns true. */
  listen(session: string, listener: (method: string, params: Message) => unknown): void {
    const own: Listener = (method, params, of) => {
      if (of === session && listener(method, params) === true) this.#listeners.delete(own)
    }
    this.#listeners.add(own)
  }

  async open(): Promise<Page> {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    const page = new Page(this, targetId as string, sessionId as string)
    for (const domain of ['Page', 'Network', 'Runtime', 'Log', 'Accessibility']) await page.send(`${domain}.enable`)
    return page
  }

  async close(): Promise<void> {
    process.removeListener('exit', this.#kill)
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const closed = once(this.#child, 'close')
    this.send('Browser.close').catch(() => {})
    const timer = setTimeout(this.#kill, PATIENCE_MS)
    await closed
    clearTimeout(timer)
  }

  #take(text: string): void {
    const messages = (this.#rest + text).split('\0')
    this.#rest = messages.pop()!
    for (const message of messages) {
      const { id, error, result, method, params, sessionId } = JSON.parse(message)
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (error) waiting?.reject(new Error(error.message))
      else if (id) waiting?.resolve(result)
      else for (const listener of this.#listeners) listener(method, params, sessionId)
    }
  }

  #end(reason: string): void {
    for (const { reject } of this.#waiting.values()) reject(new Error(reason))
    this.#waiting.clear()
  }
}

/** A page of the browser, and what was noted since it was opened. */
export class Page {
  /** Addresses of everything that was requested. */
  readonly requests: string[] = []
  /** Errors, messages of the console, dialogs. */
  readonly messages: string[] = []
  readonly #browser: Browser
  readonly #target: string
  readonly #session: string

  constructor(browser: Browser, target: string, session: string) {
    this.#browser = browser
    this.#target = target
    this.#session = session
    browser.listen(session, (method, params) => {
      if (method === 'Network.requestWillBeSent') this.requests.push((params.request as { url: string }).url)
      if (/^(Runtime\.(exceptionThrown|consoleAPICalled)|Log\.entryAdded|Page\.javascriptDialogOpening)$/.test(method))
        this.messages.push(`${method} ${JSON.stringify(params)}`)
    })
  }

  send(method: string, params: Message = {}): Promise<Message> {
    return this.#browser.send(method, params, this.#session)
  }

  async close(): Promise<void> {
    await this.#browser.send('Target.closeTarget', { targetId: this.#target })
  }

  /** Resolves when the page and its script have loaded. */
  async go(url: string): Promise<void> {
    const loaded = new Promise<void>(resolve => {
      this.#browser.listen(this.#session, method => {
        if (method !== 'Page.loadEventFired') return false
        resolve()
        return true
      })
    })
    await this.send('Page.navigate', { url })
    await loaded
  }

  /** The value of an expression in the page. */
  async value<T>(expression: string): Promise<T> {
    const answer = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true })
    const { result, exceptionDetails } = answer as { result: { value: T }; exceptionDetails?: unknown }
    if (exceptionDetails) throw new Error(`${expression}: ${JSON.stringify(exceptionDetails)}`)
    return result.value
  }

  /** Presses and releases a key, such as `Tab`, `Enter` or `a`. */
  async press(key: string, modifiers = 0): Promise<void> {
    const { code, text } = KEYS[key] ?? { code: key.toUpperCase().charCodeAt(0), text: key }
    const event = { key, code: key, windowsVirtualKeyCode: code, modifiers }
    await this.send('Input.dispatchKeyEvent', { ...event, type: 'keyDown', text })
    await this.send('Input.dispatchKeyEvent', { ...event, type: 'keyUp' })
  }

  /** Shows the page at a width in pixels, in a theme, on a screen or as printed. */
  async show(width: number, theme: 'light' | 'dark', media: 'screen' | 'print' = 'screen'): Promise<void> {
    const metrics = { width, height: 800, deviceScaleFactor: 1, mobile: width < 600 }
    await this.send('Emulation.setDeviceMetricsOverride', metrics)
    await this.send('Emulation.setEmulatedMedia', { media, features: [{ name: 'prefers-color-scheme', value: theme }] })
  }

  /** Writes a picture of the whole page, as PNG or as its name says. */
  async picture(folder: string, name: string): Promise<Buffer> {
    const format = name.endsWith('.webp') ? { format: 'webp', quality: 80 } : { format: 'png' }
    const { data } = await this.send('Page.captureScreenshot', { ...format, captureBeyondViewport: true })
    const picture = Buffer.from(data as string, 'base64')
    writeFileSync(join(folder, name), picture)
    return picture
  }
}

const KEYS: Record<string, { readonly code: number; readonly text?: string }> = {
  Tab: { code: 9 },
  Enter: { code: 13, text: '\r' },
  ' ': { code: 32, text: ' ' },
  Escape: { code: 27 },
  '.': { code: 190, text: '.' },
  Backspace: { code: 8 },
  ArrowDown: { code: 40 },
  ArrowUp: { code: 38 },
  ArrowRight: { code: 39 },
}
