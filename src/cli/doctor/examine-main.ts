import { spawnSync } from 'node:child_process'

/**
 * Runs `examine` as the user of the daemon. As root, becomes this user for good, and only then starts a process with the
 * environment of the daemon: LD_PRELOAD and NODE_OPTIONS of another user must not act on a process of root.
 */
const [, main = '', config] = process.argv
if (config === undefined) {
  const { user, env, path } = JSON.parse(process.env.EXAMINED!)
  process.setgroups!(user.groups)
  process.setgid!(user.groups[0])
  process.setuid!(user.uid)
  process.exitCode = spawnSync(process.execPath, [main, path], { cwd: '/', env, stdio: 'inherit' }).status ?? 1
} else {
  process.stdout.write(JSON.stringify(await (await import('./examine.js')).examine(config, process.env)))
}
