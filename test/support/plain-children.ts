import processOnSpawn from 'process-on-spawn'

/**
 * Loaded into every process of tests. tap loads a module into each process that a test starts, to find out what it
 * covers. Nothing is covered here, and a daemon or a command would take twice the time to start.
 */

const OF_TAP = /\s*"?--import=\S*@tapjs\/processinfo\S*/g

processOnSpawn.addListener(started => {
  const { NODE_OPTIONS = '', ...env } = started.env
  const others = NODE_OPTIONS.replace(OF_TAP, '').trim()
  started.env = others === '' ? env : { ...env, NODE_OPTIONS: others }
})
