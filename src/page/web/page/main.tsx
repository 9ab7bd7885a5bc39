import { effect } from '@preact/signals'
import { render } from 'preact'
import { ApiError, post } from '../kit/api.js'
import { Failure, Mark } from '../kit/parts.js'
import { decoded, link, replace, route } from '../kit/route.js'
import { Shell } from '../kit/shell.js'
import { clock, counted, duration } from '../kit/words.js'
import { Books } from './books.js'
import { Component } from './component.js'
import { Delivery } from './delivery.js'
import { Find } from './find.js'
import { Flow } from './flow.js'
import {
  away,
  connect,
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
import { Throttle } from './throttle.js'
import 'uplot/dist/uPlot.min.css'
import '../kit/kit.css'
import './page.css'

const VIEWS = [
  { name: 'flow', title: 'Flow', draw: () => <Flow /> },
  { name: 'throttle', title: 'Throttle', draw: () => <Throttle /> },
  { name: 'delivery', title: 'Delivery', draw: () => <Delivery /> },
  { name: 'find', title: 'Find', draw: () => <Find /> },
  { name: 'tail', title: 'Tail', draw: () => <Tail /> },
] as const

/** Shows whether the numbers are current. If they are not, shows since when. */
function Connection() {
  if (paused.value) return <Mark level="note">paused: the numbers are from {clock(heardAt.value, now.value)}</Mark>
  if (away.value && isAway.value) {
    const ago = duration(now.value - away.value.since)
    if (status.value?.stopping) return <Mark level="error">the daemon stopped {ago} ago; trying again</Mark>
    return <Mark level="error">no connection for {ago}; the numbers are older; trying again</Mark>
  }
  if (isSilent.value) return <Mark level="warning">no numbers for {duration(now.value - heardAt.value)}</Mark>
  if (!isConnected.value) return <Mark level="note">connecting</Mark>
  if (away.value?.until)
    return <Mark level="note">connected again, after {duration(away.value.until - away.value.since)}</Mark>
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
          <Mark level="warning">stopping: it still delivers the events that it has read</Mark>
        ) : reloading_since ? (
          <Mark level="note">reloading since {clock(reloading_since, now.value)}</Mark>
        ) : ready === false ? (
          <Mark level="error">not ready</Mark>
        ) : ready ? (
          'ready'
        ) : (
          ''
        )}
        {problems.length > 0 && (
          <>
            {', '}
            <a href={link('flow')}>{counted(problems.length, 'problem')}</a>
          </>
        )}
      </span>
      <Connection />
      {restartedAt.value !== undefined && now.value - Date.parse(restartedAt.value) < RECENT_MS && (
        <Mark level="note">restarted at {clock(restartedAt.value, now.value)}: it counts from 0</Mark>
      )}
    </>
  )
}

function App() {
  const { view } = route.value
  const shown = VIEWS.find(({ name }) => name === view)
  const { host, ready } = status.value ?? {}
  document.title = `${ready === false ? 'not ready: ' : ''}${host ? `${host} – ` : ''}Sluice`
  const locked = failure.value?.token && !status.value
  return (
    <Shell
      views={VIEWS}
      head={<Head />}
      top={<Books />}
      keys={[['p', paused.value ? 'continue' : 'pause', () => (paused.value = !paused.value)]]}
    >
      {locked ? (
        <Failure error={new ApiError(401, failure.value!.words)} retry={() => location.reload()} />
      ) : view === 'component' ? (
        <Component />
      ) : (
        (shown ?? VIEWS[0]).draw()
      )}
    </Shell>
  )
}

/** Takes the token from the fragment, which servers do not see, and removes it from the address. */
async function useToken(): Promise<void> {
  const [, token] = /^#token=(.+)$/.exec(location.hash) ?? []
  if (token === undefined) return
  replace(link('flow'))
  await post('session', { token: decoded(token) }).catch((error: Error) => {
    failure.value = { words: error.message, token: true }
  })
}

await useToken()
if (route.value.view === '') replace(link('flow'))
connect()
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
