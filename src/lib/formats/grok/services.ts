import { light } from './light.js'
import { tabbed } from './tabbed.js'

/** What databases, mail and name servers, build tools and monitoring write. */

const POSTGRESQL = {
  POSTGRESQL:
    '(?<timestamp>%{TIMESTAMP_ISO8601}|%{DATESTAMP}) %{TZ} %{DATA:user_id} %{GREEDYDATA:connection_id} %{POSINT:pid}',
}

const counted = (...names: readonly string[]) => names.map(name => `${name}:%{NONNEGINT:${name}}`).join(' ')
const MONGODB = {
  MONGO_LOG: '%{SYSLOGTIMESTAMP:timestamp} \\[%{WORD:component}\\] %{GREEDYDATA:message}',
  MONGO_QUERY: '\\{ .*? \\}',
  MONGO_WORDDASH: '\\b[\\w-]+\\b',
  MONGO_SLOWQUERY: `%{WORD} %{MONGO_WORDDASH:database}\\.%{MONGO_WORDDASH:collection} %{WORD}: %{MONGO_QUERY:query} ${counted('ntoreturn', 'ntoskip', 'nscanned')}.*? ${counted('nreturned')}.*? %{INT:duration}ms`,
  MONGO3_SEVERITY: '[A-Z]',
  MONGO3_COMPONENT: '\\w+|-',
  MONGO3_LOG:
    '%{TIMESTAMP_ISO8601:timestamp} +%{MONGO3_SEVERITY:severity} +%{MONGO3_COMPONENT:component} +(?:\\[%{DATA:context}\\])? +%{GREEDYDATA:message}',
}

const REDIS = {
  REDISTIMESTAMP: '%{MONTHDAY} %{MONTH}(?: \\d{4})? %{TIME}',
  REDISLOG: '(?:\\[%{POSINT:pid}\\]|%{POSINT:pid}:[A-Z]) %{REDISTIMESTAMP:timestamp} [*.#-] ',
  REDISMONLOG:
    '%{NUMBER:timestamp} \\[%{INT:database} %{IP:client}:%{NUMBER:port}\\] "%{WORD:command}"(?: %{GREEDYDATA:params})?',
}

const BIND = {
  BIND9_TIMESTAMP: '%{MONTHDAY}-%{MONTH}-%{YEAR} %{TIME}',
  BIND9:
    '%{BIND9_TIMESTAMP:timestamp} queries: %{LOGLEVEL:loglevel}: client (?:@0x[0-9a-f]+ )?%{IP:clientip}#%{POSINT:clientport} \\(%{NOTSPACE:query}\\): (?:view %{NOTSPACE}: )?query: %{NOTSPACE:query} IN %{WORD:querytype} (?:%{DATA:flags} )?\\(%{IPORHOST:dns}\\)',
}

/** A field that may be there, behind others. */
const optional = (name: string) => `(?:(?: %{EXIM_UNKNOWN_FIELD})*? %{EXIM_${name}})?`
const EXIM = {
  EXIM_MSGID: '[0-9A-Za-z]{6}-(?:[0-9A-Za-z]{6}-[0-9A-Za-z]{2}|[0-9A-Za-z]{11}-[0-9A-Za-z]{4})',
  EXIM_FLAGS: '<=|=>|->|>>|\\*>|\\*\\*|==|<>',
  EXIM_DATE: '%{YEAR:exim_year}-%{MONTHNUM:exim_month}-%{MONTHDAY:exim_day} %{TIME:exim_time}',
  EXIM_PID: '\\[%{POSINT:pid}\\]',
  EXIM_QT: '(?:\\d+[ywdhms])+',
  EXIM_EXCLUDE_TERMS:
    'Message is frozen|(?:Start|End) queue run| Warning: | retry time not reached | no (?:IP address|host name) found for (?:IP address|host) | unexpected disconnection while reading SMTP command | no immediate delivery: |another process is handling this message',
  EXIM_REMOTE_HOST:
    'H=(?:%{NOTSPACE:remote_hostname} )?(?:\\(%{NOTSPACE:remote_heloname}\\) )?\\[%{IP:remote_host}\\](?::%{POSINT:remote_port})?',
  EXIM_INTERFACE: 'I=\\[%{IP:exim_interface}\\](?::%{NUMBER:exim_interface_port})?',
  EXIM_PROTOCOL: 'P=%{NOTSPACE:protocol}',
  EXIM_MSG_SIZE: 'S=%{NUMBER:exim_msg_size}',
  EXIM_HEADER_ID: 'id=%{NOTSPACE:exim_header_id}',
  EXIM_SUBJECT: 'T=%{QS:exim_subject}',
  EXIM_UNKNOWN_FIELD: '[A-Za-z0-9]{1,4}=%{NOTSPACE}',
  // In the order in which Exim writes them.
  EXIM_NAMED_FIELDS: `${['REMOTE_HOST', 'INTERFACE', 'PROTOCOL', 'MSG_SIZE', 'HEADER_ID', 'SUBJECT'].map(optional).join('')}(?: %{EXIM_UNKNOWN_FIELD})*`,
  EXIM_MESSAGE_ARRIVAL:
    '%{EXIM_DATE:timestamp} (?:%{EXIM_PID} )?%{EXIM_MSGID:exim_msgid} (?<exim_flags><=) (?<exim_status>[a-z:] )?%{NOTSPACE:exim_sender_email}%{EXIM_NAMED_FIELDS}(?:(?: from <?%{DATA:exim_sender_email}>?)? for %{NOTSPACE:exim_recipient_email})?',
  EXIM: '%{EXIM_MESSAGE_ARRIVAL}',
}

