import { light } from './light.js'

/** What proxies, Rails and Ruby write. */

const STAMP = '(?:%{SYSLOGTIMESTAMP:syslog_timestamp}|%{TIMESTAMP_ISO8601:timestamp8601})'
const REQUEST_OF_PROXY =
  '(?:<BADREQ>|%{WORD:http_verb} (?:%{URIPROTO:http_proto}://)?(?:%{USER:http_user}(?::[^@\\s]*)?@)?(?:%{URIHOST:http_host})?(?:%{URIPATHPARAM:http_request}|\\*)?(?: HTTP/%{NUMBER:http_version})?)'
const TO_SERVER =
  '%{IP:client_ip}:%{INT:client_port} \\[%{HAPROXYDATE:accept_date}\\] %{NOTSPACE:frontend_name} %{NOTSPACE:backend_name}/%{NOTSPACE:server_name}'
const CONNECTIONS =
  '%{INT:actconn}/%{INT:feconn}/%{INT:beconn}/%{INT:srvconn}/%{INT:retries} %{INT:srv_queue}/%{INT:backend_queue}'

const HAPROXY = {
  HAPROXYTIME: '%{HOUR:haproxy_hour}:%{MINUTE:haproxy_minute}(?::%{SECOND:haproxy_second})?',
  HAPROXYDATE:
    '%{MONTHDAY:haproxy_monthday}/%{MONTH:haproxy_month}/%{YEAR:haproxy_year}:(?<haproxy_time>%{HOUR:haproxy_hour}:%{MINUTE:haproxy_minute}:(?<haproxy_second>[0-5]\\d|60))\\.%{INT:haproxy_milliseconds}',
  HAPROXYCAPTUREDREQUESTHEADERS: '%{DATA:captured_request_headers}',
  HAPROXYCAPTUREDRESPONSEHEADERS: '%{DATA:captured_response_headers}',
  HAPROXYHTTPBASE: `${TO_SERVER} %{INT:time_request}/%{INT:time_queue}/%{INT:time_backend_connect}/%{INT:time_backend_response}/%{NOTSPACE:time_duration} %{INT:http_status_code} %{NOTSPACE:bytes_read} %{DATA:captured_request_cookie} %{DATA:captured_response_cookie} %{NOTSPACE:termination_state} ${CONNECTIONS} (?:\\{%{HAPROXYCAPTUREDREQUESTHEADERS}\\} )?(?:\\{%{HAPROXYCAPTUREDRESPONSEHEADERS}\\} )?"${REQUEST_OF_PROXY}`,
  HAPROXYHTTP: `${STAMP} %{IPORHOST:syslog_server} %{SYSLOGPROG}: %{HAPROXYHTTPBASE}`,
  HAPROXYTCP: `${STAMP} %{IPORHOST:syslog_server} %{SYSLOGPROG}: ${TO_SERVER} %{INT:time_queue}/%{INT:time_backend_connect}/%{NOTSPACE:time_duration} %{NOTSPACE:bytes_read} %{NOTSPACE:termination_state} ${CONNECTIONS}`,
}

const SQUID = {
  SQUID3:
    '%{NUMBER:timestamp}\\s+%{NUMBER:duration} %{IP:client_address} %{WORD:cache_result}/%{NONNEGINT:status_code} %{NUMBER:bytes} %{WORD:request_method} %{NOTSPACE:url} (?:-|%{NOTSPACE:user}) %{WORD:hierarchy_code}/(?:-|%{IPORHOST:server}) (?:-|%{NOTSPACE:content_type})',
}

const RAILS = {
  RUUID: '[0-9A-Fa-f]{32}',
  RCONTROLLER: '(?<controller>[^#\\s]+)#(?<action>\\w+)',
  RAILS3HEAD:
    'Started %{WORD:verb} "%{URIPATHPARAM:request}" for %{IPORHOST:clientip} at (?<timestamp>\\d{4}-%{MONTHNUM}-%{MONTHDAY} %{HOUR}:%{MINUTE}:%{SECOND} %{ISO8601_TIMEZONE})',
  RPROCESSING: '\\s*Processing by %{RCONTROLLER} as (?<format>\\S+)(?:\\s*Parameters: \\{%{DATA:params}\\}\\s*)?',
  RAILS3PROFILE:
    '\\((?:Views: %{NUMBER:viewms}ms \\| ActiveRecord: %{NUMBER:activerecordms}ms|ActiveRecord: %{NUMBER:activerecordms}ms)?(?:[^)]*)\\)',
  RAILS3FOOT: 'Completed %{POSINT:response}(?: [\\w ]+?)? in %{NUMBER:totalms}ms(?: %{RAILS3PROFILE})?',
  RAILS3: '%{RAILS3HEAD}(?:%{RPROCESSING})?(?<context>(?:%{DATA}\\n)*)(?:%{RAILS3FOOT})?',
}

const RUBY = {
  RUBY_LOGLEVEL: 'DEBUG|FATAL|ERROR|WARN|INFO|ANY',
  RUBY_LOGGER:
    '[DFEWIA], \\[%{TIMESTAMP_ISO8601:timestamp} #%{POSINT:pid}\\] +%{RUBY_LOGLEVEL:loglevel} -- +%{DATA:progname}: %{GREEDYDATA:message}',
}

export const WEB_PROXIES = light({ ...HAPROXY, ...SQUID, ...RAILS, ...RUBY })
