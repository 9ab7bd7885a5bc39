import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Folders that look like the root folders of machines. Times are of today, a second apart. */

const START = Date.now() - 3_600_000
const iso = (n: number) => new Date(START + n * 20).toISOString()
const lines = (count: number, line: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => `${line(n)}\n`).join('')
const clf = (n: number) => {
  const [, day, month, year, time] = /, (\d+) (\w+) (\d+) ([\d:]+)/.exec(new Date(START + n * 20).toUTCString())!
  return `${day}/${month}/${year}:${time} +0000`
}
const access = (n: number) => `192.0.2.${n % 9} - - [${clf(n)}] "GET /${n} HTTP/1.1" 200 612 "-" "curl/8.5.0"`
const ID = 'ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12cd34ef56ab12'

/** The line of /proc/net/tcp, or tcp6, of a listening socket. */
const listening = (port: number, address = '0100007F') =>
  `   0: ${address}:${port.toString(16).toUpperCase().padStart(4, '0')} ${address.replace(/\w/g, '0')}:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1`
const HEAD = '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n'
const MAPPED = '0000000000000000FFFF00000100007F'

/** A journalctl that prints a few entries, and then waits if it follows. */
const JOURNALCTL = `#!/bin/sh
for n in 1 2 3; do
  printf '{"__CURSOR":"c%s","__REALTIME_TIMESTAMP":"${START}00%s","MESSAGE":"entry %s","SYSLOG_IDENTIFIER":"sshd","PRIORITY":"6","_BOOT_ID":"0123456789abcdef0123456789abcdef"}\\n' $n $n $n
done
case "$*" in *follow*|*-f*) exec sleep 60;; esac
`

type Files = Readonly<Record<string, string>>

const MACHINES = {
  /** A web server, with Loki on it. */
  nginx: {
    'var/log/nginx/access.log': lines(300, access),
    'var/log/nginx/error.log': '2026/11/30 10:00:00 [error] 7#7: *1 open() failed\n',
    'var/log/nginx/access.log.1': lines(3, access),
    'proc/net/tcp': `${HEAD}${listening(3100)}\n`,
  },
  /** Debian with the journal and rsyslog. */
  debian: {
    'usr/bin/journalctl': JOURNALCTL,
    'var/log/journal/0123/system.journal': 'LPKSHHRH\0',
    'var/log/syslog': lines(50, n => `${iso(n).replace('Z', '+00:00')} host1 cron[3]: (root) CMD ${n}`),
    'var/log/wtmp': 'a\0b',
    'var/log/lastlog': '\0',
  },
  /** Red Hat with Apache, and Elasticsearch, which listens as Java does. */
  redhat: {
    'var/log/httpd/access_log': lines(20, access),
    'var/log/httpd/error_log': '[Mon Nov 30 10:00:00.000000 2026] [core:notice] [pid 1:tid 1] AH00094: Command line\n',
    'var/log/messages': lines(20, n => `Nov 30 10:00:${String(n).padStart(2, '0')} host1 sshd[12]: session ${n}`),
    'proc/net/tcp6': `${HEAD}${listening(9200, MAPPED)}\n`,
  },
  /** PostgreSQL, Kafka, and Promtail that runs. */
  database: {
    'var/log/postgresql/postgresql-15-main.log': lines(
      9,
      n => `2026-11-30 10:00:0${n}.000 UTC [1] LOG:  statement: SELECT ${n}\n\tFROM t`,
    ),
    'proc/net/tcp': `${HEAD}${listening(9092, '00000000')}\n`,
    'proc/41/comm': 'promtail\n',
  },
  /** Docker, and a collector. */
  docker: {
    [`var/lib/docker/containers/${ID}/${ID}-json.log`]: lines(
      200,
      n => `{"log":"line ${n}\\n","stream":"stdout","time":"${iso(n)}"}`,
    ),
    'proc/net/tcp': `${HEAD}${listening(4318)}\n${listening(4317)}\n`,
  },
  /** An app with JSON logs; pods; a receiver that takes only gRPC. */
  app: {
    'var/log/shop/shop.log': lines(400, n => `{"service":"${n % 4 ? 'cart' : 'mail'}","time":"${iso(n)}","n":${n}}`),
    'var/log/shop/shop.log.1': '{"service":"cart"}\n',
    'var/log/pods/x/y/0.log': `${iso(0)} stdout F hi\n`,
    'var/lib/docker/containers/0123/local-logs/container.log': 'x\0',
    'proc/net/tcp': `${HEAD}${listening(4317)}\n`,
  },
} satisfies Record<string, Files>

export type MachineName = keyof typeof MACHINES
export const MACHINE_NAMES = Object.keys(MACHINES) as MachineName[]

/** Makes a machine in `root`. */
export function makeMachine(name: MachineName, root: string): void {
  for (const [path, text] of Object.entries(MACHINES[name])) {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
    if (path.startsWith('usr/bin/')) chmodSync(join(root, path), 0o755)
  }
}
