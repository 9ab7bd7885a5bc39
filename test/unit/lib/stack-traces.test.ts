import t from 'tap'
import { CONTINUES, type Frame, LINE_END } from '../../../src/lib/lines/line-splitter.js'
import { RecordSplitter } from '../../../src/lib/lines/record-splitter.js'
import { LANGUAGES, type Language, stackTraces } from '../../../src/lib/lines/stack-traces.js'

/** A line that has nothing to do with any trace, as loggers of each kind begin them. */
const NEIGHBOURS = [
  '2026-01-01 12:00:00,123 ERROR [main] shop: sale failed',
  '[12:00:00] INFO ready (in 12 ms)',
  '{"level":"error","message":"sale failed"}',
  'level=error msg="sale failed" at=main.go:12',
  'Jan  1 12:00:00 web-07 sshd[12]: session opened',
  'E0101 12:00:00.123456       1 main.go:12] failed',
  'done',
]

interface Trace {
  readonly name: string
  readonly language: Language
  /** Whether it is part of the event before it. */
  readonly joins: boolean
  readonly text: string
}

const TRACES: readonly Trace[] = [
  {
    name: 'a cause, suppressed ones, and what they have in common',
    language: 'java',
    joins: true,
    text: `java.lang.IllegalStateException: sale failed: {"id": 12}
\tat com.acme.shop.Shop.sell(Shop.java:12) ~[shop.jar:1.2]
\tat com.acme.shop.Main.main(Main.java:5)
\tSuppressed: java.io.IOException: close failed
\t\tat com.acme.shop.Till.close(Till.java:33)
\t\t... 2 more
\t\tCaused by: java.net.SocketException: Broken pipe
\t\t\tat java.base/sun.nio.ch.SocketDispatcher.write0(Native Method)
\t\t\t... 3 more
Caused by: java.sql.SQLException: no row
    at com.acme.shop.Db$Pool$$Lambda$14/0x0000000800066840.get(Unknown Source)
    at com.acme.shop.Db.<init>(Db.java:7)
    ... 2 common frames omitted
Caused by: com.acme.shop.DbException
\tat com.acme.shop.Db.open(Db.java:70)
\t... 4 more`,
  },
  {
    name: 'the root cause first',
    language: 'java',
    joins: true,
    text: `java.io.IOException: disk full
\tat com.acme.Disk.write(Disk.java:3)
Wrapped by: com.acme.StoreException: cannot store
\tat com.acme.Store.put(Store.java:9)
\t... 1 common frames omitted`,
  },
  {
    name: 'no frames, then a frame',
    language: 'java',
    joins: true,
    text: 'java.lang.OutOfMemoryError\n\tat com.acme.Cache.grow(Cache.java:1)',
  },
  {
    name: 'an uncaught one, with an empty line and an indented one in its message',
    language: 'java',
    joins: false,
    text: `Exception in thread "main" MyFailure: not

  like this
\tat Main.main(Main.java:3)
Caused by: [CIRCULAR REFERENCE: MyFailure: not]`,
  },
  {
    name: 'an inner class of Kotlin',
    language: 'java',
    joins: true,
    text: `com.acme.app.Order$State$BadTransitionException: NEW -> PAID
\tat com.acme.app.OrderKt.pay(Order.kt:14)
\tat kotlin.coroutines.jvm.internal.BaseContinuationImpl.resumeWith(ContinuationImpl.kt:33)`,
  },
  {
    name: 'logged, and chained',
    language: 'python',
    joins: true,
    text: `Traceback (most recent call last):
  File "/srv/job.py", line 5, in <module>
    f(0)
  File "/srv/job.py", line 3, in f
    return 1 / n
           ~~^~~
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/srv/job.py", line 6, in <module>
    {}["k"]
KeyError: 'k'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/job.py", line 9, in <module>
    raise JobError() from e
job.errors.JobError`,
  },
  {
    name: 'a group of exceptions',
    language: 'python',
    joins: true,
    text: `  + Exception Group Traceback (most recent call last):
  |   File "/srv/job.py", line 13, in <module>
  |     raise ExceptionGroup("eg", [ValueError(1), KeyError("a")])
  | ExceptionGroup: eg (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +---------------- 2 ----------------
    | KeyError: 'a'
    +------------------------------------

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/srv/job.py", line 20, in <module>
    raise RuntimeError("after") from e
RuntimeError: after`,
  },
  {
    name: 'a group behind an exception',
    language: 'python',
    joins: true,
    text: `Traceback (most recent call last):
  File "/srv/job.py", line 3, in f
    return 1 / n
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

  + Exception Group Traceback (most recent call last):
  |   File "/srv/job.py", line 24, in <module>
  |     raise ExceptionGroup("eg", [ValueError(1)])
  | ExceptionGroup: eg (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: 1
    +------------------------------------`,
  },
  {
    name: 'a syntax error, and one line many times',
    language: 'python',
    joins: true,
    text: `Traceback (most recent call last):
  File "/srv/job.py", line 15, in r
    def r(): r()
             ^^^
  [Previous line repeated 996 more times]
  File "<string>", line 1
    def f(
         ^
SyntaxError: '(' was never closed`,
  },
  {
    name: 'a panic with a signal and several goroutines',
    language: 'go',
    joins: false,
    text: `panic: runtime error: invalid memory address or nil pointer dereference [recovered]
\tpanic: again
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x45e1c0]

goroutine 1 [running]:
main.(*Shop).Sell(0x0, {0xc000010018, 0x2}, ...)
\t/srv/shop.go:8 +0x1d
main.main()
\t/srv/main.go:12 +0x2a
panic({0x4a0e20?, 0x5290b0?})
\t/usr/local/go/src/runtime/panic.go:884 +0x213
created by github.com/acme/shop.Run in goroutine 7
\t/srv/shop/run.go:20 +0x65

goroutine 18 [chan receive, 5 minutes]:
github.com/acme/shop.worker(...)
\t/srv/shop/run.go:31
...additional frames elided...
created by main.main
\t/srv/main.go:10 +0x30
exit status 2`,
  },
  {
    name: 'a fatal error of the runtime',
    language: 'go',
    joins: false,
    text: `runtime: goroutine stack exceeds 1000000000-byte limit
runtime: sp=0xc0200e0390 stack=[0xc0200e0000, 0xc0400e0000]
fatal error: stack overflow

runtime stack:
runtime.throw({0x471a3d?, 0x0?})
\t/usr/local/go/src/runtime/panic.go:1077 +0x5c

goroutine 1 gp=0xc0000061c0 m=0 mp=0x5290b0 [running]:
main.f(0x0?)
\t/srv/main.go:3 +0x10 fp=0xc0200e03a0 sp=0xc0200e0398 pc=0x457f70

rax    0x0
r15    0xffffffffffffffff
rip    0x46b0a1
cs     0x33`,
  },
  {
    name: 'a dump asked for by a signal',
    language: 'go',
    joins: false,
    text: `SIGQUIT: quit
PC=0x46b0a1 m=0 sigcode=0

goroutine 1 [select]:
main.main()
\t/srv/main.go:12 +0x2a`,
  },
  {
    name: 'a panic that a server recovered and logged',
    language: 'go',
    joins: true,
    text: `goroutine 7 [running]:
net/http.(*conn).serve.func1()
\t/usr/local/go/src/net/http/server.go:1868 +0xb9
created by net/http.(*Server).Serve in goroutine 1
\t/usr/local/go/src/net/http/server.go:3086 +0x5cb`,
  },
  {
    name: 'the stack that zap and error packages print',
    language: 'go',
    joins: true,
    text: `github.com/acme/shop.(*Cart).Add
\t/srv/shop/cart.go:12
main.main
\t/srv/main.go:9
runtime.main
\t/usr/local/go/src/runtime/proc.go:250`,
  },
  {
    name: 'errors in errors, with their properties',
    language: 'node',
    joins: false,
    text: `AggregateError: all failed
    at main (file:///srv/app.mjs:3:58)
    at async ModuleLoader.import (node:internal/modules/esm/loader:606:24) {
  [errors]: [
    DbError: query failed
        at main (file:///srv/app.mjs:3:78)
        ... 2 lines matching cause stack trace ...
        at async run (node:internal/modules/run_main:117:5) {
      code: 'E_DB',
      detail: [Object],
      [cause]: TypeError: x is not a function
          at inner (file:///srv/app.mjs:2:25)
    },
    Error: two
        at main (file:///srv/app.mjs:3:117)
  ]
}
Caused by: Error: three
    at main (file:///srv/app.mjs:4:1)`,
  },
  {
    name: 'an uncaught error',
    language: 'node',
    joins: false,
    text: `/srv/app.cjs:1
throw new Error('boom')
^

Error: boom
    at Object.<anonymous> (/srv/app.cjs:1:7)
    at node:internal/main/run_main_module:28:49

Node.js v20.20.2`,
  },
  {
    name: 'an error event that nobody listened for',
    language: 'node',
    joins: false,
    text: `node:events:502
      throw er; // Unhandled 'error' event
      ^

Error: connect ECONNREFUSED 127.0.0.1:1
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611:16)
Emitted 'error' event on Socket instance at:
    at emitErrorNT (node:internal/streams/destroy:169:8) {
  errno: -111,
  code: 'ECONNREFUSED'
}

Node.js v20.20.2`,
  },
  {
    name: 'null, thrown',
    language: 'node',
    joins: false,
    text: `/srv/app.cjs:1
throw null
^
null
(Use \`node --trace-uncaught ...\` to show where the exception was thrown)

Node.js v20.20.2`,
  },
  {
    name: 'a syntax error in a module',
    language: 'node',
    joins: false,
    text: `file:///srv/app.mjs:1
let a = ;
        ^

SyntaxError: Unexpected token ';'
    at wrapSafe (node:internal/modules/cjs/loader:1464:18)

Node.js v22.1.0`,
  },
  {
    name: 'what is no error, uncaught',
    language: 'node',
    joins: false,
    text: `node:internal/process/promises:389
      new UnhandledPromiseRejection(reason);
      ^

Uncaught:
'text'
Thrown at:
    at processPromiseRejections (node:internal/process/promises:470:17) {
  code: 'ERR_UNHANDLED_REJECTION'
}

Node.js v20.20.2`,
  },
]

