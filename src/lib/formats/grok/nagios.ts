/** What Nagios and those that came of it write: `[epoch] TYPE: field;field;…`. */

const UNTIL = '[^;]*'
const fields = (...names: readonly string[]) => names.map(name => `(?<nagios_${name}>${UNTIL})`).join(';')
const typed = (type: string, ...names: readonly string[]) =>
  `(?<nagios_type>${type}): ${fields(...names.slice(0, -1))};(?<nagios_${names.at(-1)}>.*)`

/** By the end of the name of the pattern: the type of the entry, and its fields. */
const ENTRIES: Readonly<Record<string, readonly [type: string, ...fields: string[]]>> = {
  CURRENT_SERVICE_STATE: [
    'CURRENT SERVICE STATE',
    ...['hostname', 'service', 'state', 'statetype', 'statecode', 'message'],
  ],
  CURRENT_HOST_STATE: ['CURRENT HOST STATE', 'hostname', 'state', 'statetype', 'statecode', 'message'],
  SERVICE_NOTIFICATION: [
    'SERVICE NOTIFICATION',
    ...['notifyname', 'hostname', 'service', 'state', 'contact', 'message'],
  ],
  HOST_NOTIFICATION: ['HOST NOTIFICATION', 'notifyname', 'hostname', 'state', 'contact', 'message'],
  SERVICE_ALERT: ['SERVICE ALERT', 'hostname', 'service', 'state', 'statelevel', 'attempt', 'message'],
  HOST_ALERT: ['HOST ALERT', 'hostname', 'state', 'statelevel', 'attempt', 'message'],
  SERVICE_FLAPPING_ALERT: ['SERVICE FLAPPING ALERT', 'hostname', 'service', 'state', 'message'],
  HOST_FLAPPING_ALERT: ['HOST FLAPPING ALERT', 'hostname', 'state', 'message'],
  SERVICE_DOWNTIME_ALERT: ['SERVICE DOWNTIME ALERT', 'hostname', 'service', 'state', 'comment'],
  HOST_DOWNTIME_ALERT: ['HOST DOWNTIME ALERT', 'hostname', 'state', 'comment'],
  PASSIVE_SERVICE_CHECK: ['PASSIVE SERVICE CHECK', 'hostname', 'service', 'state', 'comment'],
  PASSIVE_HOST_CHECK: ['PASSIVE HOST CHECK', 'hostname', 'state', 'comment'],
  SERVICE_EVENT_HANDLER: ['SERVICE EVENT HANDLER', 'hostname', 'service', 'state', 'statelevel', 'event_handler_name'],
  HOST_EVENT_HANDLER: ['HOST EVENT HANDLER', 'hostname', 'state', 'statelevel', 'event_handler_name'],
  TIMEPERIOD_TRANSITION: ['TIMEPERIOD TRANSITION', 'service', 'unknown1', 'unknown2'],
}

const HOST = ['hostname']
const SERVICE = ['hostname', 'service']
/** External commands, and their fields. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  DISABLE_SVC_CHECK: SERVICE,
  ENABLE_SVC_CHECK: SERVICE,
  DISABLE_HOST_CHECK: HOST,
  ENABLE_HOST_CHECK: HOST,
  PROCESS_SERVICE_CHECK_RESULT: [...SERVICE, 'state', 'check_result'],
  PROCESS_HOST_CHECK_RESULT: [...HOST, 'state', 'check_result'],
  DISABLE_HOST_SVC_NOTIFICATIONS: HOST,
  ENABLE_HOST_SVC_NOTIFICATIONS: HOST,
  DISABLE_HOST_NOTIFICATIONS: HOST,
  ENABLE_HOST_NOTIFICATIONS: HOST,
  DISABLE_SVC_NOTIFICATIONS: SERVICE,
  ENABLE_SVC_NOTIFICATIONS: SERVICE,
}

const entries = Object.entries(ENTRIES).map(([name, [type, ...names]]) => [`NAGIOS_${name}`, typed(type, ...names)])
const commands = Object.entries(COMMANDS).map(([name, names]) => [
  `NAGIOS_EC_LINE_${name}`,
  `(?<nagios_type>EXTERNAL COMMAND): (?<nagios_command>${name});${fields(...names)}`,
])
const DOWNTIME =
  '(?<nagios_type>EXTERNAL COMMAND): (?<nagios_command>SCHEDULE_HOST_DOWNTIME);' +
  `${fields('hostname', 'start_time', 'end_time', 'fixed', 'trigger_id', 'duration')};(?<author>${UNTIL});(?<comment>.*)`
const ALL = [
  ...[...entries, ...commands].map(([name]) => name),
  ...['NAGIOS_EC_LINE_SCHEDULE_HOST_DOWNTIME', 'NAGIOS_WARNING'],
]

export const NAGIOS: Readonly<Record<string, string>> = {
  NAGIOSTIME: '\\[%{NUMBER:nagios_epoch}\\]',
  ...Object.fromEntries(Object.entries(ENTRIES).map(([name, [type]]) => [`NAGIOS_TYPE_${name}`, type])),
  NAGIOS_TYPE_EXTERNAL_COMMAND: 'EXTERNAL COMMAND',
  ...Object.fromEntries([...Object.keys(COMMANDS), 'SCHEDULE_HOST_DOWNTIME'].map(name => [`NAGIOS_EC_${name}`, name])),
  NAGIOS_EC_SCHEDULE_SERVICE_DOWNTIME: 'SCHEDULE_SVC_DOWNTIME',
  NAGIOS_WARNING: 'Warning: +%{GREEDYDATA:nagios_message}',
  ...Object.fromEntries([...entries, ...commands]),
  NAGIOS_EC_LINE_SCHEDULE_HOST_DOWNTIME: DOWNTIME,
  NAGIOSLOGLINE: `%{NAGIOSTIME} (?:${ALL.map(name => `%{${name}}`).join('|')})`,
}
