import { seeded } from './seeded-picks.js'

/** Lines as programs write them: times that go up, 100 to 400 bytes, names and values that vary. */

export interface CodecLines {
  /** The options of the codec. */
  readonly options?: object
  readonly lines: readonly string[]
}

const FIRST = Date.UTC(2026, 0, 31, 12)
const MS_A_LINE = 7
const MONTH = 'Jan'

const picks = seeded(20_260_131)
const { below, of, hex } = picks

const pad = (number: number, digits = 2) => String(number).padStart(digits, '0')
const iso = (i: number) => new Date(FIRST + i * MS_A_LINE).toISOString()
/** With nanoseconds, as Go writes it. */
const nano = (i: number) => `${iso(i).slice(0, -1)}${pad(below(1_000_000), 6)}Z`
const clock = (i: number) => iso(i).slice(11, 19)
const address = () => `10.${below(4)}.${below(256)}.${1 + below(254)}`
const pod = () => `${of(APPS)}-${hex(10)}-${hex(5)}`

const APPS = ['checkout', 'cart', 'catalog', 'payments', 'search', 'gateway', 'users', 'mailer', 'inventory']
const NAMESPACES = ['default', 'shop', 'kube-system', 'monitoring', 'ingress']
const LEVELS = ['info', 'info', 'info', 'info', 'debug', 'warning', 'error']
const METHODS = ['GET', 'GET', 'GET', 'POST', 'PUT', 'DELETE']
const STATUSES = [200, 200, 200, 201, 204, 302, 304, 404, 500, 503]
const PATHS = [
  '/api/v1/orders/',
  '/api/v1/users/',
  '/cart/',
  '/static/js/main.',
  '/search?q=shoes&page=',
  '/healthz?n=',
]
const SENTENCES = [
  'finished processing the request',
  'connection to the upstream was closed before the response was complete',
  'retrying after a temporary failure: dial tcp 10.0.3.17:5432: connect: connection refused',
  'cache miss, loading from the database',
  'user signed in from a device that was not seen before',
  'order was placed and will be shipped within two days',
  'r\u00e9ponse envoy\u00e9e au client',
]
const CLASSES = ['com.shop.cart.CartService', 'c.s.orders.OrderController', 'o.a.k.clients.NetworkClient', 'c.z.h.Pool']
const path = () => of(PATHS) + below(100_000)

const javaLine = (i: number) =>
  `${iso(i).slice(0, 10)} ${iso(i).slice(11, -1)} [http-nio-8080-exec-${below(200)}] ${of(['INFO', 'INFO', 'WARN', 'ERROR', 'DEBUG'])} ${of(CLASSES)} - ${of(SENTENCES)} (request ${hex(16)}, ${below(5000)} ms)`

const accessLine = (i: number) =>
  `${address()} - - [31/${MONTH}/2026:${clock(i)} +0000] "${of(METHODS)} ${path()} HTTP/1.1" ${of(STATUSES)} ${below(90_000)} "-" "kube-probe/1.34"`

const goLine = (i: number) => {
  const more = [
    `caller=${of(['server.go', 'wal.go', 'compact.go', 'manager.go'])}:${below(900)}`,
    `component="${of(['rule manager', 'web', 'tsdb', 'notifier'])}"`,
    `namespace=${of(NAMESPACES)}`,
    `pod=${pod()}`,
    `duration=${below(90_000) / 1000}ms`,
    `err="${of(['context deadline exceeded', 'open \\"/data/wal\\": no such file', 'EOF'])}"`,
  ]
  const first = below(3)
  return `ts=${iso(i)} level=${of(LEVELS)} ${more.slice(first, first + 2 + below(3)).join(' ')} msg="${of(SENTENCES)}" method=${of(METHODS)} status=${of(STATUSES)} size=${below(1e6)}`
}

/** What a container writes: one of four forms. */
const containerText = (i: number) =>
  [
    javaLine,
    accessLine,
    goLine,
    (n: number) =>
      `{"time":"${iso(n)}","level":"${of(LEVELS)}","msg":"${of(SENTENCES)}","path":"${path()}","status":${of(STATUSES)}}`,
  ][below(4)]!(i)

const haproxyLine = (i: number) =>
  `<134>${MONTH} 31 ${clock(i)} lb-${1 + below(3)} haproxy[${1200 + below(4)}]: ${address()}:${30_000 + below(30_000)} [31/${MONTH}/2026:${clock(i)}.${pad(below(1000), 3)}] http-in~ ${of(APPS)}/web-${below(12)} 0/0/${below(4)}/${below(300)}/${below(400)} ${of(STATUSES)} ${below(60_000)} - - ---- ${below(90)}/${below(90)}/0/0/0 0/0 "${of(METHODS)} ${path()} HTTP/1.1"`

