import { light } from './light.js'
import { tabbed } from './tabbed.js'

/** What AWS, firewalls other than Cisco's, syslog daemons and Java servers write. */

const REQUEST = '%{WORD:verb} %{NOTSPACE:request}(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest}'
const dashOr = (pattern: string) => `(?:-|%{${pattern}})`
const BALANCED =
  'request_processing_time backend_processing_time response_processing_time response backend_response received_bytes bytes'
/** The columns between the location of the edge and the end of the line, with those of fixed form. */
const EDGE_COLUMNS =
  'sc_bytes=NUMBER clientip=IPORHOST cs_method=WORD cs_host=HOSTNAME cs_uri_stem=NOTSPACE sc_status=NUMBER referrer agent cs_uri_query cookies x_edge_result_type=WORD x_edge_request_id=NOTSPACE x_host_header=HOSTNAME cs_protocol=URIPROTO cs_bytes=INT time_taken=NUMBER x_forwarded_for ssl_protocol ssl_cipher x_edge_response_result_type=NOTSPACE'
const AWS = {
  S3_REQUEST_LINE: REQUEST,
  S3_ACCESS_LOG: `%{WORD:owner} %{NOTSPACE:bucket} \\[%{HTTPDATE:timestamp}\\] ${dashOr('IP:clientip')} %{NOTSPACE:requester} %{NOTSPACE:request_id} %{NOTSPACE:operation} %{NOTSPACE:key} (?:"(?:%{S3_REQUEST_LINE})"|-) (?:%{INT:response}|-) (?:-|%{NOTSPACE:error_code}) ${dashOr('INT:bytes')} ${dashOr('INT:object_size')} ${dashOr('INT:request_time_ms')} ${dashOr('INT:turnaround_time_ms')} (?:%{QS:referrer}|-) (?:"?%{QS:agent}"?|-) (?:-|%{NOTSPACE:version_id})`,
  ELB_URIPATHPARAM: '%{URIPATH:path}(?:%{URIPARAM:params})?',
  ELB_URI: '%{URIPROTO:proto}://(?:%{USER}(?::[^@\\s]*)?@)?(?:%{URIHOST:urihost})?(?:%{ELB_URIPATHPARAM})?',
  ELB_REQUEST_LINE:
    '%{WORD:verb} (?:%{ELB_URI:request}|%{NOTSPACE:request})(?: HTTP/%{NUMBER:httpversion})?|%{DATA:rawrequest}',
  ELB_ACCESS_LOG: `%{TIMESTAMP_ISO8601:timestamp} %{NOTSPACE:elb} %{IP:clientip}:%{INT:clientport} (?:%{IP:backendip}:%{INT:backendport}|-) ${BALANCED.split(
    ' ',
  )
    .map(name => `(?:-|%{NUMBER:${name}})`)
    .join(' ')} "(?:%{ELB_REQUEST_LINE})"`,
  ELB_V1_HTTP_LOG: '%{ELB_ACCESS_LOG}',
  CLOUDFRONT_ACCESS_LOG: `(?<timestamp>\\d{4}-%{MONTHNUM}-%{MONTHDAY}\\t%{TIME})\\t%{NOTSPACE:x_edge_location}\\t${tabbed(EDGE_COLUMNS)}`,
}

const flow = (prefix = '') =>
  `%{IP:${prefix}src-ip}/%{INT:${prefix}src-port}->%{IP:${prefix}dst-ip}/%{INT:${prefix}dst-port}`
const RULES = '%{DATA:src-nat-rule-name} %{DATA:dst-nat-rule-name} %{INT:protocol-id}'
const ZONES = '%{DATA:policy-name} %{DATA:from-zone} %{DATA:to-zone}'
const JUNOS = {
  RT_FLOW_EVENT: 'RT_FLOW_SESSION_(?:CREATE|CLOSE|DENY)',
  RT_FLOW1: `%{RT_FLOW_EVENT:event}: %{GREEDYDATA:close-reason}: ${flow()} %{DATA:service} ${flow('nat-')} ${RULES} ${ZONES} %{INT:session-id} \\d+\\(%{INT:sent}\\) \\d+\\(%{INT:received}\\) %{INT:elapsed-time}`,
  RT_FLOW2: `%{RT_FLOW_EVENT:event}: session created ${flow()} %{DATA:service} ${flow('nat-')} ${RULES} ${ZONES} %{INT:session-id}`,
  RT_FLOW3: `%{RT_FLOW_EVENT:event}: session denied ${flow()} %{DATA:service} %{INT:protocol-id}(?:\\(\\d+\\))? ${ZONES}(?: |$)`,
}

