import { CISCO } from './grok/cisco.js'
import { NAGIOS } from './grok/nagios.js'
import { NETWORK_LOGS } from './grok/network.js'
import { SERVICES } from './grok/services.js'
import { WEB_PROXIES } from './grok/web.js'

/** The patterns that grok knows by the usual names, written for linear matching: without atomic groups. */

const alternatives = (...texts: readonly string[]) => [...texts].sort((a, b) => b.length - a.length).join('|')
const capital = (text: string) => text[0]!.toUpperCase() + text.slice(1)
/** A word in small letters, with a capital, and in capitals. */
const anyCase = (...words: readonly string[]) =>
  alternatives(...words.flatMap(word => [word, capital(word), word.toUpperCase()]))
/** A name in full or its first three letters, with a capital or without. */
const named = (...names: readonly string[]) =>
  names
    .map(name => {
      const rest = name.slice(3)
      return `[${capital(name)[0]}${name[0]}]${name.slice(1, 3)}${rest && `(?:${rest})?`}`
    })
    .join('|')

const HEX = '[0-9A-Fa-f]'
/** Groups of an IPv6 address. */
const GROUPS = `${HEX}+(?::${HEX}+)*`
const OCTET = '(?:25[0-5]|2[0-4]\\d|[01]?\\d?\\d)'
const LABEL = '[0-9A-Za-z][0-9A-Za-z-]*'

const NUMBERS_AND_WORDS = {
  USERNAME: '[\\w.-]+',
  USER: '%{USERNAME}',
  EMAILLOCALPART: "[A-Za-z][\\w.!#$%&'*+/=?^`{|}~-]*",
  EMAILADDRESS: '%{EMAILLOCALPART}@%{HOSTNAME}',
  INT: '[-+]?\\d+',
  BASE10NUM: '[-+]?(?:\\d*\\.)?\\d+',
  NUMBER: '%{BASE10NUM}',
  BASE16NUM: `[-+]?(?:0[xX])?${HEX}+`,
  BASE16FLOAT: `[-+]?(?:0[xX])?(?:${HEX}*\\.)?${HEX}+`,
  POSINT: '\\b[1-9]\\d*\\b',
  NONNEGINT: '\\b\\d+\\b',
  BOOL: anyCase('true', 'false'),
  WORD: '\\b\\w+\\b',
  NOTSPACE: '\\S+',
  SPACE: '\\s*',
  DATA: '.*?',
  GREEDYDATA: '.*',
  QUOTEDSTRING: '"(?:[^"\\\\]|\\\\.)*"|\'(?:[^\'\\\\]|\\\\.)*\'|`(?:[^`\\\\]|\\\\.)*`',
  QS: '%{QUOTEDSTRING}',
  UUID: `${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12}`,
  URN: "urn:[0-9A-Za-z][0-9A-Za-z-]{0,31}:(?:%[0-9A-Fa-f]{2}|[\\w()+,.:=@;$!*'/?#-])+",
  LOGLEVEL: anyCase(
    ...['trace', 'debug', 'info', 'information', 'notice', 'warn', 'warning', 'err', 'error', 'crit', 'critical'],
    ...['alert', 'fatal', 'severe', 'emerg', 'emergency'],
  ),
}

const NETWORK = {
  CISCOMAC: `(?:${HEX}{4}\\.){2}${HEX}{4}`,
  WINDOWSMAC: `(?:${HEX}{2}-){5}${HEX}{2}`,
  COMMONMAC: `(?:${HEX}{2}:){5}${HEX}{2}`,
  MAC: '%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}',
  IPV4: `(?<!\\d)(?:${OCTET}\\.){3}${OCTET}(?!\\d)`,
  IPV6: `(?:(?:${GROUPS})?::(?:(?:${HEX}+:)*%{IPV4}|${GROUPS})?|(?:${HEX}{1,4}:){7}${HEX}{1,4})(?:%[\\w.~-]+)?`,
  IP: '%{IPV6}|%{IPV4}',
  HOSTNAME: `\\b${LABEL}(?:\\.${LABEL})*(?:\\.(?!\\w)|\\b)`,
  HOST: '%{HOSTNAME}',
  IPORHOST: '%{IP}|%{HOSTNAME}',
  HOSTPORT: '%{IPORHOST}:%{POSINT}',
}

const PATHS = {
  UNIXPATH: '(?:/[\\w%!$@:.,+~-]*)+',
  WINPATH: '(?:[A-Za-z]+:|\\\\)(?:\\\\[^\\\\?*]*)+',
  PATH: '%{UNIXPATH}|%{WINPATH}',
  TTY: '/dev/(?:pts|tty[pq]?)\\w*/?\\d+',
  URIPROTO: '[A-Za-z][0-9A-Za-z+.-]+',
  URIHOST: '%{IPORHOST}(?::%{POSINT:port})?',
  URIPATH: "(?:/[\\w$.+!*'(){},~:;=@#%&-]*)+",
  URIQUERY: "[\\w$.+!*'|(){},~@#%&/=:;?\\-[\\]<>]*",
  URIPARAM: '\\?%{URIQUERY}',
  URIPATHPARAM: '%{URIPATH}(?:%{URIPARAM})?',
  URI: '%{URIPROTO}://(?:%{USER}(?::[^@\\s]*)?@)?(?:%{URIHOST})?(?:%{URIPATHPARAM})?',
}