/** The events that the lines make, without their line ends; those that go on from an earlier one begin with `…`. */
function eventsOf(languages: readonly Language[], text: string, flushAt: readonly number[] = []): string[] {
  const limits = { joiner: stackTraces(languages), maxLines: 1000, maxBytes: 1 << 20 }
  const splitter = new RecordSplitter(limits)
  const events: string[] = []
  const add = (frame: Frame | undefined) => {
    for (let i = 0; i < (frame?.length ?? 0); i++) {
      const { chunk, starts, ends, flags } = frame!
      if ((flags[i]! & LINE_END) === 0) throw new Error('a line without its end')
      events.push((flags[i]! & CONTINUES ? '…' : '') + chunk.toString('utf8', starts[i]!, ends[i]!))
    }
  }
  for (const [i, line] of text.split('\n').entries()) {
    if (flushAt.includes(i)) add(splitter.flush())
    add(splitter.push(Buffer.from(`${line}\n`)))
  }
  add(splitter.flush())
  return events
}

t.test('a trace is one event, by itself or with what was logged before it', async t => {
  for (const { name, language, joins, text } of TRACES) {
    for (const languages of [[language], LANGUAGES]) {
      const wrong: unknown[] = []
      for (const [i, before] of NEIGHBOURS.entries()) {
        const after = NEIGHBOURS[(i + 1) % NEIGHBOURS.length]!
        const events = eventsOf(languages, [before, text, after, after].join('\n'))
        const expected = [...(joins ? [`${before}\n${text}`] : [before, text]), after, after]
        if (JSON.stringify(events) !== JSON.stringify(expected)) wrong.push({ events, expected })
      }
      t.same(wrong.slice(0, 1), [], `${languages}: ${name}`)
      t.same(eventsOf(languages, text), [text], `${languages}: ${name}: by itself`)
    }
  }
})

