import { spawnSync } from 'node:child_process'

/**
 * Runs `examine` as the user of the daemon. As root, becomes this user for good, and only then starts a process with the
 * environment of the daemon: LD_PRELOAD and NODE_OPTIONS of another user must not act on a process of root.
 */
const [, main = '', path] = process.argv
if (path === undefined) {
  const { user, env, config } = JSON.parse(process.env.SLUICE_DOCTOR!)
  process.setgroups!(user.groups)
  process.setgid!(user.groups[0])
  process.setuid!(user.uid)
  // Units run in this folder.
  const { status } = spawnSync(process.execPath, [main, config], { cwd: '/', env, stdio: 'inherit' })
  process.exitCode = status ?? 1
} else {
  const { examine } = await import('./examine.js')
  process.stdout.write(JSON.stringify(await examine(path, process.env)))
}
