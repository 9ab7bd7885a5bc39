import { examine } from './examine.js'

/** Runs `examine` as the user of the daemon, which the root user of the parent process becomes for good. */
const [path, user] = JSON.parse(process.argv[2]!) as [string, { uid: number; gid: number; groups: number[] }]
process.setgroups!(user.groups)
process.setgid!(user.gid)
process.setuid!(user.uid)
process.stdout.write(JSON.stringify(await examine(path, process.env)))