const TIMES = {
  MONTH: `\\b(?:${named('january', 'february', 'march', 'april', 'may', 'june', 'july', 'august', 'september', 'october', 'november', 'december')})\\b`,
  MONTHNUM: '1[0-2]|0?[1-9]',
  MONTHNUM2: '1[0-2]|0[1-9]',
  MONTHDAY: '3[01]|[12]\\d|0?[1-9]',
  DAY: named('monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'),
  YEAR: '\\d{4}|\\d{2}',
  HOUR: '2[0-3]|[01]?\\d',
  MINUTE: '[0-5]\\d',
  SECOND: '(?:60|[0-5]?\\d)(?:[:.,]\\d+)?',
  TIME: '%{HOUR}:%{MINUTE}(?::%{SECOND})?(?!\\d)',
  DATE_US: '%{MONTHNUM}[/-]%{MONTHDAY}[/-]%{YEAR}',
  DATE_EU: '%{MONTHDAY}[./-]%{MONTHNUM}[./-]%{YEAR}',
  DATE: '%{DATE_US}|%{DATE_EU}',
  ISO8601_TIMEZONE: 'Z|[-+]%{HOUR}(?::?%{MINUTE})?',
  ISO8601_SECOND: '%{SECOND}',
  TIMESTAMP_ISO8601: '%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?(?:%{ISO8601_TIMEZONE})?',
  DATESTAMP: '%{DATE}[- ]%{TIME}',
  TZ: '[APMCE][SD]T|UTC|GMT',
  DATESTAMP_RFC822: '%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}',
  DATESTAMP_RFC2822: '%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}',
  DATESTAMP_OTHER: '%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}',
  DATESTAMP_EVENTLOG: '\\d{4}%{MONTHNUM2}(?:3[01]|[12]\\d|0[1-9])(?:2[0-3]|[01]\\d)%{MINUTE}%{SECOND}',
  SYSLOGTIMESTAMP: '%{MONTH} +%{MONTHDAY} %{TIME}',
  HTTPDATE: '%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}',
  HTTPDERROR_DATE: '%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}',
}

const SYSLOG = {
  PROG: '[!-Z\\\\^-~]+',
  SYSLOGPROG: '%{PROG:program}(?:\\[%{POSINT:pid}\\])?',
  SYSLOGHOST: '%{IPORHOST}',
  SYSLOGFACILITY: '<%{NONNEGINT:facility}\\.%{NONNEGINT:priority}>',
  SYSLOGBASE: '%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource} %{SYSLOGPROG}:',
  SYSLOGLINE: '%{SYSLOGBASE} %{GREEDYDATA:message}',
}

const REQUEST = '%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest}'
const WEB = {
  HTTPDUSER: '%{EMAILADDRESS}|%{USER}',
  HTTPD_COMMONLOG:
    '%{IPORHOST:clientip} %{HTTPDUSER:ident} %{HTTPDUSER:auth} \\[%{HTTPDATE:timestamp}\\] ' +
    `"(?:${REQUEST})" (?:-|%{NUMBER:response}) (?:-|%{NUMBER:bytes})`,
  HTTPD_COMBINEDLOG: '%{HTTPD_COMMONLOG} %{QS:referrer} %{QS:agent}',
  COMMONAPACHELOG: '%{HTTPD_COMMONLOG}',
  COMBINEDAPACHELOG: '%{HTTPD_COMBINEDLOG}',
  HTTPD_ERRORLOG:
    '\\[%{HTTPDERROR_DATE:timestamp}\\] \\[(?:%{WORD:module}?:)?%{LOGLEVEL:loglevel}\\] (?:\\[pid %{POSINT:pid}(?::tid %{NUMBER:tid})?\\] )?' +
    '(?:\\[client %{IPORHOST:clientip}(?::%{POSINT:clientport})?\\] )?(?:(?<errorcode>AH\\d+): )?%{GREEDYDATA:message}',
  HTTPD20_ERRORLOG: '%{HTTPD_ERRORLOG}',
  HTTPD24_ERRORLOG: '%{HTTPD_ERRORLOG}',
}

const JAVA = {
  JAVACLASS: '(?:[A-Za-z$_][\\w$]*\\.)*[A-Za-z$_][\\w$]*',
  JAVAFILE: '[\\w$.-]+(?: [\\w$.-]+)*',
  JAVAMETHOD: '<(?:cl)?init>|[A-Za-z$_][\\w$]*',
  JAVASTACKTRACEPART: '\\s*at %{JAVACLASS:class}\\.%{JAVAMETHOD:method}\\(%{JAVAFILE:file}(?::%{INT:line})?\\)',
}

/** By name. They refer to one another as %{NAME}, or as %{NAME:field}. */
export const GROK_PATTERNS: ReadonlyMap<string, string> = new Map(
  [
    NUMBERS_AND_WORDS,
    NETWORK,
    PATHS,
    TIMES,
    SYSLOG,
    WEB,
    JAVA,
    CISCO,
    NAGIOS,
    NETWORK_LOGS,
    SERVICES,
    WEB_PROXIES,
  ].flatMap(set => Object.entries(set)),
)
