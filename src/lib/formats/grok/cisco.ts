import { light } from './light.js'

/** Messages of Cisco ASA firewalls, by their numbers, as its reference of system messages describes them. */

const at = (side: string) => `%{IP:${side}_ip}/%{INT:${side}_port}`
const behind = (side: string) => `%{DATA:${side}_interface}:${at(side)}`
const user = (side: string) => `(?:\\(%{DATA:${side}_fwuser}\\))?`
const mapped = (side: string) => `(?: \\(%{IP:${side}_mapped_ip}/%{INT:${side}_mapped_port}\\))?`
const HASHES = '\\[%{DATA:hashcode1}, %{DATA:hashcode2}\\]'
const ICMP = '\\(type %{INT:icmp_type}, code %{INT:icmp_code}\\)'
const HITS =
  'hit-cnt %{INT:hit_count} \\(?%{CISCO_INTERVAL:interval}\\)?(?: \\[%{DATA:hashcode1}, %{DATA:hashcode2}\\])?'
const MATE = '\\((?:Primary|Secondary)\\)'
const inAccessList = (side: string) =>
  `%{DATA:${side}_interface}/%{IP:${side}_ip}\\(%{INT:${side}_port}\\)(?:\\(%{DATA:${side}_fwuser}\\))?`
const named = (side: string, from: string) =>
  `(?:%{DATA:${side}_interface}:)?%{IP:${side}_ip}(?:/%{INT:${side}_port})?${from}`

/** What all patterns of the set are made of. */
const PARTS = {
  CISCOTIMESTAMP: '%{MONTH} +%{MONTHDAY}(?: %{YEAR})? %{TIME}',
  CISCOTAG: '[A-Z0-9]+-\\d+-[A-Z0-9_]+',
  CISCO_TAGGED_SYSLOG:
    '^<%{POSINT:syslog_pri}>%{CISCOTIMESTAMP:timestamp}(?: %{SYSLOGHOST:sysloghost})? ?: %%{CISCOTAG:ciscotag}:',
  CISCO_ACTION:
    'Built|Teardown|Deny|Denied|denied|requested|permitted|denied by ACL|discarded|est-allowed|Dropping|created|deleted',
  CISCO_REASON:
    'Duplicate TCP SYN|Failed to locate egress interface|Invalid transport field|No matching connection|DNS Response|DNS Query|(?:%{WORD}\\s*)*',
  CISCO_DIRECTION: '[Ii]nbound|[Oo]utbound',
  CISCO_INTERVAL: 'first hit|%{INT}-second interval',
  CISCO_XLATE_TYPE: 'static|dynamic',
}

const FAILOVER = {
  CISCOFW104001: `${MATE} Switching to ACTIVE [-(] ?(?:cause: )?%{GREEDYDATA:switch_reason}`,
  CISCOFW104002: `${MATE} Switching to STANDBY [-(] ?(?:cause: )?%{GREEDYDATA:switch_reason}`,
  CISCOFW104003: `${MATE} Switching to FAILED\\.`,
  CISCOFW104004: `${MATE} Switching to OK\\.`,
  CISCOFW105003: `${MATE} Monitoring on [Ii]nterface %{GREEDYDATA:interface_name} waiting`,
  CISCOFW105004: `${MATE} Monitoring on [Ii]nterface %{GREEDYDATA:interface_name} normal`,
  CISCOFW105005: `${MATE} Lost Failover communications with mate on [Ii]nterface %{GREEDYDATA:interface_name}`,
  CISCOFW105008: `${MATE} Testing [Ii]nterface %{GREEDYDATA:interface_name}`,
  CISCOFW105009: `${MATE} Testing on [Ii]nterface %{GREEDYDATA:interface_name} (?:Passed|Failed)`,
}