const PACKET = '(?:MAC=(?:%{COMMONMAC:nf_dst_mac}:%{COMMONMAC:nf_src_mac}:[0-9A-Fa-f:]*)? )?'
const FIREWALLS = {
  NETSCREENSESSIONLOG:
    '%{SYSLOGTIMESTAMP:date} %{IPORHOST:device} %{NOTSPACE}: NetScreen device_id=%{WORD:device_id}\\s+(?:\\[\\w+\\])?%{DATA}: start_time=%{QUOTEDSTRING:start_time} duration=%{INT:duration} policy_id=%{INT:policy_id} service=%{DATA:service} proto=%{INT:proto} src zone=%{WORD:src_zone} dst zone=%{WORD:dst_zone} action=%{WORD:action} sent=%{INT:sent} rcvd=%{INT:rcvd} src=%{IPORHOST:src_ip} dst=%{IPORHOST:dst_ip}(?: src_port=%{INT:src_port} dst_port=%{INT:dst_port})?(?: src-xlated ip=%{IPORHOST:src_xlated_ip} port=%{INT:src_xlated_port})?(?: dst-xlated ip=%{IPORHOST:dst_xlated_ip} port=%{INT:dst_xlated_port})?(?: session_id=%{INT:session_id})?(?: reason=%{GREEDYDATA:reason})?',
  // What netfilter appends to the prefix of a rule.
  IPTABLES: `IN=(?:%{USERNAME:nf_in_interface})? OUT=(?:%{USERNAME:nf_out_interface})? ${PACKET}SRC=%{IP:nf_src_ip} DST=%{IP:nf_dst_ip} LEN=%{INT:nf_len} (?:TOS=%{WORD:nf_tos} PREC=%{WORD:nf_prec} TTL=%{INT:nf_ttl} ID=%{INT:nf_id}|TC=%{INT:nf_tc} HOPLIMIT=%{INT:nf_ttl} FLOWLBL=%{INT:nf_flow}).*? PROTO=%{WORD:nf_protocol}(?: SPT=%{INT:nf_src_port} DPT=%{INT:nf_dst_port})?`,
  SHOREWALL: `%{SYSLOGTIMESTAMP:timestamp} %{SYSLOGHOST:nf_host} kernel: (?:\\[ *[\\d.]+\\] )?Shorewall:(?:%{WORD:nf_action1})?:(?:%{WORD:nf_action2})?.*?IN=(?:%{USERNAME:nf_in_interface})? OUT=(?:%{USERNAME:nf_out_interface})? ${PACKET}SRC=%{IP:nf_src_ip} DST=%{IP:nf_dst_ip} LEN=%{WORD:nf_len} TOS=%{WORD:nf_tos} PREC=%{WORD:nf_prec} TTL=%{INT:nf_ttl} ID=%{INT:nf_id}.*? PROTO=%{WORD:nf_protocol}(?: SPT=%{INT:nf_src_port} DPT=%{INT:nf_dst_port})?`,
  SFW2: `(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp}) %{HOSTNAME} kernel(?:\\[\\w+\\])?: (?:\\[ *[\\d.]+\\] )?SFW2-INext-%{NOTSPACE:nf_action} IN=(?:%{USERNAME:nf_in_interface})? OUT=(?:%{USERNAME:nf_out_interface})? ${PACKET}SRC=%{IP:nf_src_ip} DST=%{IP:nf_dst_ip} .*?PROTO=%{WORD:nf_protocol}(?: SPT=%{INT:nf_src_port} DPT=%{INT:nf_dst_port})?`,
}

