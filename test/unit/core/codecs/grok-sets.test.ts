import t from 'tap'
import { codecOf } from '../../../../src/core/codecs/list.js'
import { readFields } from '../../../support/codecs.js'

/** Lines made by the documented formats of the programs that write them, and some of the fields. */
const LINES: readonly (readonly [pattern: string, line: string, fields: Readonly<Record<string, string>>])[] = [
  [
    'HAPROXYHTTP',
    'Nov 22 12:14:14 edge haproxy[14389]: 10.0.1.2:33317 [22/Nov/2026:12:14:14.655] web-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {shop.example} {} "GET /index.html?a=1 HTTP/1.1"',
    {
      ...{ syslog_server: 'edge', program: 'haproxy', pid: '14389', client_ip: '10.0.1.2', client_port: '33317' },
      ...{ accept_date: '22/Nov/2026:12:14:14.655', haproxy_milliseconds: '655', frontend_name: 'web-in' },
      ...{ backend_name: 'static', server_name: 'srv1', time_request: '10', time_duration: '109' },
      ...{ http_status_code: '200', bytes_read: '2750', termination_state: '----', actconn: '1', backend_queue: '0' },
      ...{
        captured_request_headers: 'shop.example',
        http_verb: 'GET',
        http_request: '/index.html?a=1',
        http_version: '1.1',
      },
    },
  ],
  [
    'HAPROXYHTTPBASE',
    '2001:db8::7:4711 [22/Nov/2026:12:14:14.655] web~ web/<NOSRV> -1/-1/-1/-1/+3 400 +187 - - PR-- 2/2/0/0/+3 0/0 "<BADREQ>"',
    { client_ip: '2001:db8::7', server_name: '<NOSRV>', time_request: '-1', time_duration: '+3', retries: '+3' },
  ],
  [
    'HAPROXYTCP',
    '2026-11-22T12:12:56+01:00 edge haproxy[1]: 10.0.1.2:33313 [22/Nov/2026:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0',
    {
      timestamp8601: '2026-11-22T12:12:56+01:00',
      backend_name: 'bck',
      time_duration: '5007',
      bytes_read: '212',
      retries: '3',
    },
  ],
  [
    'CISCO_TAGGED_SYSLOG',
    '<166>Nov 22 2026 12:00:00 fw1 : %ASA-6-302013: Built',
    { syslog_pri: '166', timestamp: 'Nov 22 2026 12:00:00', sysloghost: 'fw1', ciscotag: 'ASA-6-302013' },
  ],
  ['CISCOFW104001', '(Primary) Switching to ACTIVE (cause: mate failed).', { switch_reason: 'mate failed).' }],
  ['CISCOFW105009', '(Secondary) Testing on interface inside Passed', { interface_name: 'inside' }],
  [
    'CISCOFW106001',
    'Inbound TCP connection denied from 192.0.2.1/4711 to 10.0.0.5/22 flags SYN  on interface outside',
    {
      direction: 'Inbound',
      action: 'denied',
      src_ip: '192.0.2.1',
      dst_port: '22',
      tcp_flags: 'SYN ',
      interface: 'outside',
    },
  ],
  [
    'CISCOFW106006_106007_106010',
    'Deny inbound UDP from 192.0.2.1/53 to 10.0.0.5/4711 due to DNS Response',
    { action: 'Deny', direction: 'inbound', src_port: '53', dst_ip: '10.0.0.5', reason: 'DNS Response' },
  ],
  [
    'CISCOFW106006_106007_106010',
    'Deny inbound tcp src outside:192.0.2.1/80 dst inside:10.0.0.5/22',
    { src_interface: 'outside', src_ip: '192.0.2.1', dst_interface: 'inside', dst_port: '22' },
  ],
  [
    'CISCOFW106014',
    'Deny inbound icmp src outside:192.0.2.1 dst inside:10.0.0.5 (type 8, code 0)',
    { src_interface: 'outside', dst_ip: '10.0.0.5', icmp_type: '8', icmp_code: '0' },
  ],
  [
    'CISCOFW106015',
    'Deny TCP (no connection) from 192.0.2.1/443 to 10.0.0.5/51000 flags RST  on interface outside',
    { policy_id: 'no connection', dst_port: '51000', tcp_flags: 'RST', interface: 'outside' },
  ],
  [
    'CISCOFW106021',
    'Deny TCP reverse path check from 192.0.2.1 to 10.0.0.5 on interface outside',
    { src_ip: '192.0.2.1', interface: 'outside' },
  ],
  [
    'CISCOFW106023',
    'Deny tcp src outside:192.0.2.1/4711(ada) dst inside:10.0.0.5/22 by access-group "outside_in" [0x8ed66b60, 0xf8852875]',
    { src_fwuser: 'ada', src_port: '4711', dst_port: '22', policy_id: 'outside_in', hashcode2: '0xf8852875' },
  ],
  [
    'CISCOFW106023',
    'Deny icmp src outside:192.0.2.1 dst inside:10.0.0.5 (type 3, code 1) by access-group "acl" [0x0, 0x0]',
    { protocol: 'icmp', icmp_type: '3', policy_id: 'acl' },
  ],
  [
    'CISCOFW106100',
    'access-list inside_out permitted tcp inside/10.0.0.5(51000) -> outside/192.0.2.1(443) hit-cnt 1 first hit [0x1, 0x2]',
    {
      policy_id: 'inside_out',
      action: 'permitted',
      src_port: '51000',
      dst_ip: '192.0.2.1',
      hit_count: '1',
      interval: 'first hit',
    },
  ],
  [
    'CISCOFW106100_2_3',
    "access-list acl denied tcp for user 'ada' inside/10.0.0.5(51000) -> outside/192.0.2.1(443) hit-cnt 4 300-second interval [0x1, 0x2]",
    { src_fwuser: 'ada', src_interface: 'inside', dst_port: '443', interval: '300-second interval', hashcode1: '0x1' },
  ],
  [
    'CISCOFW302013_302014_302015_302016',
    'Built outbound TCP connection 8814 for outside:192.0.2.1/443 (192.0.2.1/443) to inside:10.0.0.5/51000 (203.0.113.9/1024) (ada)',
    {
      ...{ action: 'Built', direction: 'outbound', protocol: 'TCP', connection_id: '8814', src_mapped_port: '443' },
      ...{ dst_interface: 'inside', dst_ip: '10.0.0.5', dst_mapped_ip: '203.0.113.9' },
    },
  ],
  [
    'CISCOFW302013_302014_302015_302016',
    'Teardown TCP connection 8814 for outside:192.0.2.1/443 to inside:10.0.0.5/51000 duration 0:00:30 bytes 5120 TCP FINs',
    { action: 'Teardown', duration: '0:00:30', bytes: '5120', reason: 'TCP FINs' },
  ],
  [
    'CISCOFW302020_302021',
    'Built inbound ICMP connection for faddr 192.0.2.1/0 gaddr 203.0.113.9/1 laddr 10.0.0.5/1',
    { dst_ip: '192.0.2.1', icmp_seq_num: '0', src_xlated_ip: '203.0.113.9', src_ip: '10.0.0.5', icmp_code: '1' },
  ],
  [
    'CISCOFW305011',
    'Built dynamic TCP translation from inside:10.0.0.5/51000 to outside:203.0.113.9/1024',
    { xlate_type: 'dynamic', src_ip: '10.0.0.5', src_xlated_interface: 'outside', src_xlated_port: '1024' },
  ],
  [
    'CISCOFW110002',
    'Failed to locate egress interface for UDP from inside:10.0.0.5/137 to 10.0.9.255/137',
    { reason: 'Failed to locate egress interface', src_interface: 'inside', dst_ip: '10.0.9.255' },
  ],
  ['CISCOFW302010', '10 in use, 92 most used', { connection_count: '10', connection_count_max: '92' }],
  [
    'CISCOFW304001',
    '10.0.0.5 Accessed URL 192.0.2.1:http://a.example/x',
    { src_ip: '10.0.0.5', dst_url: 'http://a.example/x' },
  ],
  [
    'CISCOFW313001_313004_313008',
    'Denied ICMP type=8, code=0 from 192.0.2.1 on interface outside',
    { icmp_type: '8', icmp_code: '0', src_ip: '192.0.2.1', interface: 'outside' },
  ],
  [
    'CISCOFW313005',
    'No matching connection for ICMP error message: icmp src outside:192.0.2.1 dst inside:10.0.0.5 (type 3, code 3) on outside interface.  Original IP payload: udp src 10.0.0.5/51000 dst 192.0.2.1/53',
    {
      reason: 'No matching connection',
      err_src_ip: '192.0.2.1',
      err_icmp_code: '3',
      interface: 'outside',
      orig_dst_port: '53',
    },
  ],
  ['CISCOFW321001', "Resource 'conns' limit of 1000 reached", { resource_name: 'conns', resource_limit: '1000' }],
  [
    'CISCOFW402119',
    'IPSEC: Received an ESP packet (SPI= 0x1A, sequence number= 0x2) from 192.0.2.1 (user= ada) to 10.0.0.5 that failed anti-replay checking',
    { orig_protocol: 'ESP', spi: '0x1A', seq_num: '0x2', user: 'ada', dst_ip: '10.0.0.5' },
  ],
  [
    'CISCOFW419002',
    'Received Duplicate TCP SYN from inside:10.0.0.5/51000 to outside:192.0.2.1/80 with different initial sequence number.',
    { reason: 'Duplicate TCP SYN', src_interface: 'inside', dst_port: '80' },
  ],
  [
    'CISCOFW602303_602304',
    'IPSEC: An inbound LAN-to-LAN SA (SPI= 0xF8) between 192.0.2.1 and 203.0.113.9 (user= 192.0.2.1) has been created.',
    { direction: 'inbound', tunnel_type: 'LAN-to-LAN', spi: '0xF8', action: 'created' },
  ],
  [
    'CISCOFW710001_710002_710003_710005_710006',
    'UDP request discarded from 10.0.0.5/68 to inside:255.255.255.255/67',
    { action: 'discarded', src_port: '68', dst_interface: 'inside', dst_port: '67' },
  ],
  [
    'CISCOFW733100',
    '[ Scanning] drop rate-1 exceeded. Current burst rate is 12 per second, max configured rate is 10; Current average rate is 6 per second, max configured rate is 5; Cumulative total count is 4021',
    { drop_type: 'Scanning', drop_rate_id: '1', drop_rate_current_burst: '12', drop_total_count: '4021' },
  ],
  [
    'SHOREWALL',
    'Nov 22 17:23:25 gate kernel: [312.79] Shorewall:net2fw:DROP:IN=eth2 OUT= MAC=00:50:56:ac:45:16:54:75:d0:c4:d3:00:08:00 SRC=192.0.2.1 DST=10.0.0.5 LEN=141 TOS=0x00 PREC=0x00 TTL=63 ID=5525 DF PROTO=UDP SPT=5353 DPT=53 LEN=121',
    {
      nf_host: 'gate',
      nf_action1: 'net2fw',
      nf_action2: 'DROP',
      nf_in_interface: 'eth2',
      nf_src_mac: '54:75:d0:c4:d3:00',
      nf_dst_port: '53',
    },
  ],
  [
    'RAILS3',
    'Started GET "/posts/1?a=b" for 10.0.0.5 at 2026-11-22 14:28:14 +0100\nProcessing by PostsController#show as HTML\n  Parameters: {"id"=>"1"}\nRendered posts/show.html.erb (4.2ms)\nCompleted 200 OK in 20ms (Views: 10.1ms | ActiveRecord: 2.0ms)',
    {
      ...{ verb: 'GET', request: '/posts/1?a=b', clientip: '10.0.0.5', timestamp: '2026-11-22 14:28:14 +0100' },
      ...{ controller: 'PostsController', action: 'show', format: 'HTML', params: '"id"=>"1"', response: '200' },
      ...{ context: 'Rendered posts/show.html.erb (4.2ms)\n', totalms: '20', viewms: '10.1', activerecordms: '2.0' },
    },
  ],
  [
    'RUBY_LOGGER',
    'W, [2026-11-22T18:37:45.123456 #1234]  WARN -- shop: low stock',
    { timestamp: '2026-11-22T18:37:45.123456', pid: '1234', loglevel: 'WARN', progname: 'shop', message: 'low stock' },
  ],
  [
    'S3_ACCESS_LOG',
    '79a59df9 logs-bucket [06/Feb/2026:00:00:38 +0000] 192.0.2.3 arn:aws:iam::1:user/ada 3E57427F3 REST.GET.OBJECT photos/a.jpg "GET /logs-bucket/photos/a.jpg HTTP/1.1" 200 - 113 200 7 5 "-" "curl/8.5.0" -',
    {
      ...{ owner: '79a59df9', bucket: 'logs-bucket', clientip: '192.0.2.3', operation: 'REST.GET.OBJECT', verb: 'GET' },
      ...{ response: '200', bytes: '113', object_size: '200', request_time_ms: '7', turnaround_time_ms: '5' },
    },
  ],
  [
    'ELB_ACCESS_LOG',
    '2026-05-13T23:39:43.945958Z my-elb 192.0.2.1:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/a?b=c HTTP/1.1"',
    {
      elb: 'my-elb',
      clientport: '2817',
      backendip: '10.0.0.1',
      backend_processing_time: '0.001048',
      bytes: '29',
      verb: 'GET',
      path: '/a',
      params: '?b=c',
    },
  ],
  [
    'CLOUDFRONT_ACCESS_LOG',
    '2026-12-04\t21:02:31\tLAX50-C1\t392\t192.0.2.24\tGET\td1.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(X11)\t-\t-\tHit\tSOX4xwn4XV6Q4rgb7==\td1.cloudfront.net\thttps\t23\t0.001\t-\tTLSv1.3\tAES128\tHit',
    {
      timestamp: '2026-12-04\t21:02:31',
      x_edge_location: 'LAX50-C1',
      clientip: '192.0.2.24',
      sc_status: '200',
      x_edge_result_type: 'Hit',
      cs_protocol: 'https',
      ssl_cipher: 'AES128',
    },
  ],
  [
    'RT_FLOW1',
    'RT_FLOW_SESSION_CLOSE: session closed TCP FIN: 10.0.0.5/1234->192.0.2.1/80 junos-http 203.0.113.9/4321->192.0.2.1/80 source-rule None 6 out trust untrust 7001 5(300) 4(200) 12 x',
    {
      'close-reason': 'session closed TCP FIN',
      'src-port': '1234',
      service: 'junos-http',
      'nat-src-ip': '203.0.113.9',
      'policy-name': 'out',
      'session-id': '7001',
      sent: '300',
      received: '200',
      'elapsed-time': '12',
    },
  ],
  [
    'RT_FLOW3',
    'RT_FLOW_SESSION_DENY: session denied 10.0.0.5/1234->192.0.2.1/23 junos-telnet 6(0) no-telnet trust untrust',
    { service: 'junos-telnet', 'protocol-id': '6', 'policy-name': 'no-telnet', 'to-zone': 'untrust' },
  ],
  [
    'SYSLOGPAMSESSION',
    'Nov 22 12:00:00 web-07 sshd[4242]: pam_unix(sshd:session): session opened for user ada by (uid=0)',
    {
      program: 'sshd',
      pam_module: 'pam_unix',
      pam_caller: 'sshd:session',
      pam_session_state: 'opened',
      username: 'ada',
      pam_by: '(uid=0)',
    },
  ],
  [
    'CRONLOG',
    'Nov 22 12:00:01 web-07 CRON[77]: (root) CMD (run-parts /etc/cron.hourly)',
    { user: 'root', action: 'CMD', message: 'run-parts /etc/cron.hourly' },
  ],
  [
    'SYSLOG5424LINE',
    '<165>1 2026-10-11T22:14:15.003Z host.example evntslog - ID47 [x@32473 a="b \\" ]" c="d"][y@1 e="f"] an event',
    {
      syslog5424_pri: '165',
      syslog5424_ver: '1',
      syslog5424_app: 'evntslog',
      syslog5424_msgid: 'ID47',
      syslog5424_sd: '[x@32473 a="b \\" ]" c="d"][y@1 e="f"]',
      syslog5424_msg: 'an event',
    },
  ],
  [
    'CATALINALOG',
    'Jan 9, 2026 7:13:13 AM org.apache.catalina.startup.HostConfig deploy\nINFO: x',
    { timestamp: 'Jan 9, 2026 7:13:13 AM', class: 'org.apache.catalina.startup.HostConfig', logmessage: 'deploy' },
  ],
  [
    'TOMCATLOG',
    '2026-01-09 20:03:28,269 -0800 | ERROR | com.example.service.Example - something broke',
    {
      timestamp: '2026-01-09 20:03:28,269 -0800',
      level: 'ERROR',
      class: 'com.example.service.Example',
      logmessage: 'something broke',
    },
  ],
  [
    'CATALINA8_LOG',
    '31-Jul-2026 16:40:38.451 SEVERE [main] org.apache.catalina.core.StandardContext.startInternal One or more listeners failed',
    {
      ...{ timestamp: '31-Jul-2026 16:40:38.451', level: 'SEVERE', thread: 'main', method: 'startInternal' },
      ...{ class: 'org.apache.catalina.core.StandardContext', logmessage: 'One or more listeners failed' },
    },
  ],
  [
    'CATALINA7_LOG',
    'Sep 9, 2026 6:56:10 AM org.apache.coyote.AbstractProtocol init\nINFO: Initializing',
    { class: 'org.apache.coyote.AbstractProtocol', method: 'init', level: 'INFO', logmessage: 'Initializing' },
  ],
  [
    'IPTABLES',
    'IN=eth0 OUT= MAC=f0:4d:a2:00:11:22:00:1b:21:33:44:55:08:00 SRC=192.0.2.1 DST=10.0.0.5 LEN=60 TOS=0x00 PREC=0x00 TTL=52 ID=4242 DF PROTO=TCP SPT=51000 DPT=22 WINDOW=29200 RES=0x00 SYN URGP=0',
    { nf_in_interface: 'eth0', nf_src_ip: '192.0.2.1', nf_ttl: '52', nf_protocol: 'TCP', nf_dst_port: '22' },
  ],
  [
    'IPTABLES',
    'IN= OUT=eth0 SRC=2001:db8::1 DST=2001:db8::2 LEN=72 TC=0 HOPLIMIT=64 FLOWLBL=0 PROTO=UDP SPT=5353 DPT=5353 LEN=32',
    { nf_out_interface: 'eth0', nf_src_ip: '2001:db8::1', nf_ttl: '64', nf_protocol: 'UDP', nf_src_port: '5353' },
  ],
  [
    'ZEEK_CONN',
    '1300475167.096535\tCXWv6p3\t10.0.0.5\t5353\t224.0.0.251\t5353\tudp\tdns\t-\t-\t-\tS0\tT\tF\t0\tD\t1\t73\t0\t0\t-',
    { uid: 'CXWv6p3', conn_state: 'S0', local_orig: 'T', local_resp: 'F', history: 'D', orig_ip_bytes: '73' },
  ],
  [
    'ZEEK_DNS',
    '1300475167.096535\tCXWv6p3\t10.0.0.5\t51000\t10.0.0.53\t53\tudp\t4242\t0.0012\ta.example\t1\tC_INTERNET\t1\tA\t0\tNOERROR\tF\tF\tT\tT\t0\t192.0.2.1\t300.0\tF',
    { rtt: '0.0012', query: 'a.example', qtype_name: 'A', rcode_name: 'NOERROR', answers: '192.0.2.1', rejected: 'F' },
  ],
  [
    'BIND9',
    '17-Feb-2026 08:06:56.526 queries: info: client @0x7f64500113a0 192.0.2.1#12345 (a.example.com): query: a.example.com IN A +E(0)K (192.0.2.53)',
    {
      timestamp: '17-Feb-2026 08:06:56.526',
      loglevel: 'info',
      clientip: '192.0.2.1',
      clientport: '12345',
      query: 'a.example.com',
      querytype: 'A',
      dns: '192.0.2.53',
    },
  ],
  [
    'EXIM',
    '2026-02-10 23:14:36 1WCvYc-0001tN-BA <= ada@example.com H=mail.example.com (mx1) [192.0.2.1]:4321 I=[192.0.2.2]:25 P=esmtps X=TLS1.3 S=1234 id=a@b T="hello" from <ada@example.com> for bob@example.org',
    {
      ...{ exim_year: '2026', exim_msgid: '1WCvYc-0001tN-BA', exim_flags: '<=', exim_sender_email: 'ada@example.com' },
      ...{ remote_hostname: 'mail.example.com', remote_heloname: 'mx1', remote_host: '192.0.2.1', remote_port: '4321' },
      ...{ exim_interface_port: '25', protocol: 'esmtps', exim_msg_size: '1234', exim_header_id: 'a@b' },
      ...{ exim_subject: '"hello"', exim_recipient_email: 'bob@example.org' },
    },
  ],
  [
    'SQUID3',
    '1286536308.779    180 192.0.2.24 TCP_MISS/200 411 GET http://a.example/x - HIER_DIRECT/203.0.113.1 text/html',
    {
      duration: '180',
      cache_result: 'TCP_MISS',
      status_code: '200',
      request_method: 'GET',
      hierarchy_code: 'HIER_DIRECT',
      server: '203.0.113.1',
      content_type: 'text/html',
    },
  ],
  [
    'POSTGRESQL',
    '2026-03-01 14:00:00.123 UTC ada 5e.1f 4242',
    { timestamp: '2026-03-01 14:00:00.123', user_id: 'ada', connection_id: '5e.1f', pid: '4242' },
  ],
  [
    'MONGO3_LOG',
    '2026-11-03T18:28:32.450-0500 I NETWORK  [initandlisten] waiting for connections',
    { severity: 'I', component: 'NETWORK', context: 'initandlisten', message: 'waiting for connections' },
  ],
  [
    'MONGO_SLOWQUERY',
    'query shop.orders query: { user: "ada" } ntoreturn:0 ntoskip:0 nscanned:5 keyUpdates:0 locks(micros) r:10 nreturned:5 reslen:100 120ms',
    {
      database: 'shop',
      collection: 'orders',
      query: '{ user: "ada" }',
      nscanned: '5',
      nreturned: '5',
      duration: '120',
    },
  ],
  ['REDISLOG', '4018:M 14 Nov 2026 07:01:22.119 * Ready', { pid: '4018', timestamp: '14 Nov 2026 07:01:22.119' }],
  ['REDISLOG', '[4018] 14 Nov 07:01:22.119 * Ready', { pid: '4018', timestamp: '14 Nov 07:01:22.119' }],
  [
    'REDISMONLOG',
    '1339518083.107412 [0 127.0.0.1:60866] "set" "a" "b"',
    { timestamp: '1339518083.107412', database: '0', port: '60866', command: 'set', params: '"a" "b"' },
  ],
  ['MCOLLECTIVE', 'I, [2026-10-01T12:00:00.123 #77]  INFO', { pid: '77', event_level: 'INFO' }],
  [
    'BRO_CONN',
    '1300475167.096535\tCXWv6p3\t10.0.0.5\t5353\t224.0.0.251\t5353\tudp\tdns\t-\t-\t-\tS0\tF\t0\tD\t1\t73\t0\t0\t(empty)',
    {
      uid: 'CXWv6p3',
      resp_p: '5353',
      service: 'dns',
      conn_state: 'S0',
      orig_ip_bytes: '73',
      tunnel_parents: '(empty)',
    },
  ],
  [
    'NAGIOSLOGLINE',
    '[1427925600] SERVICE ALERT: web-07;disk;CRITICAL;SOFT;1;DISK CRITICAL; 5 % free',
    {
      ...{
        nagios_epoch: '1427925600',
        nagios_type: 'SERVICE ALERT',
        nagios_hostname: 'web-07',
        nagios_service: 'disk',
      },
      ...{ nagios_state: 'CRITICAL', nagios_statelevel: 'SOFT', nagios_attempt: '1' },
      ...{ nagios_message: 'DISK CRITICAL; 5 % free' },
    },
  ],
  [
    'NAGIOSLOGLINE',
    '[1427925600] EXTERNAL COMMAND: SCHEDULE_HOST_DOWNTIME;web-07;1427956600;1427990000;1;0;7200;ada;new disk',
    { nagios_command: 'SCHEDULE_HOST_DOWNTIME', nagios_start_time: '1427956600', author: 'ada', comment: 'new disk' },
  ],
]

