import { effect, signal } from '@preact/signals'
import { render } from 'preact'
import { DaemonError, post } from '../kit/api.js'
import { FailureNote, StateMark } from '../kit/parts.js'
import { currentRoute, decoded, link, replaceAddress } from '../kit/route.js'
import { Shell } from '../kit/shell.js'
import { clock, countedWhole, durationText } from '../kit/words.js'
import { BooksLine } from './books.js'
import { Component } from './component.js'
import { DeliveryPanel } from './delivery.js'
import { Find } from './find.js'
import { FlowPanel } from './flow.js'
import {
  away,
  connectDaemon,
  failure,
  heardAt,
  isAway,
  isConnected,
  isSilent,
  now,
  paused,
  restartedAt,
  status,
} from './live.js'
import { Tail } from './tail.js'
import { ThrottlePanel } from './throttle.js'
import 'uplot/dist/uPlot.min.css'
import '../kit/kit.css'
import './page.css'

const VIEWS = [
  { name: 'flow', title: 'Flow', draw: () => <FlowPanel /> },
  { name: 'throttle', title: 'Throttle', draw: () => <ThrottlePanel /> },
  { name: 'delivery', title: 'Delivery', draw: () => <DeliveryPanel /> },
  { name: 'find', title: 'Find', draw: () => <Find /> },
  { name: 'tail', title: 'Tail', draw: () => <Tail /> },
] as const

/** Shows whether the numbers are current. If they are not, shows since when. */
function Connection() {
  if (paused.value)
    return <StateMark level="note">paused: the numbers are from {clock(heardAt.value, now.value)}</StateMark>
  if (away.value && isAway.value) {
    const ago = durationText(now.value - away.value.since)
    if (status.value?.stopping) return <StateMark level="error">the daemon stopped {ago} ago; trying again</StateMark>
    return <StateMark level="error">no connection for {ago}; the numbers are older; trying again</StateMark>
  }
  if (isSilent.value)
    return <StateMark level="warning">no numbers for {durationText(now.value - heardAt.value)}</StateMark>
  if (!isConnected.value) return <StateMark level="note">connecting</StateMark>
  if (away.value?.until)
    return (
      <StateMark level="note">connected again, after {durationText(away.value.until - away.value.since)}</StateMark>
    )
  return <span class="live">live</span>
}

/** How long the page mentions a restart. */
const RECENT_MS = 600_000

function Head() {
  const { host, config, ready, stopping, reloading_since, problems = [], version_of_sluice } = status.value ?? {}
  return (
    <>
      <a href={link('flow')} class="brand" title={version_of_sluice}>
        Sluice
      </a>
      {host && <b>{host}</b>}
      <span class="dim config" title={config}>
        {config}
      </span>
      <span role="status">
        {stopping ? (
          <StateMark level="warning">stopping: it still delivers the events that it has read</StateMark>
        ) : reloading_since ? (
          <StateMark level="note">reloading since {clock(reloading_since, now.value)}</StateMark>
        ) : ready === false ? (
          <StateMark level="error">not ready</StateMark>
        ) : ready ? (
          'ready'
        ) : (
          ''
        )}
        {problems.length > 0 && (
          <>
            {', '}
            <a href={link('flow')}>{countedWhole(problems.length, 'problem')}</a>
          </>
        )}
      </span>
      <Connection />
      {restartedAt.value !== undefined && now.value - Date.parse(restartedAt.value) < RECENT_MS && (
        <StateMark level="note">restarted at {clock(restartedAt.value, now.value)}: it counts from 0</StateMark>
      )}
    </>
  )
}

/** Why the daemon did not accept the token in the address. */
const refused = signal<DaemonError | undefined>(undefined)

function App() {
  const { view } = currentRoute.value
  const shown = VIEWS.find(({ name }) => name === view)
  const { host, ready } = status.value ?? {}
  document.title = `${ready === false ? 'not ready: ' : ''}${host ? `${host} – ` : ''}Sluice`
  const locked = failure.value?.token && !status.value
  return (
    <Shell
      views={VIEWS}
      head={<Head />}
      top={<BooksLine />}
      keys={[['p', paused.value ? 'continue' : 'pause', () => (paused.value = !paused.value)]]}
    >
      {refused.value && <FailureNote error={refused.value} />}
      {locked ? (
        <FailureNote error={new DaemonError(401, failure.value!.words)} retry={() => location.reload()} />
      ) : view === 'component' ? (
        <Component />
      ) : (
        (shown ?? VIEWS[0]).draw()
      )}
    </Shell>
  )
}

/**
 * Takes the token from the fragment, which servers do not see, and removes it from the address. Resolves with true if
 * the daemon accepts the token.
 */
async function useToken(): Promise<boolean> {
  const [, token] = /^#token=(.*)$/.exec(location.hash) ?? []
  refused.value = undefined
  if (token === undefined) return false
  replaceAddress(link('flow'))
  try {
    await post('session', { token: decoded(token) })
    return true
  } catch (error) {
    refused.value = new DaemonError(0, `The daemon refused the token in the address: ${(error as Error).message}`)
    return false
  }
}

await useToken()
// Somebody may put a token into the address of the open page.
addEventListener('hashchange', () => void useToken().then(isAccepted => isAccepted && location.reload()))
if (currentRoute.value.view === '') replaceAddress(link('flow'))
connectDaemon()
const root = document.querySelector('#page') ?? document.body
// The HTML from the daemon stays until the first numbers arrive.
const drawn = effect(() => {
  if (!status.value && !failure.value) return
  queueMicrotask(() => {
    drawn()
    root.replaceChildren()
    render(<App />, root)
  })
})