const SYSLOG = {
  SYSLOG5424PRINTASCII: '[!-~]+',
  SYSLOGBASE2:
    '(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp8601}) (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:logsource}(?: %{SYSLOGPROG}:)?',
  SYSLOGPAMSESSION:
    '%{SYSLOGBASE} (?<message>%{WORD:pam_module}\\(%{DATA:pam_caller}\\): session %{WORD:pam_session_state} for user %{USERNAME:username}(?:\\(uid=\\d+\\))?(?: by %{GREEDYDATA:pam_by})?)',
  CRON_ACTION: '[A-Z ]+',
  CRONLOG: '%{SYSLOGBASE} \\(%{USER:user}\\) %{CRON_ACTION:action} \\(%{GREEDYDATA:message}\\)',
  SYSLOG5424PRI: '<%{NONNEGINT:syslog5424_pri}>',
  SYSLOG5424SD: '(?:\\[(?:[^\\]"]|"(?:[^"\\\\]|\\\\.)*")*\\])+',
  SYSLOG5424BASE:
    '%{SYSLOG5424PRI}%{NONNEGINT:syslog5424_ver} +(?:-|%{TIMESTAMP_ISO8601:syslog5424_ts}) +(?:-|%{IPORHOST:syslog5424_host}) +(?:-|%{SYSLOG5424PRINTASCII:syslog5424_app}) +(?:-|%{SYSLOG5424PRINTASCII:syslog5424_proc}) +(?:-|%{SYSLOG5424PRINTASCII:syslog5424_msgid}) +(?:-|%{SYSLOG5424SD:syslog5424_sd})',
  SYSLOG5424LINE: '%{SYSLOG5424BASE}(?: +%{GREEDYDATA:syslog5424_msg})?',
}

const JAVA = {
  JAVATHREAD: '[A-Z]{2}-Processor\\d+',
  JAVALOGMESSAGE: '.*',
  CATALINA_DATESTAMP: '%{MONTH} %{MONTHDAY}, \\d{4} %{HOUR}:%{MINUTE}:%{SECOND} (?:AM|PM)',
  TOMCAT_DATESTAMP: '\\d{4}-%{MONTHNUM}-%{MONTHDAY} %{HOUR}:%{MINUTE}:%{SECOND} %{ISO8601_TIMEZONE}',
  CATALINALOG: '%{CATALINA_DATESTAMP:timestamp} %{JAVACLASS:class} %{JAVALOGMESSAGE:logmessage}',
  CATALINA7_DATESTAMP: '%{CATALINA_DATESTAMP}',
  CATALINA8_DATESTAMP: '%{MONTHDAY}-%{MONTH}-\\d{4} %{HOUR}:%{MINUTE}:%{SECOND}',
  CATALINA7_LOG:
    '%{CATALINA7_DATESTAMP:timestamp} %{JAVACLASS:class}(?: %{JAVAMETHOD:method})?\\s*(?:%{LOGLEVEL:level}:)? ?%{JAVALOGMESSAGE:logmessage}',
  CATALINA8_LOG:
    '%{CATALINA8_DATESTAMP:timestamp} %{LOGLEVEL:level} \\[%{DATA:thread}\\] %{JAVACLASS:class}\\.%{JAVAMETHOD:method} %{JAVALOGMESSAGE:logmessage}',
  TOMCAT7_LOG: '%{CATALINA7_LOG}',
  TOMCAT8_LOG: '%{CATALINA8_LOG}',
  TOMCATLEGACY_DATESTAMP: '%{TOMCAT_DATESTAMP}',
  TOMCATLEGACY_LOG: '%{TOMCATLOG}',
  TOMCATLOG:
    '%{TOMCAT_DATESTAMP:timestamp} \\| %{LOGLEVEL:level} \\| %{JAVACLASS:class} - %{JAVALOGMESSAGE:logmessage}',
}

export const NETWORK_LOGS = light({ ...AWS, ...JUNOS, ...FIREWALLS, ...SYSLOG, ...JAVA })