const DENIALS = {
  CISCOFW106001: `%{CISCO_DIRECTION:direction} %{WORD:protocol} connection %{CISCO_ACTION:action} from ${at('src')} to ${at('dst')} flags %{DATA:tcp_flags} on interface %{GREEDYDATA:interface}`,
  CISCOFW106006_106007_106010: `%{CISCO_ACTION:action} %{CISCO_DIRECTION:direction} %{WORD:protocol} (?:from|src) ${named('src', user('src'))} (?:to|dst) ${named('dst', user('dst'))}(?: on interface %{NOTSPACE:interface}| due to %{CISCO_REASON:reason})?`,
  CISCOFW106014: `%{CISCO_ACTION:action} %{CISCO_DIRECTION:direction} %{WORD:protocol} src %{DATA:src_interface}:%{IP:src_ip}${user('src')} dst %{DATA:dst_interface}:%{IP:dst_ip}${user('dst')} ${ICMP}`,
  CISCOFW106015: `%{CISCO_ACTION:action} %{WORD:protocol} \\(%{DATA:policy_id}\\) from ${at('src')} to ${at('dst')} flags %{DATA:tcp_flags} +on interface %{GREEDYDATA:interface}`,
  CISCOFW106021:
    '%{CISCO_ACTION:action} %{WORD:protocol} reverse path check from %{IP:src_ip} to %{IP:dst_ip} on interface %{GREEDYDATA:interface}',
  CISCOFW106023: `%{CISCO_ACTION:action}(?: protocol)? %{WORD:protocol} src %{DATA:src_interface}:%{DATA:src_ip}(?:/%{INT:src_port})?${user('src')} dst %{DATA:dst_interface}:%{DATA:dst_ip}(?:/%{INT:dst_port})?${user('dst')}(?: ${ICMP})? by access-group "?%{DATA:policy_id}"? ${HASHES}`,
  CISCOFW106100: `access-list %{NOTSPACE:policy_id} %{CISCO_ACTION:action} %{WORD:protocol} ${inAccessList('src')} -> ${inAccessList('dst')} ${HITS}`,
  CISCOFW106100_2_3: `access-list %{NOTSPACE:policy_id} %{CISCO_ACTION:action} %{WORD:protocol} for user '?%{DATA:src_fwuser}'? %{DATA:src_interface}/%{IP:src_ip}\\(?[ (]%{INT:src_port}\\)? (?:-> )?%{DATA:dst_interface}/%{IP:dst_ip}[ (]%{INT:dst_port}\\)? ${HITS}`,
  CISCOFW313001_313004_313008:
    '%{CISCO_ACTION:action} %{WORD:protocol} type=%{INT:icmp_type}, (?:code=%{INT:icmp_code} )?from %{IP:src_ip} on interface %{NOTSPACE:interface}(?: to %{IP:dst_ip})?',
  CISCOFW313005: `%{CISCO_REASON:reason} for %{WORD:protocol} error message: %{WORD:err_protocol} src %{DATA:err_src_interface}:%{IP:err_src_ip}${user('err_src')} dst %{DATA:err_dst_interface}:%{IP:err_dst_ip}${user('err_dst')} \\(type %{INT:err_icmp_type}, code %{INT:err_icmp_code}\\) on %{DATA:interface} interface\\. +Original IP payload: %{WORD:protocol} src %{IP:orig_src_ip}/%{INT:orig_src_port}${user('orig_src')} dst %{IP:orig_dst_ip}/%{INT:orig_dst_port}${user('orig_dst')}`,
  CISCOFW710001_710002_710003_710005_710006: `%{WORD:protocol} (?:request|access) %{CISCO_ACTION:action} from ${at('src')} to %{DATA:dst_interface}:%{IP:dst_ip}/%{NOTSPACE:dst_port}`,
}