const daemonLine = (i: number) =>
  `<${of([30, 38, 78, 86])}>${MONTH} 31 ${clock(i)} web-${pad(below(40))} ${of(['systemd[1]', 'sshd[20417]', 'CRON[8812]', 'dhclient[611]', 'kernel'])}: ${of(SENTENCES)}, session ${below(9000)} of user app`

const rfc5424Line = (i: number) =>
  `<${of([14, 134, 165])}>1 ${iso(i)} web-${pad(below(40))} ${of(APPS)} ${1000 + below(30_000)} ${of(['-', 'ID47', 'TCPIN'])} ${of(['-', '-', `[origin@32473 software="shop" zone="eu-${below(3)}"]`])} ${of(SENTENCES)} for ${address()}`

const firewallLine = (i: number) =>
  `date=${iso(i).slice(0, 10)} time=${clock(i)} devname="FW-${below(4)}" logid=${pad(below(1e6), 10)} type=traffic subtype=${of(['forward', 'local'])} level=${of(LEVELS)} srcip=${address()} srcport=${below(65_536)} dstip=${address()} dstport=${of([53, 80, 443, 8443])} ${of(['policyid=12 ', 'sessionid=881 ', ''])}action="${of(['accept', 'deny', 'close'])}" service='${of(['HTTPS', 'DNS', 'web browsing'])}' sentbyte=${below(1e6)}`

const controllerLine = (i: number) =>
  `${of(['I', 'I', 'I', 'W', 'E'])}0131 ${clock(i)}.${pad(below(1_000_000), 6)} ${String(1 + below(900)).padStart(7)} ${of(['reflector.go', 'controller.go', 'kubelet_node_status.go', 'leaderelection.go'])}:${below(1200)}] "${of(SENTENCES)}" pod="${of(NAMESPACES)}/${pod()}" duration="${below(900)}ms"`

const csvLine = (i: number) =>
  `${iso(i)},${hex(8)}-${hex(4)}-4${hex(3)}-${hex(12)},${of(APPS)},${address()},${of(METHODS)},${path()},${of(STATUSES)},${below(90_000)},${below(4000) / 1000},${of(SENTENCES.map(sentence => (sentence.includes(',') ? `"${sentence}, as ""told"""` : sentence)))}`

const gelfLine = (i: number) =>
  `{"version":"1.1","host":"node-${pad(below(20))}","short_message":${JSON.stringify(containerText(i))},"timestamp":${(FIRST + i * MS_A_LINE) / 1000},"level":${of([3, 4, 6, 6, 6])},"_container_id":"${hex(12)}","_container_name":"${of(APPS)}","_image_name":"registry.example.com/shop/${of(APPS)}:1.${below(40)}","_tag":"${hex(12)}"${of([',"_env":"prod"', ''])}}`

const made = (line: (i: number) => string, lines: number) => Array.from({ length: lines }, (_, i) => line(i))

/** So many lines for each codec of texts. */
export const codecLines = (lines: number): Readonly<Record<string, CodecLines>> => ({
  docker_json: {
    lines: made(
      i =>
        `{"log":${JSON.stringify(`${containerText(i)}\n`)},"stream":"${of(['stdout', 'stdout', 'stderr'])}","time":"${nano(i)}"}`,
      lines,
    ),
  },
  cri: { lines: made(i => `${nano(i)} ${of(['stdout', 'stdout', 'stderr'])} F ${containerText(i)}`, lines) },
  syslog: { lines: made(i => [haproxyLine, daemonLine, rfc5424Line][below(3)]!(i), lines) },
  logfmt: { lines: made(goLine, lines) },
  key_value: { lines: made(firewallLine, lines) },
  klog: { lines: made(controllerLine, lines) },
  csv: {
    options: {
      columns: ['time', 'request', 'app', 'client', 'method', 'path', 'status', 'bytes', 'seconds', 'message'],
    },
    lines: made(csvLine, lines),
  },
  gelf: { lines: made(gelfLine, lines) },
  regex: {
    options: {
      pattern:
        '^(?<time>\\S+ \\S+) \\[(?<thread>[^\\]]+)\\] (?<level>[A-Z]+) +(?<logger>\\S+) - (?<message>.*) \\(request (?<request>\\w+), (?<took_ms>\\d+) ms\\)$',
    },
    lines: made(javaLine, lines),
  },
  grok: {
    options: {
      pattern:
        '^%{TIMESTAMP_ISO8601:time} \\[%{DATA:thread}\\] %{LOGLEVEL:level} +%{JAVACLASS:logger} - %{GREEDYDATA:message} \\(request %{WORD:request}, %{INT:took_ms:int} ms\\)$',
    },
    lines: made(javaLine, lines),
  },
})