t.test('a trace that comes in the middle of a flush goes on, and a new one begins', async t => {
  for (const { name, language, joins, text } of TRACES) {
    const before = NEIGHBOURS[0]!
    t.same(eventsOf([language], `${before}\n${text}`, [1]), [before, text], `${name}: behind an event that is gone`)
    const lines = text.split('\n').length
    for (let at = 1; at < lines; at++) {
      const [first, ...rest] = eventsOf([language], `${before}\n${text}\n${before}`, [1 + at])
      // Whatever is told apart then, no line is taken for something else.
      const events = [first, ...rest].map(event => event!.replace(/^…/, ''))
      t.same(events.join('\n'), `${before}\n${text}\n${before}`, `${name}: flushed behind line ${at}`)
      t.equal(events.at(-1), before)
      t.ok(joins || first === before)
    }
  }
  const frames = 'java.lang.Error: no\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)\nnext'
  t.same(eventsOf(['java'], frames, [2]), [
    'java.lang.Error: no\n\tat a.B.c(B.java:1)',
    '…\tat a.B.d(B.java:2)',
    'next',
  ])
})

t.test('two traces are two events', async t => {
  for (const { name, language, joins, text } of TRACES) {
    const twice = eventsOf([language], [NEIGHBOURS[0]!, text, NEIGHBOURS[1]!, text].join('\n'))
    t.equal(twice.length, joins ? 2 : 4, `${name}: with a line between them`)
    if (language !== 'java' || !joins) {
      const direct = eventsOf([language], `${text}\n${text}`)
      if (language !== 'go' || !joins) t.same(direct, [text, text], `${name}: one behind the other`)
    }
  }
})

t.test('what is no trace stays alone', async t => {
  const lines = [
    ...NEIGHBOURS,
    '',
    'java.util.logging: started',
    'com.acme.Service: started',
    'www.Example.com: GET /',
    'NullPointerException: no package',
    'com.acme.BadException was thrown',
    'com.acme.onError: called',
    'Caused by a storm',
    '... and more',
    'Traceback follows',
    'ValueError: by itself',
    'During the night',
    'goroutine leak found',
    'goroutines: 12',
    'value 0x12',
    'main.main() was called',
    'exit status 2',
    'created by hand',
    'example.com is up',
    'ratio=0.5',
    '3.14',
    'the end.',
    '/var/log/app.log: 12',
    'see /var/log/app.log:12',
    '/healthz took ms:12',
    'Node.js v20.20.2',
    'null',
    '}no brackets',
    'Emitted 12 events',
    '^',
    '2026-01-01T00:00:00.000Z',
  ]
  for (const languages of [...LANGUAGES.map(language => [language]), LANGUAGES])
    t.same(eventsOf(languages, lines.join('\n')), lines, String(languages))
})
