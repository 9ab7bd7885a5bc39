import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { built, checkout } from '../support/checkout.js'
import { parsedLines } from '../support/parsed-lines.js'
import { until } from '../support/until.js'
import { type RunOptions, Tree, type TreeOptions } from './tree.js'

const LIB = '/usr/local/lib/sluice'
const LOOK_MS = 100

/** A tree that has Sluice as it was built, its units, and a transcript of what is done in it. */
export class Machine {
  readonly tree: Tree
  readonly #tell: (line: string) => void

  static async boot(
    tell: (line: string) => void,
    options: Pick<TreeOptions, 'alone' | 'packages'> = {},
  ): Promise<Machine> {
    const units = readdirSync(join(checkout, 'systemd'))
    const copies = [
      [join(built, 'src'), `${LIB}/dist/src`],
      [join(checkout, 'package.json'), `${LIB}/package.json`],
      ...productionPackages().map(path => [join(checkout, path), `${LIB}/${path}`] as const),
      ...units.map(name => [join(checkout, 'systemd', name), `/etc/systemd/system/${name}`] as const),
    ] as const
    const tree = await Tree.boot({ copies, ...options })
    const main = `${LIB}/dist/src/cli/main.js`
    await tree.sh(`chmod -R a+rX ${LIB}; chmod a+x ${main}; ln -s ${main} /usr/local/bin/sluice`)
    return new Machine(tree, tell)
  }

  private constructor(tree: Tree, tell: (line: string) => void) {
    this.tree = tree
    this.#tell = tell
  }

  /** Runs a command as a person would, into the transcript; what it printed, whatever its exit code. */
  async do(command: string, options?: RunOptions): Promise<string> {
    this.#tell(`# ${command}`)
    const { code, stdout, stderr } = await this.tree.run('sh', ['-c', command], options)
    const said = `${stdout}${stderr}`
    for (const line of said.trimEnd().split('\n')) if (line) this.#tell(line)
    if (code !== 0) this.#tell(`(exit code ${code})`)
    return said
  }

  /** As `do`, again and again until what it printed is right; only the last time is in the transcript. */
  async until(command: string, right: (said: string) => boolean): Promise<string> {
    let said = ''
    const look = async () => {
      const { stdout, stderr } = await this.tree.run('sh', ['-c', command])
      said = `${stdout}${stderr}`
      return right(said)
    }
    await until(command, look, { every: LOOK_MS, show: () => said })
    this.#tell(`# ${command}`)
    for (const line of said.trimEnd().split('\n')) if (line) this.#tell(line)
    return said
  }

  /** A property of a unit, as systemd has it. */
  async property(unit: string, name: string): Promise<string> {
    return (await this.tree.sh(`systemctl show -P ${name} ${unit}`)).trim()
  }

  /** Waits until a property of a unit is as it should be. */
  async untilProperty(unit: string, name: string, right: RegExp): Promise<string> {
    return (await this.until(`systemctl show -P ${name} ${unit}`, said => right.test(said.trim()))).trim()
  }

  /** What the journal has of a unit since its last start, a JSON object each. */
  async journal(unit: string): Promise<Readonly<Record<string, string>>[]> {
    const text = await this.tree.sh(`journalctl --sync; journalctl -u ${unit} -o json --no-pager`)
    return parsedLines(text)
  }

  /** Settings beside those of the unit, as `systemctl edit` leaves them. */
  async edit(unit: string, settings: Readonly<Record<string, string>>): Promise<void> {
    const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
    this.write({ [`/etc/systemd/system/${unit}.service.d/override.conf`]: ['[Service]', ...lines, ''].join('\n') })
    await this.do('systemctl daemon-reload')
  }

  /** As it was after the boot. */
  async reset(): Promise<void> {
    const units = "sluice.service sluice-api.service 'sluice@*.service'"
    await this.tree.sh(`systemctl stop 'sluice*.socket' ${units} 2>/dev/null || true
      systemctl reset-failed ${units} 2>/dev/null || true
      rm -rf /etc/sluice /var/lib/private/sluice* /var/log/app /var/log/shop /etc/systemd/system/sluice*.d /etc/systemd/system/sluice*.socket /etc/systemd/system/*.wants/sluice*
      mkdir -p /etc/sluice; mkdir -m 0755 /var/log/app
      systemctl daemon-reload; journalctl --rotate --vacuum-time=1s >/dev/null 2>&1`)
  }

  /** Texts to files, told in the transcript by their names. */
  write(files: Readonly<Record<string, string>>): void {
    for (const [path, text] of Object.entries(files)) {
      this.#tell(`# cat > ${path}`)
      for (const line of text.trimEnd().split('\n')) this.#tell(line)
      this.tree.write(path, text)
    }
  }
}

/** Folders of the packages that Sluice needs when it runs. */
function productionPackages(): string[] {
  const { packages } = JSON.parse(readFileSync(join(checkout, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean; optional?: boolean; devOptional?: boolean }>
  }
  return Object.entries(packages).flatMap(([path, { dev, optional, devOptional }]) =>
    path === '' || dev || optional || devOptional ? [] : [path],
  )
}