t.test('the sets of programs read lines made by their documented formats', async t => {
  for (const [pattern, line, fields] of LINES) {
    const codec = codecOf('grok', { pattern: `^%{${pattern}}` })!
    t.match(readFields(codec, Buffer.from(line)) ?? 'no match', fields, `${pattern}: ${line.slice(0, 60)}`)
  }
})

t.test('a pattern of a set does not read the lines of another message', async t => {
  const others: readonly (readonly [string, string])[] = [
    ['CISCOFW302010', '10 in use'],
    ['CISCOFW106001', 'Outbound TCP connection closed from 192.0.2.1/1 to 10.0.0.5/22 flags SYN on interface outside'],
    ['HAPROXYTCP', 'Nov 22 12:14:14 edge haproxy[14389]: Proxy web-in started.'],
    ['NAGIOSLOGLINE', '[1427925600] Auto-save of retention data completed successfully.'],
    ['RT_FLOW2', 'RT_FLOW_SESSION_DENY: session denied 10.0.0.5/1->192.0.2.1/23 junos-telnet 6(0) p trust untrust'],
    ['REDISLOG', '14 Nov 07:01:22.119 * Ready'],
  ]
  for (const [pattern, line] of others)
    t.equal(readFields(codecOf('grok', { pattern: `^%{${pattern}:f}` })!, Buffer.from(line)), undefined, pattern)
})