const TOOLS = {
  MAVEN_VERSION: '(?:\\d+\\.){0,2}(?:\\*|\\d+)(?:[.-](?:RELEASE|SNAPSHOT))?',
  MCOLLECTIVE: '., \\[%{TIMESTAMP_ISO8601:timestamp} #%{POSINT:pid}\\]\\s*%{LOGLEVEL:event_level}',
  MCOLLECTIVEAUDIT: '%{TIMESTAMP_ISO8601:timestamp}:',
}

const CONNECTION = 'ts=NUMBER uid=NOTSPACE orig_h=IP orig_p=INT resp_h=IP resp_p=INT'
const ZEEK = {
  BRO_HTTP: tabbed(
    `${CONNECTION} trans_depth=INT method domain uri referrer user_agent request_body_len=NUMBER response_body_len=NUMBER status_code status_msg info_code info_msg filename bro_tags username password proxied orig_fuids orig_mime_types resp_fuids resp_mime_types=GREEDYDATA`,
  ),
  BRO_DNS: tabbed(
    `${CONNECTION} proto=WORD trans_id=INT query qclass qclass_name qtype qtype_name rcode rcode_name AA TC RD RA Z answers TTLs rejected=GREEDYDATA`,
  ),
  BRO_CONN: tabbed(
    `${CONNECTION} proto=WORD service duration=NOTSPACE orig_bytes=NOTSPACE resp_bytes=NOTSPACE conn_state local_orig missed_bytes history orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes tunnel_parents=GREEDYDATA`,
  ),
  BRO_FILES: tabbed(
    'ts=NUMBER fuid=NOTSPACE tx_hosts rx_hosts conn_uids source depth analyzers mime_type filename duration local_orig is_orig seen_bytes total_bytes missing_bytes overflow_bytes timedout parent_fuid md5 sha1 sha256 extracted=GREEDYDATA',
  ),
  // As later versions write them, with further columns.
  ZEEK_HTTP: tabbed(
    `${CONNECTION} trans_depth=INT method domain uri referrer version user_agent origin request_body_len=NUMBER response_body_len=NUMBER status_code status_msg info_code info_msg tags username password proxied orig_fuids orig_filenames orig_mime_types resp_fuids resp_filenames resp_mime_types=GREEDYDATA`,
  ),
  ZEEK_DNS: tabbed(
    `${CONNECTION} proto=WORD trans_id=INT rtt query qclass qclass_name qtype qtype_name rcode rcode_name AA TC RD RA Z answers TTLs rejected=GREEDYDATA`,
  ),
  ZEEK_CONN: tabbed(
    `${CONNECTION} proto=WORD service duration=NOTSPACE orig_bytes=NOTSPACE resp_bytes=NOTSPACE conn_state local_orig local_resp missed_bytes history orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes tunnel_parents=GREEDYDATA`,
  ),
  ZEEK_FILES: '%{BRO_FILES}',
}

export const SERVICES = light({ ...POSTGRESQL, ...MONGODB, ...REDIS, ...BIND, ...EXIM, ...TOOLS, ...ZEEK })