const CONNECTIONS = {
  CISCOFW110002: `%{CISCO_REASON:reason} for %{WORD:protocol} from %{DATA:src_interface}:${at('src')} to ${at('dst')}`,
  CISCOFW302010: '%{INT:connection_count} in use, %{INT:connection_count_max} most used',
  CISCOFW302013_302014_302015_302016: `%{CISCO_ACTION:action}(?: %{CISCO_DIRECTION:direction})?(?: Probe)? %{WORD:protocol} connection %{INT:connection_id} for ${behind('src')}${mapped('src')}${user('src')} to ${behind('dst')}${mapped('dst')}${user('dst')}(?: duration %{TIME:duration} bytes %{INT:bytes})?(?: %{CISCO_REASON:reason})?(?: ?\\(%{DATA:user}\\))?`,
  CISCOFW302020_302021:
    '%{CISCO_ACTION:action}(?: %{CISCO_DIRECTION:direction})? %{WORD:protocol} connection for faddr %{IP:dst_ip}/%{INT:icmp_seq_num}(?: ?\\(%{DATA:fwuser}\\))? gaddr %{IP:src_xlated_ip}/%{INT:icmp_code_xlated} laddr %{IP:src_ip}/%{INT:icmp_code}(?: ?\\(%{DATA:user}\\))?',
  CISCOFW305011: `%{CISCO_ACTION:action} %{CISCO_XLATE_TYPE:xlate_type} %{WORD:protocol} translation from %{DATA:src_interface}:%{IP:src_ip}(?:/%{INT:src_port})?${user('src')} to %{DATA:src_xlated_interface}:%{IP:src_xlated_ip}/%{INT:src_xlated_port}`,
  CISCOFW304001: `%{IP:src_ip}${user('src')} Accessed (?:JAVA )?URL %{IP:dst_ip}:%{GREEDYDATA:dst_url}`,
  CISCOFW321001: "Resource '?%{DATA:resource_name}'? limit of '?%{INT:resource_limit}'? reached",
  CISCOFW419001: `%{CISCO_ACTION:action} %{WORD:protocol} packet from ${behind('src')} to ${behind('dst')}, reason: %{GREEDYDATA:reason}`,
  CISCOFW419002: `Received %{CISCO_REASON:reason} from ${behind('src')} to ${behind('dst')} with different initial sequence number`,
  CISCOFW500004: `%{CISCO_REASON:reason} for protocol=%{WORD:protocol}, from ${at('src')} to ${at('dst')}`,
  CISCOFW733100:
    "\\[\\s*'?%{DATA:drop_type}'?\\s*\\] drop rate-%{INT:drop_rate_id} exceeded\\. Current burst rate is %{INT:drop_rate_current_burst} per second, max configured rate is %{INT:drop_rate_max_burst}; Current average rate is %{INT:drop_rate_current_avg} per second, max configured rate is %{INT:drop_rate_max_avg}; Cumulative total count is %{INT:drop_total_count}",
}

const TUNNELS = {
  CISCOFW402117:
    '%{WORD:protocol}: Received a non-IPSec packet \\(protocol= ?%{WORD:orig_protocol}\\) from %{IP:src_ip} to %{IP:dst_ip}',
  CISCOFW402119:
    '%{WORD:protocol}: Received an %{WORD:orig_protocol} packet \\(SPI= ?%{DATA:spi}, sequence number= ?%{DATA:seq_num}\\) from %{IP:src_ip} \\(user= ?%{DATA:user}\\) to %{IP:dst_ip} that failed anti-replay checking',
  CISCOFW602303_602304:
    '%{WORD:protocol}: An %{CISCO_DIRECTION:direction} %{GREEDYDATA:tunnel_type} SA \\(SPI= ?%{DATA:spi}\\) between %{IP:src_ip} and %{IP:dst_ip} \\((?:user= ?)?%{DATA:user}\\) has been %{CISCO_ACTION:action}',
  CISCOFW713172:
    'Group = %{DATA:group}, IP = %{IP:src_ip}, Automatic NAT Detection Status:\\s+Remote end\\s*%{DATA:is_remote_natted}\\s*behind a NAT device\\s+This\\s+end\\s*%{DATA:is_local_natted}\\s*behind a NAT device',
}

export const CISCO = light({ ...PARTS, ...FAILOVER, ...DENIALS, ...CONNECTIONS, ...TUNNELS })
